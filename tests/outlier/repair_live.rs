//! Verify, repair and migrate_existing while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use support::common::all;
use support::outlier::damage::*;
use support::outlier::*;

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
