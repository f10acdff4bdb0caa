//! References: sources and documents that other programs write.

use futures::future::LocalBoxFuture;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Repository, Result};
use mongo_patterns_core::follow::Followed;
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::doc;

use super::model::{Follows, How, NAME, follow};
use support::reference;
use support::reference::follow::{all_kinds_in, update_plainly};
use support::reference::{COLLECTIONS, add_customers, customer, customers, findings, order, ready, rename, stored};

pub(super) struct Orders;

fn orders(database: &Database) -> reference::Orders {
    all_kinds_in(database).build().unwrap()
}

impl Follows for Orders {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_follow-orders")
    }

    fn watched(&self) -> &'static [&'static str] {
        &COLLECTIONS
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            ready(db, all_kinds_in(db.database())).await;
            add_customers(db, 1..=3).await;
            stored(db).insert_many((1..=3).map(|id| order(id, id))).await.unwrap();
        })
    }

    fn repository(&self, database: &Database) -> Box<dyn Repository> {
        Box::new(orders(database))
    }

    /// Source 1 is renamed, 2 is replaced, and 3 is deleted or inserted again.
    fn write_plainly<'a>(&'a self, db: &'a TestDatabase, round: u32) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let name = round.to_string();
            update_plainly(db, 1, rename(&name)).await;
            let replace = async |id: i32| {
                let customers = customers(db);
                let replaced = customers.replace_one(doc! { "_id": id }, customer(id, &name));
                replaced.upsert(true).await.unwrap();
            };
            replace(2).await;
            match round % 2 {
                0 => drop(customers(db).delete_one(doc! { "_id": 3 }).await.unwrap()),
                _ => replace(3).await,
            }
            stored(db).replace_one(doc! { "_id": 1 }, order(1, 1)).await.unwrap();
            let added = doc! { "$set": { "products": [{ "_id": 1 }, { "_id": 3 }], "customer._id": 2 } };
            stored(db).update_one(doc! { "_id": 2 }, added).await.unwrap();
        })
    }

    fn write<'a>(&'a self, database: &'a Database, n: u32) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let rename = rename(&format!("own {n}"));
            orders(database).update_source(1, rename).await.unwrap();
        })
    }

    fn follow<'a>(&'a self, database: &'a Database, how: How) -> LocalBoxFuture<'a, Result<Followed>> {
        Box::pin(async move {
            let orders = orders(database);
            follow!(orders.follow(NAME).on_missing(OnReferences::KeepCopy), how)
        })
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, context: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { assert_eq!(findings(&orders(db.database())).await, [], "{context}") })
    }

    fn needs_pre_images(&self) -> bool {
        false
    }
}
