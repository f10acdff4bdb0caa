//! Appends of many tasks, sent in batches.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepository, IdPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use crate::common::support::*;

/// The numbers of all items of a key, in order.
async fn numbers(trades: &Trades, key: u32) -> Vec<i64> {
    let pages = trades.pages(&key).limit(100_000).await.unwrap().pages;
    assert!(
        pages.iter().filter(|page| page.items.len() < 10).count() <= 1,
        "all pages but one are full"
    );
    pages.iter().flat_map(|page| &page.items).map(|trade| trade.n).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_on_one_key_share_round_trips() {
    testkit::run(async |db| {
        for policy in [IdPolicy::ItemTime, IdPolicy::Monotonic] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).id_policy(policy)).await;
            let writer = trades.batching_writer();
            let tasks = (0..64_i64).map(|task| {
                let writer = writer.clone();
                tokio::spawn(async move {
                    for n in 0..50 {
                        writer.append(&123, &same_second(task * 50 + n)).await.unwrap();
                    }
                })
            });
            for task in futures::future::join_all(tasks).await {
                task.unwrap();
            }
            let round_trips = db.recorder().round_trips() as f64 / 3200.0;
            println!("round trips an append, 64 tasks, combined: {round_trips:.3}");
            assert!(round_trips < 0.2, "{round_trips}");
            let stored = numbers(&trades, 123).await;
            for task in 0..64 {
                let of_task: Vec<i64> = stored.iter().copied().filter(|n| n / 50 == task).collect();
                assert_eq!(
                    of_task,
                    (task * 50..(task + 1) * 50).collect::<Vec<_>>(),
                    "the items of each task are in order"
                );
            }
            assert_eq!(stored.len(), 3200);
            assert_eq!(violations(&plain(db), 10).await, []);
        }
    })
    .await;
}

#[tokio::test]
async fn a_single_append_is_the_same_command() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&8, &spread(0)).await.unwrap();
        trades.batching_writer().append(&9, &spread(0)).await.unwrap();
        let commands = db.recorder().commands();
        assert_eq!(commands.len(), 2);
        let shown = |n: usize| commands[n].essence().to_string();
        let other_key = shown(0)
            .replace("8_", "9_")
            .replace("\"customerId\": 8", "\"customerId\": 9");
        assert_eq!(other_key, shown(1));
    })
    .await;
}

#[tokio::test]
async fn keys_do_not_wait_for_each_other() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let writer = trades.batching_writer();
        let appends = (0..200).map(|n| {
            let (key, trade) = (u32::try_from(n % 20).unwrap(), spread(n));
            writer.append(&key, &trade).into_future()
        });
        for appended in futures::future::join_all(appends).await {
            appended.unwrap();
        }
        for key in 0..20 {
            let expected: Vec<i64> = (0..10).map(|n| n * 20 + i64::from(key)).collect();
            assert_eq!(numbers(&trades, key).await, expected);
        }
        assert!(db.recorder().round_trips() <= 60, "{}", db.recorder().round_trips());
    })
    .await;
}

/// A unique index that is not of the pattern refuses two of the items.
#[tokio::test]
async fn an_item_that_is_refused_fails_alone() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder()
            .keys(doc! { "history.n": 1 })
            .options(unique)
            .build();
        plain(db).create_index(index).await.unwrap();
        trades.append_many(&7, &[spread(13), spread(77)]).await.unwrap();
        let writer = trades.batching_writer();
        let appends = (0..100).map(|n| writer.append(&123, &spread(n)).into_future());
        let results = futures::future::join_all(appends).await;
        for (n, result) in (0..).zip(results) {
            match n {
                13 | 77 => assert_eq!(result.unwrap_err().kind(), ErrorKind::DuplicateKey),
                _ => assert!(!result.unwrap().already_there),
            }
        }
        let expected: Vec<i64> = (0..100).filter(|n| ![13, 77].contains(n)).collect();
        assert_eq!(numbers(&trades, 123).await, expected);
    })
    .await;
}

#[tokio::test]
async fn items_that_exceed_the_limit_together_are_sent_separately() {
    testkit::run(async |db| {
        let texts = BucketRepository::<u32, String>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .page_size(2)
            .build()
            .unwrap();
        texts.ensure_indexes().await.unwrap();
        let writer = texts.batching_writer();
        let sizes = [1, 9 << 20, 9 << 20, 1, 17 << 20, 1];
        let items: Vec<String> = sizes.iter().map(|bytes| "x".repeat(*bytes)).collect();
        let appends = items.iter().map(|item| writer.append(&123, item).into_future());
        let results = futures::future::join_all(appends).await;
        let kinds: Vec<Option<ErrorKind>> = results
            .into_iter()
            .map(|result| result.err().map(|error| error.kind()))
            .collect();
        assert_eq!(kinds, [None, None, None, None, Some(ErrorKind::TooLarge), None]);
        assert_eq!(texts.counts(&123).await.unwrap().items, 5);
    })
    .await;
}

#[tokio::test]
async fn a_bucket_is_named_by_the_given_time() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let writer = trades.batching_writer();
        writer.append(&123, &spread(0)).at(at(SECOND + 7)).await.unwrap();
        let documents = all(&plain(db)).await;
        assert_eq!(ids(&documents), [format!("123_{}", SECOND + 7)]);
        let error = writer.append(&123, &spread(1)).at(at(-1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_server_reaches_every_caller_at_once() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        let writer = trades.batching_writer();
        let append_all = async || {
            let appends = (0..50).map(|n| writer.append(&123, &spread(n)).into_future());
            futures::future::join_all(appends).await
        };
        for result in append_all().await {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::IndexMissing);
        }
        assert!(db.recorder().round_trips() <= 4, "{:?}", db.recorder().names());
        trades.ensure_indexes().await.unwrap();

        let fault = FailPoint::on(&["findAndModify", "update"])
            .close_connection()
            .enable(db)
            .await;
        for result in append_all().await {
            assert!(result.unwrap_err().is_outcome_unknown());
        }
        fault.disable().await;
        for result in append_all().await {
            result.unwrap();
        }
        assert_eq!(numbers(&trades, 123).await, (0..50).collect::<Vec<_>>());

        let error = writer.append(&123, &Trade { n: 0, date: at(-1) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_callers_do_not_affect_others() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let writer = trades.batching_writer();
        let mut acknowledged = Vec::new();
        for round in 0..40_i64 {
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let (writer, n) = (writer.clone(), round * 8 + task);
                    let append = async move { writer.append(&123, &same_second(n)).await.map(|_| n).unwrap() };
                    tokio::spawn(async move {
                        if task % 2 == 0 {
                            return Some(append.await);
                        }
                        let patience = Duration::from_micros(u64::try_from(task - 1).unwrap() * 300);
                        tokio::time::timeout(patience, append).await.ok()
                    })
                })
                .collect();
            for task in tasks {
                acknowledged.extend(task.await.unwrap());
            }
        }
        assert!((160..320).contains(&acknowledged.len()), "some callers were dropped");
        let mut stored = numbers(&trades, 123).await;
        stored.sort_unstable();
        assert!(stored.is_sorted_by(|a, b| a < b), "an item is stored twice");
        assert!(
            acknowledged.iter().all(|n| stored.binary_search(n).is_ok()),
            "an acknowledged item is lost"
        );
    })
    .await;
}

/// The task that writes for a key ends with its runtime. The next append must not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_survives_the_end_of_a_runtime() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let writer = trades.batching_writer();
        let first = writer.clone();
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut append = first.append(&123, &spread(0)).into_future();
                assert!(
                    futures::poll!(&mut append).is_pending(),
                    "the append is queued, and its task has not run"
                );
            });
        });
        ended.join().unwrap();
        let next = tokio::time::timeout(Duration::from_secs(30), writer.append(&123, &spread(1)).into_future());
        next.await.expect("the queue of the key is stuck").unwrap();
        assert_eq!(numbers(&trades, 123).await, [1]);
    })
    .await;
}
