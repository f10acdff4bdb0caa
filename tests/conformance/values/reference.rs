//! Orders with a copy of fields of their customer, who has the same id.

use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, with};
use support::reference;
use support::reference::{customers, findings, orders};

pub(super) struct Orders {
    orders: reference::Orders,
    customers: Collection<Document>,
}

impl Values for Orders {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        Self {
            orders: orders(db).await,
            customers: customers(db),
        }
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        self.customers
            .insert_one(doc! { "_id": id, "name": fields })
            .await
            .unwrap();
        let order = with(doc! { "_id": id, "customer": { "_id": id } }, fields);
        self.orders.insert(&order).await.unwrap();
        for name in [doc! { "other": "$name" }, fields.clone()] {
            let update = doc! { "$set": { "name": name } };
            let updated = self.orders.update_source(id.clone(), update).await.unwrap();
            assert_eq!(updated.copies_updated, 1, "{id}");
        }
        assert!(self.orders.clear_reference(id.clone()).await.unwrap().modified);
        assert!(
            self.orders
                .set_reference(id.clone(), id.clone())
                .await
                .unwrap()
                .modified
        );
        assert_eq!(self.orders.sweep().source(id.clone()).await.unwrap().copies, 0);
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let order = self.orders.get(id.clone()).await.unwrap();
        let current = self.orders.get(id.clone()).max_staleness(0).await.unwrap();
        let mut read: Vec<Document> = order.into_iter().chain(current).collect();
        read.retain(|order| order.get("customer").is_some_and(|customer| *customer != Bson::Null));
        for order in &mut read {
            let copy = order.get_document("customer").unwrap();
            let name = copy.get("name").cloned();
            order.insert("v", name);
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        if self.orders.get(id.clone()).await.unwrap().is_some() {
            assert!(
                self.orders.delete_source(id.clone()).await.is_err(),
                "{id} is referenced"
            );
            self.orders.clear_reference(id.clone()).await.unwrap();
        }
        self.orders.delete_source(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        findings(&self.orders).await.len()
    }
}
