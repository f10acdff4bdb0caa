//! Lists.

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, set, with};
use support::outlier::{builder, findings, ready};

pub(super) struct Lists(OutlierRepository<Document, Document>);

impl Values for Lists {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        Self(ready(db, builder(db).threshold(2).max_overflow_elements(2)).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let element = |n: i32| with(doc! { "n": n }, fields);
        let book = doc! { "_id": id, "customers_purchased": [element(0), element(1), element(2)] };
        self.0.insert(&with(book, fields)).await.unwrap();
        self.0.push(id.clone(), &element(3)).await.unwrap();
        self.0.push_many(id.clone(), &[element(4), element(5)]).await.unwrap();
        for n in [0, 5] {
            let updated = self.0.update_element(id.clone(), doc! { "n": n }, set(fields)).await;
            assert!(updated.unwrap().modified);
        }
        assert!(self.0.contains(id.clone(), &element(4)).await.unwrap());
        assert!(self.0.remove(id.clone(), &element(1)).await.unwrap().found);
        self.0.rebalance(id.clone()).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read = match self.0.elements(id.clone()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            elements => elements.unwrap(),
        };
        let numbers: Vec<i32> = read.iter().map(|element| element.get_i32("n").unwrap()).collect();
        assert!(numbers.is_empty() || numbers == [0, 2, 3, 4, 5], "{id}: {numbers:?}");
        read.extend(self.0.get(id.clone()).await.unwrap().map(|book| book.document));
        read.extend(self.0.get_full(id.clone()).await.unwrap());
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        findings(&self.0).await.len()
    }
}
