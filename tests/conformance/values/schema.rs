//! Documents of several versions.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, set, with};
use support::schema::contacts::typed;

pub(super) struct Contacts(SchemaRepository<Document>);

impl Values for Contacts {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        let contacts = typed(db);
        contacts.ensure_indexes().await.unwrap();
        Self(contacts)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "_id": id }, fields);
        self.0.insert(&document).await.unwrap();
        assert!(self.0.delete(id.clone()).await.unwrap().found);
        self.0.insert_many(std::slice::from_ref(&document)).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let found = self.0.find(doc! { "_id": { "$eq": id } }).await.unwrap();
        let document = self.0.get(id.clone()).await.unwrap();
        document.into_iter().chain(found).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        self.0.verify().stream().try_collect::<Vec<_>>().await.unwrap().len()
    }
}
