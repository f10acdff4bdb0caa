//! Buckets: from and to a flat collection, and to another page size.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Call, Called, Migrates, Selected};
use support::bucket::migration::invalid;
use support::bucket::migration::{documents, fill, histories};
use support::common::{Trade, builder, spread};

pub(super) struct FromFlat;

impl Migrates for FromFlat {
    fn name(&self) -> &'static str {
        "bucket::migrate_from_flat"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
            fill(db, &documents(&keys, 12)).await;
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let trades = histories::<u32>(db).page_size(5).build().unwrap();
            let flat = db.collection::<Document>("flat");
            call.of(trades.migrate_from_flat(&flat)).await
        })
    }

    fn selected(&self) -> Option<Selected> {
        Some(Selected {
            source: "flat",
            target: "trades",
            some: doc! { "customerId": { "$in": [0, 1] } },
            // The other keys are another migration, to a target that is not empty.
            others: Err(ErrorKind::TargetNotEmpty),
            invalid: invalid(),
            refusal: ErrorKind::InvalidKey,
            refuses_first: true,
            correction: doc! { "$set": { "customerId": 2 } },
        })
    }
}

pub(super) struct ToFlat;

impl Migrates for ToFlat {
    fn name(&self) -> &'static str {
        "bucket::migrate_to_flat"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(of_three(db))
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let trades = builder(db).page_size(3).build().unwrap();
            let back = db.collection::<Document>("back");
            call.of(trades.migrate_to_flat(&back)).await
        })
    }
}

pub(super) struct PageSize;

impl Migrates for PageSize {
    fn name(&self) -> &'static str {
        "bucket::migrate_page_size_from"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(of_three(db))
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let trades = builder(db).page_size(4).build().unwrap();
            call.of(trades.migrate_page_size_from(3)).await
        })
    }

    fn lists_all(&self) -> bool {
        false
    }

    /// The keys of several pages. The progress is that of the buckets.
    fn rated(&self, _total: u64) -> u64 {
        2
    }
}

/// Stores pages of three items: of seven items of key 1, of three of key 2, and so on.
async fn of_three(db: &TestDatabase) {
    let trades = builder(db).page_size(3).build().unwrap();
    trades.ensure_indexes().await.unwrap();
    for (key, items) in [(1, 7), (2, 3), (3, 8), (4, 1)] {
        let items: Vec<Trade> = (0..items).map(spread).collect();
        trades.append_many(&key, &items).await.unwrap();
    }
}
