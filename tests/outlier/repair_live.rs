//! Repair, rebalance and migrate_existing while others write, and a commit of unknown outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::outlier::Repaired;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};

use support::common::all;
use support::outlier::damage::*;
use support::outlier::*;

async fn repair(books: &Books) -> Vec<Repaired> {
    books.repair().stream().try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn writers_lose_nothing_during_a_repair() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let other = of_another_process(db, 5, 10);
        let main = vec![main_of(0, 0..17), main_of(1, 0..5), flagged(2, 0..5), flagged(3, 0..5)];
        let extras = vec![
            with(extra(1, 0, 5..9), "count", 2),
            extra(2, 3, 5..15),
            extra(3, 0, 5..28),
        ];
        plant(db, main, extras).await;
        let mut expected = [17, 9, 15, 28].map(|number| users(0..number));
        let writing = Arc::new(AtomicUsize::new(16));
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let (books, writing) = (books.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    let mut kept = Vec::new();
                    for n in 0..16 {
                        let (id, user) = ((n + writer) % 4, format!("w{writer}-{n}"));
                        books.push(i32::try_from(id).unwrap(), &user).await.unwrap();
                        kept.push((id, user));
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                    kept
                })
            })
            .collect();
        let mut repaired = 0;
        // A push repairs some problems too, so that not all of them may be left to find.
        while writing.load(Ordering::Relaxed) > 0 {
            repaired += repair(&other).await.len();
        }
        for writer in writers {
            for (id, user) in writer.await.unwrap() {
                expected[id].push(user);
            }
        }
        repaired += repair(&other).await.len();
        assert!(repaired > 0);
        assert_eq!(problems(&findings(&books).await), []);
        for (id, mut expected) in (0..).zip(expected) {
            expected.sort_unstable();
            assert_eq!(sorted(db, id).await, expected, "{id}");
        }
    })
    .await;
}

/// Nothing of a deleted book is written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_that_is_deleted_during_a_migration_stays_deleted() {
    testkit::run(async |db| {
        // Always out of form for the other.
        let books: Books = ready(db, builder(db).threshold(8).max_overflow_elements(4)).await;
        let other = of_another_process(db, 5, 10);
        let writing = Arc::new(AtomicUsize::new(8));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (books, writing) = (books.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    for n in 0..5 {
                        let id = writer * 100 + n;
                        books.insert(&book(id, 6)).await.unwrap();
                        for user in users(6..16) {
                            books.push(id, &user).await.unwrap();
                        }
                        assert!(books.delete(id).await.unwrap().found);
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                })
            })
            .collect();
        let mut documents = 0;
        while writing.load(Ordering::Relaxed) > 0 {
            documents += other.migrate_existing().await.unwrap().documents;
        }
        for writer in writers {
            writer.await.unwrap();
        }
        println!("{documents} documents written");
        assert!(documents > 0);
        assert_eq!(all(&sales(db)).await, []);
        assert_eq!(all(&extra_sales(db)).await, []);
    })
    .await;
}

async fn plant_three(db: &TestDatabase) {
    let main = vec![main_of(0, 0..17), flagged(1, 0..5), main_of(2, 0..3)];
    let extras = vec![naive(1, "naive", 5..30), extra(2, 0, 3..5)];
    plant(db, main, extras).await;
}

async fn check_three(db: &TestDatabase, books: &Books) {
    for (id, number) in [(0, 17), (1, 30), (2, 5)] {
        assert_eq!(stored(db, id).await, users(0..number), "{id}");
    }
    assert_eq!(problems(&findings(books).await), []);
    assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
}

/// The commit was done, and its answer says that it is not certain. The driver asks again.
#[tokio::test]
async fn a_commit_of_unknown_outcome_is_done_once() {
    testkit::run(async |db| {
        let books: Books = managed(db, 5, 10).await;
        for fault in [
            FailPoint::on(&["commitTransaction"]).times(1).write_concern_error(91),
            FailPoint::on(&["commitTransaction"]).times(2).close_connection(),
            FailPoint::on(&["insert"]).times(1).close_connection(),
        ] {
            plant_three(db).await;
            let fault = fault.enable(db).await;
            assert_eq!(repair(&books).await.len(), 3);
            fault.disable().await;
            check_three(db, &books).await;
        }
    })
    .await;
}

/// Documents in which something is wrong, more than are repaired at a time.
async fn plant_unflagged(db: &TestDatabase, ids: std::ops::Range<i32>) {
    let main = ids.clone().map(|id| main_of(id, 0..5)).collect();
    let extras = ids.map(|id| extra(id, 0, 5..9)).collect();
    plant(db, main, extras).await;
}

/// Calls each time for all documents, while the stream is not polled.
#[tokio::test]
async fn the_reader_of_verify_and_repair_calls_the_same_repository() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        let ids = 0..24;
        let pushed = |id: i32, n: usize| format!("pushed{id}-{n}");
        let push_all = async |n: usize| {
            for id in ids.clone() {
                books.push(id, &pushed(id, n)).await.unwrap();
            }
        };
        plant_unflagged(db, ids.clone()).await;
        let verify = async {
            let mut findings = books.verify().stream();
            let mut found = 0;
            while findings.try_next().await.unwrap().is_some() {
                if found < 2 {
                    push_all(found).await;
                }
                found += 1;
            }
            assert!(found > 0);
        };
        let verified = tokio::time::timeout(Duration::from_secs(60), verify).await;
        verified.expect("the pushes wait for nothing that the stream holds");
        plant_unflagged(db, ids.clone()).await;
        let repair = async {
            let mut documents = books.repair().stream();
            let mut repaired = 0;
            while documents.try_next().await.unwrap().is_some() {
                if repaired < 2 {
                    push_all(repaired).await;
                }
                repaired += 1;
            }
            assert!(repaired > 0);
        };
        let repaired = tokio::time::timeout(Duration::from_secs(60), repair).await;
        repaired.expect("the pushes wait for nothing that the stream holds");
        for id in ids.clone() {
            let stored = stored(db, id).await;
            assert!((0..2).all(|n| stored.contains(&pushed(id, n))), "{id}: {stored:?}");
        }
        assert_eq!(findings(&books).await, []);
    })
    .await;
}
