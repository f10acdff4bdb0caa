//! The sales of MongoDB's manual.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns_testkit::{FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use support::pace::Pace;

/// Runs a call, and something else while the server blocks this command of it for a time, before its execution. Returns the
/// results of both.
pub async fn beside_blocked<T, O>(
    db: &TestDatabase,
    (command, time): (&str, Duration),
    call: impl IntoFuture<Output = T>,
    other: impl Future<Output = O>,
) -> (T, O) {
    let fault = FailPoint::on(&[command]).times(1).block(time).enable(db).await;
    let other = async {
        assert!(fault.met(db, Duration::from_secs(10)).await);
        other.await
    };
    let ended = tokio::join!(call.into_future(), other);
    fault.disable().await;
    ended
}

/// Lets four writers write documents with these `_id`s, from 0 on, beside rounds of other work: six, and more until there are
/// this number of writes. A writer gets an `_id` and a number that no other one gets, and returns whether its write is
/// acknowledged. Returns the number of these.
pub async fn beside_writers(
    db: &TestDatabase,
    (documents, writes): (i32, i64),
    write: impl AsyncFn(i32, i32) -> bool,
    round: impl AsyncFn(),
) -> i64 {
    let (pace, acknowledged) = (Pace::of(0), AtomicI64::new(0));
    let writers = (0..4).map(|writer| {
        let (pace, acknowledged, write) = (pace.clone(), &acknowledged, &write);
        async move {
            for n in 0.. {
                if !pace.next().await {
                    break;
                }
                let is_acknowledged = write((n + writer) * 7 % documents, n * 4 + writer).await;
                acknowledged.fetch_add(i64::from(is_acknowledged), Ordering::Relaxed);
            }
        }
    });
    let moves = async {
        let work = async {
            let mut rounds = 0;
            while rounds < 6 || acknowledged.load(Ordering::Relaxed) <= writes {
                rounds += 1;
                round().await;
            }
        };
        pace.beside(db, 2, work).await;
        pace.end();
    };
    tokio::join!(join_all(writers), moves);
    acknowledged.into_inner()
}

/// Counts in a document. Returns whether it was found.
pub async fn count_in(collection: &Collection<Document>, id: i32) -> bool {
    let counted = collection.update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1 } });
    counted.await.unwrap().matched_count > 0
}

/// Asserts that each of these documents is there once, and returns the sum of what was counted in them.
pub fn counted(documents: i32, stored: &[Document]) -> i64 {
    let mut ids: Vec<i32> = stored.iter().map(|one| one.get_i32("_id").unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(0..documents));
    stored.iter().map(|one| i64::from(one.get_i32("n").unwrap_or(0))).sum()
}
