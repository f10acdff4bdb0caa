//! Customers that are deleted through other repositories: as sources of references, as parents of a subset, and as lists.

use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::reference::action::DeleteSource;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, delegate, documents, retry_policy, session_calls};
use support::reference::{Orders, order};

const COLLECTIONS: &[&str] = &[
    "customers",
    "deleted_customers",
    "orders",
    "products",
    "more_visits",
    "revisions",
];

/// Customers 1 to 4. The orders refer to the first, if there are any. Each has two products and eight visits.
pub(super) struct Customers {
    has_orders: bool,
    pub(super) stored: Vec<Collection<Document>>,
    orders: Orders,
    products: SubsetRepository<Document, Document>,
    visits: OutlierRepository<Document, i32>,
    history: HistoryRepository<Document>,
    trash: Trash<Document>,
}

impl Model for Customers {
    const PATTERN: &'static str = "reference";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        let customers = of.collection("customers");
        let newest = Subset::new("newest").sort(doc! { "_id": -1 }).size(1);
        let products = SubsetRepository::builder(customers.clone(), of.collection("products")).subset(newest);
        let products = products
            .parent_field("customer")
            .child_id_field("_id")
            .retry(retry_policy());
        let visits = OutlierRepository::builder(customers.clone(), of.collection("more_visits")).array_field("visits");
        let visits = visits
            .parent_field("customer")
            .threshold(5)
            .max_overflow_elements(5)
            .retry(retry_policy());
        let orders = Orders::builder(of.collection("orders"), customers.clone()).reference_field("customer");
        let history = HistoryRepository::builder(customers.clone(), of.collection("revisions")).id_field("_id");
        Self {
            has_orders: true,
            history: history.time_field("at").retry(retry_policy()).build().unwrap(),
            orders: orders.copied_fields(["name"]).retry(retry_policy()).build().unwrap(),
            products: products.build().unwrap(),
            visits: visits.build().unwrap(),
            trash: Trash::builder(customers, of.collection("deleted_customers"))
                .retry(retry_policy())
                .build()
                .unwrap(),
            stored: COLLECTIONS.iter().map(|name| of.collection(name)).collect(),
        }
    }

    async fn fill(&self) {
        let repositories: [&dyn Repository; 5] =
            [&self.products, &self.visits, &self.history, &self.trash, &self.orders];
        for repository in &repositories[..4 + usize::from(self.has_orders)] {
            repository.ensure_indexes().await.unwrap();
        }
        let customers = [1, 2, 3, 4].map(|id| doc! { "_id": id, "name": "Ann" });
        self.history.insert_many(&customers).await.unwrap();
        for id in 1..=4 {
            let products = [1, 2].map(|n| doc! { "_id": 10 * id + n, "customer": id });
            self.products.insert_many(&products).await.unwrap();
            self.visits.push_many(id, &(0..8).collect::<Vec<i32>>()).await.unwrap();
        }
        if self.has_orders {
            for id in 1..=2 {
                self.orders.insert(&order(id, 1)).await.unwrap();
            }
        }
    }

    async fn facts(&self) -> Vec<String> {
        let stored: [&Collection<Document>; 6] = std::array::from_fn(|number| &self.stored[number]);
        let [customers, deleted, orders, products, visits, revisions] = documents(stored).await;
        let mut facts: Vec<String> = customers.iter().map(|customer| fact(customer, "customers")).collect();
        let deleted = deleted.iter().map(|entry| entry.get_document("document").unwrap());
        facts.extend(deleted.map(|customer| fact(customer, "deleted_customers")));
        for order in orders {
            let copy = order.get_document("customer").unwrap();
            let is_kept = copy.contains_key("deleted");
            facts.push(format!("{UNREAD}order {:?} kept: {is_kept}", order.get("_id")));
        }
        facts.extend(
            products
                .iter()
                .map(|product| format!("{UNREAD}product {:?}", product.get("_id"))),
        );
        let revision = |of: &Document| {
            format!(
                "{UNREAD}revision {:?} of {:?}",
                of.get("revision"),
                of.get("documentId")
            )
        };
        facts.extend(revisions.iter().map(revision));
        facts.extend(
            visits
                .iter()
                .map(|visits| format!("{UNREAD}visits of {:?}", visits.get("customer"))),
        );
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let deleted = self.trash.list().page().await.ok()?.items;
        let mut facts: Vec<String> = deleted
            .iter()
            .map(|entry| fact(&entry.document, "deleted_customers"))
            .collect();
        for id in 1..=4 {
            let customer = self.visits.get_full(id).await.unwrap();
            facts.extend(customer.map(|customer| fact(&customer, "customers")));
        }
        Some(facts)
    }
}

fn fact(customer: &Document, collection: &str) -> String {
    let number = |field: &str| customer.get_array(field).map_or(0, |array: &Vec<Bson>| array.len());
    let parts = [number("newest"), number("visits")].map(|parts| if parts == 0 { "none" } else { "some" });
    let id = customer.get("_id").unwrap();
    format!(
        "customer {id} in {collection}, products: {}, visits: {}",
        parts[0], parts[1]
    )
}

impl Operations for Customers {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = calls! { Self;
            Atomic, "ReferenceRepository::delete_source", "through four others", |m|
                m.delete_source(4).await.map(drop);
            Atomic, "ReferenceRepository::delete_source", "through four others, absent", |m|
                m.delete_source(9).await;
            Steps, "ReferenceRepository::delete_source", "through four others, keeping copies", |m|
                m.delete_source(1).on_references(OnReferences::KeepCopy).await.map(drop);
        };
        operations.extend(session_calls! { Self, customers;
            Atomic, "ReferenceRepository::delete_source", "through four others, in the caller's transaction", |m, s|
                m.delete_source(4).session(s).await;
        });
        operations
    }
}

impl Customers {
    fn delete_source(&self, id: i32) -> DeleteSource<'_> {
        let deletion = self.orders.delete_source(id).through(&self.products);
        deletion
            .through(&self.visits)
            .through(&self.history)
            .through(&self.trash)
    }

    fn without_orders(of: Of<'_>) -> Self {
        let has_orders = false;
        Self {
            has_orders,
            ..Self::new(of)
        }
    }
}

/// The same as parents.
pub(super) struct Parents(Customers);

impl Model for Parents {
    const PATTERN: &'static str = "subset";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        Self(Customers::without_orders(of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for Parents {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "SubsetRepository::delete_parent", "through three others", |m|
                m.0.products.delete_parent(2).through(&m.0.visits).through(&m.0.history).through(&m.0.trash).await.map(drop);
        }
    }
}

/// The same as lists.
pub(super) struct Lists(Customers);

impl Model for Lists {
    const PATTERN: &'static str = "outlier";
    const COLLECTIONS: &'static [&'static str] = COLLECTIONS;

    fn new(of: Of<'_>) -> Self {
        Self(Customers::without_orders(of))
    }

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>> }
}

impl Operations for Lists {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "OutlierRepository::delete", "through three others", |m|
                m.0.visits.delete(2).through(&m.0.products).through(&m.0.history).through(&m.0.trash).await.map(drop);
        }
    }
}
