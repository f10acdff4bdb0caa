//! Embedded children.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::embedded::{Patrons, address, builder, ids, patron};

struct Children(Patrons);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let patrons = builder(db).build().unwrap();
        patrons.ensure_indexes().await.unwrap();
        patrons.insert(&patron("joe", [])).await.unwrap();
        Box::new(Children(patrons)) as Box<dyn Calls>
    })
}

impl Calls for Children {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let patrons = &self.0;
        Box::pin(async move {
            patrons.insert(&patron("jim", [])).session(&mut *session).await.unwrap();
            let two = [patron("sue", []), patron("tom", [])];
            patrons.insert_many(&two).session(&mut *session).await.unwrap();
            let found = patrons
                .find(doc! { "_id": "sue" })
                .session(&mut *session)
                .await
                .unwrap();
            assert_eq!(found, two[..1]);
            for id in [1, 2, 3] {
                let added = patrons.add_child("jim", &address(id)).session(&mut *session);
                added.await.unwrap();
            }
            let set = doc! { "$set": { "zip": "54321" } };
            patrons
                .update_child("jim", 1, set)
                .session(&mut *session)
                .await
                .unwrap();
            let other = doc! { "id": 2, "phones": [{ "number": 1 }] };
            patrons
                .replace_child("jim", &other)
                .session(&mut *session)
                .await
                .unwrap();
            let set = doc! { "$set": { "kind": "mobile" } };
            patrons
                .update_grandchild("jim", 2, "phones", ("number", 1), set)
                .session(&mut *session)
                .await
                .unwrap();
            let other = doc! { "id": 2 };
            for (child, inserted) in [(other.clone(), false), (address(4), true)] {
                let upserted = patrons.upsert_child("jim", &child).session(&mut *session).await;
                assert_eq!(upserted.unwrap().inserted, inserted);
            }
            let removed = patrons.remove_child("jim", 4).session(&mut *session).await;
            assert!(removed.unwrap().found);
            assert!(
                patrons
                    .remove_child("jim", 3)
                    .session(&mut *session)
                    .await
                    .unwrap()
                    .found
            );
            patrons
                .reorder_children("jim", [2, 1])
                .session(&mut *session)
                .await
                .unwrap();
            let child = patrons.child("jim", 2).session(&mut *session).await.unwrap();
            assert_eq!(child, Some(other));
            let jim = patrons.get("jim").session(&mut *session).await.unwrap().unwrap();
            assert_eq!(jim.get_array("addresses").unwrap().len(), 2);
            // A refused call does not abort the transaction.
            assert!(
                !patrons
                    .remove_child("jim", 9)
                    .session(&mut *session)
                    .await
                    .unwrap()
                    .found
            );
            let exists = patrons
                .add_child("jim", &address(1))
                .session(&mut *session)
                .await
                .unwrap_err();
            assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
            let missing = patrons.upsert_child("jack", &address(1)).session(&mut *session).await;
            assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
            let missing = patrons.remove_child("jack", 1).session(session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get("joe").session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.add_child("joe", &address(n)).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let mut numbers: Vec<i64> = ids(db, "joe")
                .await
                .iter()
                .map(|id| id.as_i32().unwrap().into())
                .collect();
            numbers.sort_unstable();
            numbers
        })
    }
}
