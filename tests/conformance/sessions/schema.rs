//! Documents of several versions.

use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::model::Calls;
use support::schema::contacts::{one, stored, typed, v1};

pub(super) struct Contacts(SchemaRepository<Document>);

impl Calls for Contacts {
    const NAME: &'static str = "schema";

    async fn begin(db: &TestDatabase) -> Self {
        let contacts = typed(db);
        contacts.ensure_indexes().await.unwrap();
        let newest = doc! { "_id": 0, "schemaVersion": 2, "numbers": [] };
        stored(db).insert_many([newest, v1(1), v1(2), v1(3)]).await.unwrap();
        Self(contacts)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let contacts = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        let new = doc! { "_id": 7, "name": "Ann" };
        run!(contacts.insert(&new)).unwrap();
        let many = [doc! { "_id": 10 }, doc! { "_id": 11 }];
        assert_eq!(run!(contacts.insert_many(&many)).unwrap().len(), 2);
        let set = || doc! { "$set": { "name": "Bea" } };
        // The second one is converted in the transaction.
        for id in [7, 1] {
            let updated = run!(contacts.update(id, set())).unwrap();
            assert!(updated.modified);
            let read = run!(contacts.get(id)).unwrap().unwrap();
            assert_eq!(read.get("name"), Some(&"Bea".into()));
        }
        let replaced = run!(contacts.replace(2, &new_of(2)));
        assert!(replaced.unwrap().modified);
        assert!(run!(contacts.delete(3)).unwrap().found);
        let found = contacts.find(doc! { "name": "Bea" }).older(1, doc! {});
        assert_eq!(found.session(&mut *session).await.unwrap().len(), 2);
        let counts = run!(contacts.versions()).unwrap();
        assert_eq!(counts.len(), 1);
        // A refused call does not abort the transaction.
        let missing = run!(contacts.update(9, set())).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!contacts.delete(9).session(session).await.unwrap().found);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(0).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        let push = doc! { "$push": { "numbers": n } };
        self.0.update(0, push).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let found = one(db, 0).await.unwrap();
        let numbers = found.get_array("numbers").unwrap().iter();
        numbers.map(|number| number.as_i32().unwrap().into()).collect()
    }
}

fn new_of(id: i32) -> Document {
    doc! { "_id": id, "name": "Cleo" }
}
