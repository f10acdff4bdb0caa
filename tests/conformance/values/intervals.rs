//! Intervals.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::{Values, set, with};
use support::history::intervals::{Prices, findings, prices};

pub(super) struct Intervals(Prices);

impl Values for Intervals {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        Self(prices(db).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "item": id }, fields);
        self.0.insert(&document).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let now = self.0.get(id.clone()).await.unwrap();
        let last = self.0.as_of(id.clone(), DateTime::now()).await.unwrap();
        let read = now.into_iter().chain(last);
        read.map(|interval| interval.document).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.end(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        findings(&self.0).await.len()
    }
}
