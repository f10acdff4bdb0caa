//! Concurrent pushes to one list: the first is sent alone, and those that wait for it are sent together.
//!
//! The futures of a test are polled in their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::outlier::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_on_one_list_share_round_trips() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(50).max_overflow_elements(500)).await;
        books.insert(&book(2, 0)).await.unwrap();
        db.recorder().clear();
        let tasks = (0..64).map(|task| {
            let books = books.clone();
            tokio::spawn(async move {
                let mut pushed = Vec::new();
                for n in 0..16 {
                    let user = format!("w{task:02}-{n:02}");
                    pushed.push((books.push(2, &user).await.unwrap(), user));
                }
                pushed
            })
        });
        let pushed: Vec<(Pushed, String)> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        let round_trips = db.recorder().round_trips() as f64 / 1024.0;
        println!("round trips a push, 64 tasks on one list: {round_trips:.3}");
        assert!(round_trips < 0.2, "{round_trips}");

        let stored = stored(db, 2).await;
        assert_eq!(stored.len(), 1024);
        for task in 0..64 {
            let own = format!("w{task:02}-");
            let of_task: Vec<&String> = stored.iter().filter(|user| user.starts_with(&own)).collect();
            let expected: Vec<String> = (0..16).map(|n| format!("{own}{n:02}")).collect();
            assert_eq!(of_task, expected.iter().collect::<Vec<_>>(), "in the order of the task");
        }
        for (pushed, user) in pushed {
            let is_inline = stored[..50].contains(&user);
            assert_eq!(pushed == Pushed::Inline, is_inline, "{user}: {pushed:?}");
        }
        assert_eq!(violations(db, 50, 500).await, Vec::<String>::new());
    })
    .await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_callers_do_not_affect_others() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(10).max_overflow_elements(50)).await;
        books.insert(&book(2, 0)).await.unwrap();
        let mut acknowledged = Vec::new();
        for round in 0..20 {
            let tasks: Vec<_> = (0..8_u64)
                .map(|task| {
                    let (books, user) = (books.clone(), format!("user{round:02}-{task}"));
                    let push = async move { books.push(2, &user).await.map(|_| user).unwrap() };
                    tokio::spawn(async move {
                        if task % 2 == 0 {
                            return Some(push.await);
                        }
                        let time = Duration::from_micros((task - 1) * 300);
                        tokio::time::timeout(time, push).await.ok()
                    })
                })
                .collect();
            for task in tasks {
                acknowledged.extend(task.await.unwrap());
            }
        }
        assert!((80..160).contains(&acknowledged.len()), "some callers were dropped");
        mongo_patterns::drain().await;
        let stored = sorted(db, 2).await;
        assert!(stored.is_sorted_by(|a, b| a < b), "an element is stored twice");
        assert!(
            acknowledged.iter().all(|user| stored.binary_search(user).is_ok()),
            "an acknowledged element is lost"
        );
        assert_eq!(violations(db, 10, 50).await, Vec::<String>::new());
    })
    .await;
}

/// Tasks push and remove, while the same process and another one refresh, until a refresh has moved elements. Most elements
/// go again, so that the list is short and the flag comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn no_element_is_lost_while_others_refresh_and_remove() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_overflow_elements(4)).await;
        books.insert(&book(2, 0)).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let modified = Arc::new(AtomicBool::new(false));
        let refreshes = [books.clone(), of_another_process(db, 5, 4)].map(|books| {
            let (done, modified) = (Arc::clone(&done), Arc::clone(&modified));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    match books.refresh(2).await {
                        Ok(refreshed) => drop(modified.fetch_or(refreshed.modified, Ordering::Relaxed)),
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
                    if n % 8 == 0 {
                        kept.push(user);
                    } else {
                        assert!(books.remove(2, &user).await.unwrap().found, "{user} is stored");
                    }
                }
                kept
            })
        });
        let mut expected: Vec<String> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        // A refresh that met a conflict every time meets none now, and has an element to move.
        while !modified.load(Ordering::Relaxed) {
            let first = stored(db, 2).await.remove(0);
            assert!(books.remove(2, &first).await.unwrap().found);
            expected.retain(|user| *user != first);
        }
        done.store(true, Ordering::Relaxed);
        for refresh in refreshes {
            refresh.await.unwrap();
        }
        expected.sort_unstable();
        assert_eq!(sorted(db, 2).await, expected);
        books.refresh(2).await.unwrap();
        assert_eq!(findings(&books).await, []);
        assert_eq!(violations(db, 5, 4).await, Vec::<String>::new());
    })
    .await;
}
