//! Outliers: long lists of existing documents.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Call, Called, Migrates, Selected};
use support::outlier::{again, sales, users};
use support::plans::by_document;

pub(super) struct Existing;

impl Migrates for Existing {
    fn name(&self) -> &'static str {
        "outlier::migrate_existing"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let of = |id: i32, number: usize| doc! { "_id": id, "customers_purchased": users(0..number) };
            let lists = (1..).zip([3, 6, 9, 30, 31]).map(|(id, number)| of(id, number));
            sales(db).insert_many(lists).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let books = again(db, 5, 10);
            call.of(books.migrate_existing()).await
        })
    }

    /// The server creates the ids of overflow documents.
    fn normalize(&self, collection: &str, document: &mut Document) {
        if collection == "extra_sales" {
            document.remove("_id");
        }
    }

    /// The server groups documents in no order.
    fn in_order(&self, commands: Vec<Document>) -> Vec<Document> {
        let is_of_list = |command: &Document| command.values().next().and_then(Bson::as_str) == Some("skipped");
        let (mut of_list, others): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_of_list);
        of_list.extend(by_document(others));
        of_list
    }

    fn selected(&self) -> Option<Selected> {
        let invalid = [101, 102].map(|id| (doc! { "_id": id, "customers_purchased": "none" }, "no_array"));
        Some(Selected {
            source: "sales",
            target: "extra_sales",
            some: doc! { "_id": { "$lte": 3 } },
            others: Ok(()),
            invalid: invalid.to_vec(),
            refusal: ErrorKind::Corrupt,
            // It rewrites one document after another.
            refuses_first: false,
            correction: doc! { "$set": { "customers_purchased": [] } },
        })
    }
}
