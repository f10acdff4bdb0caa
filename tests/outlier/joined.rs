//! Concurrent pushes to one list: the first is sent alone, and those that wait for it are sent together.
//!
//! The futures of a test are polled in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use futures::poll;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::outlier::support::*;

/// Pushes elements concurrently. Returns the results in order.
async fn push_all(books: &Books, id: i32, users: &[String]) -> Vec<mongo_patterns::Result<Pushed>> {
    join_all(users.iter().map(|user| books.push(id, user).into_future())).await
}

#[tokio::test]
async fn a_single_element_that_waited_takes_the_same_commands() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(2).max_overflow_elements(3)).await;
        let (alone, joined) = (771_771, 882_882);
        for id in [alone, joined] {
            books.insert(&book(id, 0)).await.unwrap();
        }
        for user in users(0..9) {
            db.recorder().clear();
            let pushed = books.push(alone, &user).await.unwrap();
            let by_push = db.recorder().commands();
            db.recorder().clear();
            // An element that the list has not: its removal has the lane, and changes nothing.
            let mut removal = books.remove(joined, "absent").into_future();
            assert!(poll!(&mut removal).is_pending());
            let mut push = books.push(joined, &user).into_future();
            assert!(poll!(&mut push).is_pending());
            assert!(!removal.await.unwrap().found);
            db.recorder().clear();
            assert_eq!(push.await.unwrap(), pushed);
            let by_batch = db.recorder().commands();
            assert_eq!(by_push.len(), by_batch.len());
            for (left, right) in by_push.iter().zip(&by_batch) {
                assert_eq!(left.name, right.name);
                // A new overflow document has an `_id` of its own.
                if left.name != "insert" {
                    let left = left.essence().to_string().replace("771771", "882882");
                    assert_eq!(left, right.essence().to_string());
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_crosses_the_threshold_and_the_bounds_of_overflow_documents() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(10)).await;
        books.insert(&book(2, 0)).await.unwrap();
        let all = users(0..90);
        let mut before = 0;
        for n in [3, 1, 4, 12, 1, 40, 29] {
            db.recorder().clear();
            let results = push_all(&books, 2, &all[before..before + n]).await;
            for (position, pushed) in (before..).zip(results) {
                let expected = if position < 5 { Pushed::Inline } else { Pushed::Overflow };
                assert_eq!(pushed.unwrap(), expected, "{position}");
            }
            before += n;
            let sent = db.recorder().names();
            assert!(sent.len() <= 8, "{before}: {sent:?}");
            assert_eq!(stored(db, 2).await, all[..before]);
            assert_eq!(violations(db, 5, 10).await, Vec::<String>::new());
        }
    })
    .await;
}

/// Their texts are equal.
#[tokio::test]
async fn ids_with_one_text_are_different_lists() {
    testkit::run(async |db| {
        let books = ready(db, builder::<Document, String>(db)).await;
        let ids = [doc! { "a": "x", "b": "y" }, doc! { "a": "x\", \"b\": \"y" }].map(Bson::Document);
        assert_eq!(ids[0].to_string(), ids[1].to_string());
        for id in &ids {
            books.insert(&doc! { "_id": id }).await.unwrap();
        }
        let users = users(0..6);
        let pushes = (0..6).map(|n| books.push(ids[n % 2].clone(), &users[n]).into_future());
        for pushed in join_all(pushes).await {
            pushed.unwrap();
        }
        for (n, id) in ids.into_iter().enumerate() {
            let expected = [n, n + 2, n + 4].map(|n| format!("user{n:02}"));
            assert_eq!(books.elements(id).await.unwrap(), expected);
        }
    })
    .await;
}

/// Tasks push, while the same process and another one rebalance and remove, until a rebalance has moved
/// elements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn no_element_is_lost_while_others_rebalance_and_remove() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(10).max_overflow_elements(20)).await;
        books.insert(&book(2, 0)).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let modified = Arc::new(AtomicBool::new(false));
        let rebalances = [books.clone(), of_another_process(db, 10, 20)].map(|books| {
            let (done, modified) = (Arc::clone(&done), Arc::clone(&modified));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    match books.rebalance(2).await {
                        Ok(rebalanced) => drop(modified.fetch_or(rebalanced.modified, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}"),
                    }
                }
            })
        });
        let tasks = (0..16).map(|task| {
            let (books, modified) = (books.clone(), Arc::clone(&modified));
            tokio::spawn(async move {
                let mut kept = Vec::new();
                for n in 0.. {
                    if n >= 400 || n >= 20 && modified.load(Ordering::Relaxed) {
                        break;
                    }
                    let user = format!("w{task}-{n}");
                    books.push(2, &user).await.unwrap();
                    if n % 4 == 0 {
                        assert!(books.remove(2, &user).await.unwrap().found, "{user} is stored");
                    } else {
                        kept.push(user);
                    }
                }
                kept
            })
        });
        let mut expected: Vec<String> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        // A rebalance that met a conflict every time meets none now, and has an element to move.
        while !modified.load(Ordering::Relaxed) {
            let first = stored(db, 2).await.remove(0);
            assert!(books.remove(2, &first).await.unwrap().found);
            expected.retain(|user| *user != first);
        }
        done.store(true, Ordering::Relaxed);
        for rebalance in rebalances {
            rebalance.await.unwrap();
        }
        expected.sort_unstable();
        assert_eq!(sorted(db, 2).await, expected);
        books.rebalance(2).await.unwrap();
        assert_eq!(findings(&books).await, []);
        assert_eq!(violations(db, 10, 20).await, Vec::<String>::new());
    })
    .await;
}
