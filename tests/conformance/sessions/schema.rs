//! Documents of several versions.

use futures::future::LocalBoxFuture;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::model::Calls;
use support::schema::contacts::{one, stored, typed, v1};

struct Contacts(SchemaRepository<Document>);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let contacts = typed(db);
        contacts.ensure_indexes().await.unwrap();
        let newest = doc! { "_id": 0, "schemaVersion": 2, "numbers": [] };
        stored(db).insert_many([newest, v1(1), v1(2), v1(3)]).await.unwrap();
        Box::new(Contacts(contacts)) as Box<dyn Calls>
    })
}

impl Calls for Contacts {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let contacts = &self.0;
        Box::pin(async move {
            let new = doc! { "_id": 7, "name": "Ann" };
            contacts.insert(&new).session(&mut *session).await.unwrap();
            let many = [doc! { "_id": 10 }, doc! { "_id": 11 }];
            assert_eq!(
                contacts.insert_many(&many).session(&mut *session).await.unwrap().len(),
                2
            );
            let set = || doc! { "$set": { "name": "Bea" } };
            // The second one is converted in the transaction.
            for id in [7, 1] {
                let updated = contacts.update(id, set()).session(&mut *session).await.unwrap();
                assert!(updated.modified);
                let read = contacts.get(id).session(&mut *session).await.unwrap().unwrap();
                assert_eq!(read.get("name"), Some(&"Bea".into()));
            }
            let replaced = contacts.replace(2, &new_of(2)).session(&mut *session).await;
            assert!(replaced.unwrap().modified);
            assert!(contacts.delete(3).session(&mut *session).await.unwrap().found);
            let found = contacts.find(doc! { "name": "Bea" }).older(1, doc! {});
            assert_eq!(found.session(&mut *session).await.unwrap().len(), 2);
            let counts = contacts.versions().session(&mut *session).await.unwrap();
            assert_eq!(counts.len(), 1);
            // A refused call does not abort the transaction.
            let missing = contacts.update(9, set()).session(&mut *session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            assert!(!contacts.delete(9).session(session).await.unwrap().found);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get(0).session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        let push = doc! { "$push": { "numbers": n } };
        Box::pin(async move { self.0.update(0, push).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let found = one(db, 0).await.unwrap();
            let numbers = found.get_array("numbers").unwrap().iter();
            let mut numbers: Vec<i64> = numbers.map(|number| number.as_i32().unwrap().into()).collect();
            numbers.sort_unstable();
            numbers
        })
    }
}

fn new_of(id: i32) -> Document {
    doc! { "_id": id, "name": "Cleo" }
}
