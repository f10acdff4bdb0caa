//! Embedded children.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::embedded::{Patrons, address, builder, ids, patron};

pub(super) struct Children(Patrons);

impl Calls for Children {
    const NAME: &'static str = "embedded";

    async fn begin(db: &TestDatabase) -> Self {
        let patrons = builder(db).build().unwrap();
        patrons.ensure_indexes().await.unwrap();
        patrons.insert(&patron("joe", [])).await.unwrap();
        Self(patrons)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let patrons = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(patrons.insert(&patron("jim", []))).unwrap();
        let two = [patron("sue", []), patron("tom", [])];
        run!(patrons.insert_many(&two)).unwrap();
        let found = run!(patrons.find(doc! { "_id": "sue" })).unwrap();
        assert_eq!(found, two[..1]);
        for id in [1, 2, 3] {
            let added = patrons.add_child("jim", &address(id)).session(&mut *session);
            added.await.unwrap();
        }
        let set = doc! { "$set": { "zip": "54321" } };
        run!(patrons.update_child("jim", 1, set)).unwrap();
        let other = doc! { "id": 2, "phones": [{ "number": 1 }] };
        run!(patrons.replace_child("jim", &other)).unwrap();
        let set = doc! { "$set": { "kind": "mobile" } };
        run!(patrons.update_grandchild("jim", 2, "phones", ("number", 1), set)).unwrap();
        let other = doc! { "id": 2 };
        for (child, inserted) in [(other.clone(), false), (address(4), true)] {
            let upserted = run!(patrons.upsert_child("jim", &child));
            assert_eq!(upserted.unwrap().inserted, inserted);
        }
        let removed = run!(patrons.remove_child("jim", 4));
        assert!(removed.unwrap().found);
        assert!(run!(patrons.remove_child("jim", 3)).unwrap().found);
        run!(patrons.reorder_children("jim", [2, 1])).unwrap();
        let child = run!(patrons.child("jim", 2)).unwrap();
        assert_eq!(child, Some(other));
        let jim = run!(patrons.get("jim")).unwrap().unwrap();
        assert_eq!(jim.get_array("addresses").unwrap().len(), 2);
        // A refused call does not abort the transaction.
        assert!(!run!(patrons.remove_child("jim", 9)).unwrap().found);
        let exists = run!(patrons.add_child("jim", &address(1))).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        let missing = run!(patrons.upsert_child("jack", &address(1)));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        let missing = patrons.remove_child("jack", 1).session(session).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get("joe").session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.add_child("joe", &address(n)).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        ids(db, "joe")
            .await
            .iter()
            .map(|id| id.as_i32().unwrap().into())
            .collect()
    }
}
