//! References: from ids to copies, and back.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Call, Called, Migrates, Selected, with_id};
use support::reference::migrate::several;
use support::reference::migrate_forms::{db_ref, invalid as invalid_forms, of_forms};
use support::reference::migrate_refused::{fill, invalid};
use support::reference::source_key::{fill_by_key, invalid_by_key, orders_by_key};
use support::reference::{Orders, builder};

fn orders(db: &TestDatabase) -> Orders {
    several(builder(db.database())).build().unwrap()
}

pub(super) struct FromReferences;

impl Migrates for FromReferences {
    fn name(&self) -> &'static str {
        "reference::migrate_from_references"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let orders = (0..20).map(|id| doc! { "_id": id, "customerId": 1 + id % 2, "products": [2, 1] });
            fill(db, orders).await;
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let orders = orders(db);
            let migration = orders.migrate_from_references();
            call.of(migration.from_field("customer", "customerId")).await
        })
    }

    fn selected(&self) -> Option<Selected> {
        let invalid = invalid().into_iter().filter(|(fields, ..)| !is_swept(fields));
        let invalid = (100..).zip(invalid);
        let invalid = invalid.map(|(id, (fields, reason, _))| (with_id(id, fields), reason));
        Some(of_orders(invalid.collect(), doc! { "products": [1] }))
    }
}

/// Orders with these invalid ones, which valid fields correct.
fn of_orders(invalid: Vec<(Document, &'static str)>, valid: Document) -> Selected {
    Selected {
        source: "orders",
        target: "orders",
        some: doc! { "_id": { "$lt": 8 } },
        others: Ok(()),
        invalid,
        refusal: ErrorKind::Corrupt,
        refuses_first: true,
        correction: doc! { "$set": valid },
    }
}

/// A run that resumes sweeps the copies that it finds, also those of a skipped document.
fn is_swept(document: &Document) -> bool {
    let swept = [doc! { "_id": 1 }, doc! { "_id": 1.0 }].map(Bson::from);
    let products = document.get_array("products").into_iter().flatten();
    let customer = document.get("customer").into_iter();
    customer.chain(products).any(|value| swept.contains(value))
}

/// DBRefs, and documents with the id in another field.
pub(super) struct FromForms;

impl Migrates for FromForms {
    fn name(&self) -> &'static str {
        "reference::migrate_from_references of other forms"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let products = [doc! { "id": 2, "name": "old" }, doc! { "id": 1 }];
            let order = |id| doc! { "_id": id, "customerId": db_ref(1 + id % 2), "products": products.to_vec() };
            fill(db, (0..20).map(order)).await;
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(of_forms(&orders(db))).await })
    }

    fn selected(&self) -> Option<Selected> {
        let invalid = (100..).zip(invalid_forms());
        let invalid = invalid.map(|(id, (fields, reason, _))| (with_id(id, fields), reason));
        Some(of_orders(invalid.collect(), doc! { "customerId": 1 }))
    }
}

/// Values of the source key.
pub(super) struct ByKey;

impl Migrates for ByKey {
    fn name(&self) -> &'static str {
        "reference::migrate_from_references by the source key"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let members = ["bob".into(), Bson::from(doc! { "username": "ann", "role": "x" })];
            let order = |id| {
                let author = if id % 2 == 0 { "ann" } else { "bob" };
                doc! { "_id": id, "author": author, "members": members.to_vec() }
            };
            fill_by_key(db, (0..20).map(order)).await;
            // The index of the key is created before the documents are checked.
            orders_by_key(db).ensure_indexes().await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let orders = orders_by_key(db);
            let migration = orders.migrate_from_references();
            call.of(migration.from_field("customer", "author")).await
        })
    }

    fn selected(&self) -> Option<Selected> {
        let invalid = (100..).zip(invalid_by_key());
        let invalid = invalid.map(|(id, (fields, reason, _))| (with_id(id, fields), reason));
        Some(of_orders(invalid.collect(), doc! { "author": "ann" }))
    }
}

pub(super) struct ToReferences;

impl Migrates for ToReferences {
    fn name(&self) -> &'static str {
        "reference::migrate_to_references"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            FromReferences.fill(db).await;
            let orders = orders(db);
            let migration = orders.migrate_from_references();
            migration.from_field("customer", "customerId").await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let orders = orders(db);
            call.of(orders.migrate_to_references()).await
        })
    }
}
