//! Buckets of trades.

pub mod damage;
pub mod figures;
pub mod migration;
pub mod tampered_tokens;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, TryStreamExt};
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder};
use mongo_patterns::{Key, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::Document;

use crate::common::{Trade, spread};

/// Returns a builder for keys and items of any type, without a time field.
pub fn untimed<K: Key, T>(db: &TestDatabase) -> BucketRepositoryBuilder<K, T> {
    BucketRepository::builder(db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
}

/// Returns the trades of these numbers, each in its second.
pub fn trades_of(numbers: Range<i64>) -> Vec<Trade> {
    numbers.map(spread).collect()
}

pub fn numbers(trades: &[Trade]) -> Vec<i64> {
    trades.iter().map(|trade| trade.n).collect()
}

/// Returns all that a stream has.
pub async fn collected<T>(stream: impl Stream<Item = Result<T>>) -> Vec<T> {
    stream.try_collect().await.unwrap()
}

/// Returns a session with a transaction.
pub async fn transaction(db: &TestDatabase) -> ClientSession {
    let mut session = db.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    session
}

/// Runs writers beside an observer, which checks the buckets until they end.
pub async fn observed<T>(check: impl AsyncFn(), writers: impl Future<Output = T>) -> T {
    let done = AtomicBool::new(false);
    let observer = async {
        let mut checks = 0;
        while !done.load(Ordering::Relaxed) {
            check().await;
            checks += 1;
        }
        checks
    };
    let writers = async {
        let written = writers.await;
        done.store(true, Ordering::Relaxed);
        written
    };
    let (checks, written) = futures::join!(observer, writers);
    assert!(checks > 0, "the observer has read while they wrote");
    written
}
