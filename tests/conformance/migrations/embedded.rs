//! Embedded children: from references and back.

use futures::future::LocalBoxFuture;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};

use super::model::{Call, Called, Migrates, Selected};
use support::embedded::migration::{addresses, index_reference};
use support::embedded::{Patrons, stored};

/// Children with an id of their own.
fn patrons(db: &TestDatabase) -> Patrons {
    let patrons = EmbeddedRepository::builder(db.collection::<Document>("patron"));
    patrons.children_field("addresses").child_id_field("n").build().unwrap()
}

pub(super) struct FromReferences;

impl Migrates for FromReferences {
    fn name(&self) -> &'static str {
        "embedded::migrate_from_references"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let parents = (1..=5).map(|id| doc! { "_id": id });
            stored(db).insert_many(parents).await.unwrap();
            let children = (0..20).map(|n| doc! { "_id": n, "patron_id": 1 + n % 4, "n": n });
            addresses(db).insert_many(children).await.unwrap();
            index_reference(db).await;
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let (patrons, source) = (patrons(db), db.collection::<Document>("address"));
            call.of(patrons.migrate_from_references(&source, "patron_id")).await
        })
    }

    fn selected(&self) -> Option<Selected> {
        let invalid = [
            doc! { "_id": 90, "patron_id": 1 },
            doc! { "_id": 91, "patron_id": 2, "n": [1] },
        ];
        Some(Selected {
            source: "address",
            target: "patron",
            some: doc! { "_id": { "$lt": 12 } },
            // The parents have other children.
            others: Err(ErrorKind::TargetNotEmpty),
            invalid: invalid.map(|child| (child, "child_id")).to_vec(),
            refusal: ErrorKind::InvalidItemId,
            refuses_first: true,
            correction: doc! { "$set": { "n": 90 } },
        })
    }
}

pub(super) struct ToReferences;

impl Migrates for ToReferences {
    fn name(&self) -> &'static str {
        "embedded::migrate_to_references"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let child = |n: i32| doc! { "_id": n, "n": n };
            let parents = (0..5).map(|id| {
                let children: Vec<Document> = (0..id).map(|n| child(id * 10 + n)).collect();
                doc! { "_id": id, "addresses": children }
            });
            stored(db).insert_many(parents).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let (patrons, target) = (patrons(db), db.collection::<Document>("back"));
            call.of(patrons.migrate_to_references(&target, "patron_id")).await
        })
    }
}
