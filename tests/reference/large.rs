//! A source with 40,000 copies.

use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use support::common::{pause, quiet};
use support::reference::*;

const COPIES: i32 = 40_000;

/// Another writer of the copies waits for one document, and not for the sweep: many of its updates end while the sweep
/// runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn a_sweep_of_40_000_copies_does_not_block_another_writer() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for first in (0..COPIES).step_by(10_000) {
            let many = (first..first + 10_000).map(|id| {
                let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 };
                doc! { "_id": id, "customer": copy, "total": 0 }
            });
            stored(db).insert_many(many).await.unwrap();
        }
        let sweep = {
            let orders = orders.clone();
            tokio::spawn(async move { orders.update_source(1, rename("Bea")).await.unwrap() })
        };
        // The sweep has begun.
        let changed = doc! { "customer._id": 1, "customer.v": 1_i64 };
        while stored(db).find_one(changed.clone()).await.unwrap().is_none() {
            pause().await;
        }
        let mut during = 0;
        for n in 0.. {
            let id = (n * 7919) % COPIES;
            let one = doc! { "$inc": { "total": 1 } };
            stored(db).update_one(doc! { "_id": id }, one).await.unwrap();
            // An order of the same customer, by the repository.
            orders.insert(&order(COPIES + n, 1)).await.unwrap();
            // Bounded: a sweep that another writer could hold up for ever would find ever more.
            if sweep.is_finished() || n == 2000 {
                break;
            }
            during += 1;
        }
        assert!(during >= 3, "{during} writes ended while the sweep ran");
        let updated = sweep.await.unwrap();
        assert_eq!(updated.version, 1);
        assert!(updated.copies_updated <= COPIES as u64, "{updated:?}");
        quiet(db).await;
        let stale = doc! { "customer._id": 1, "$or": [
            { "customer.v": { "$ne": 1_i64 } }, { "customer.name": { "$ne": "Bea" } },
        ] };
        assert_eq!(stored(db).count_documents(stale).await.unwrap(), 0);
        let written = doc! { "_id": { "$lt": COPIES }, "total": { "$gt": 0 } };
        assert_eq!(stored(db).count_documents(written).await.unwrap(), during + 1);
    })
    .await;
}
