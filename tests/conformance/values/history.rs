//! Histories.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::{Values, set, with};
use support::history::{Policies, findings, policies};

pub(super) struct Histories(Policies);

impl Values for Histories {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        Self(policies(db).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "policyId": id }, fields);
        self.0.insert(&document).await.unwrap();
        self.0.delete(id.clone()).await.unwrap();
        self.0.insert_many(std::slice::from_ref(&document)).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.upsert(&document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
        assert_eq!(self.0.restore(id.clone(), 1).await.unwrap().revision, 7);
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let Some(now) = self.0.get(id.clone()).await.unwrap() else {
            return Vec::new();
        };
        let last = self.0.as_of(id.clone(), DateTime::MAX).await.unwrap().unwrap();
        let page = self.0.revisions(id.clone()).page().await.unwrap().revisions;
        assert_eq!(page.len(), 7, "{id}");
        let revisions = page.into_iter().filter_map(|revision| revision.document);
        revisions.chain([now.document, last.document.unwrap()]).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        findings(&self.0).await.len()
    }
}
