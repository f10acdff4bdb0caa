//! Concurrent appends to one key: the first is sent alone, and those that wait for it are sent together.
//!
//! The futures of a test are polled in their order.

use futures::FutureExt;
use futures::future::join_all;
use mongo_patterns::bucket::{Appended, BucketRepository};
use mongo_patterns::{Error, ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use serde::Serialize;

use support::bucket::*;
use support::common::*;

async fn append_all<T: Serialize>(trades: &BucketRepository<u32, T>, items: &[T]) -> Vec<Result<Appended>> {
    join_all(items.iter().map(|item| trades.append(&123, item).into_future())).await
}

/// The numbers of all items of a key, in order.
async fn numbers_of(trades: &Trades, key: u32) -> Vec<i64> {
    let pages = trades.buckets(&key).limit(100_000).page().await.unwrap().items;
    let open = pages.iter().filter(|page| page.items.len() < 10);
    assert!(open.count() <= 1, "all pages but one are full");
    pages.iter().flat_map(|page| numbers(&page.items)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_on_one_key_share_round_trips() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db)).await;
        let tasks = (0..64_i64).map(|task| {
            let trades = trades.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    trades.append(&123, &same_second(task * 20 + n)).await.unwrap();
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        let round_trips = db.recorder().round_trips() as f64 / 1280.0;
        println!("round trips an append, 64 tasks on one key: {round_trips:.3}");
        assert!(round_trips < 0.2, "{round_trips}");
        let stored = numbers_of(&trades, 123).await;
        for task in 0..64 {
            let of_task: Vec<i64> = stored.iter().copied().filter(|n| n / 20 == task).collect();
            assert_eq!(
                of_task,
                (task * 20..(task + 1) * 20).collect::<Vec<_>>(),
                "the items of each task are in order"
            );
        }
        assert_eq!(stored.len(), 1280);
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_single_item_that_waited_takes_the_same_command() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for appended in append_all(&trades, &[spread(0), spread(0)]).await {
            appended.unwrap();
        }
        let commands = db.recorder().commands();
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0].essence(), commands[1].essence());
    })
    .await;
}

#[tokio::test]
async fn each_caller_learns_which_bucket_its_item_opened() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db)).await;
        for numbers in [0..3, 3..8, 8..47, 47..60] {
            let items = trades_of(numbers);
            for (item, appended) in items.iter().zip(append_all(&trades, &items).await) {
                let documents = all(&plain(db)).await;
                let is_first = |document: &&Document| {
                    let first = &document.get_array("history").unwrap()[0];
                    first.as_document().unwrap().get_i64("n").unwrap() == item.n
                };
                let opened = documents.iter().find(is_first);
                assert_eq!(opened.is_some(), item.n % 10 == 0);
                let id = opened.map(|document| document.get_str("_id").unwrap());
                assert_eq!(appended.unwrap().opened.as_deref(), id, "{}", item.n);
            }
        }
    })
    .await;
}

/// A unique index that is not of the pattern refuses two of the items.
#[tokio::test]
async fn an_item_that_is_refused_fails_alone() {
    testkit::run(async |db| {
        let trades = unsharded(db).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder()
            .keys(doc! { "history.n": 1 })
            .options(unique)
            .build();
        plain(db).create_index(index).await.unwrap();
        trades.append_many(&7, &[spread(13), spread(77)]).await.unwrap();
        db.recorder().clear();
        for (n, result) in (0..).zip(append_all(&trades, &trades_of(0..100)).await) {
            match n {
                13 | 77 => assert_eq!(result.unwrap_err().kind(), ErrorKind::DuplicateKey),
                _ => assert!(!result.unwrap().already_there),
            }
        }
        assert!(db.recorder().round_trips() < 60, "{}", db.recorder().round_trips());
        // Alone, it is not mistaken for a race, and not retried.
        db.recorder().clear();
        assert_eq!(
            trades.append(&123, &spread(13)).await.unwrap_err().kind(),
            ErrorKind::DuplicateKey
        );
        assert_eq!(db.recorder().round_trips(), 1);
        let expected: Vec<i64> = (0..100).filter(|n| ![13, 77].contains(n)).collect();
        assert_eq!(numbers_of(&trades, 123).await, expected);
    })
    .await;
}

#[tokio::test]
async fn items_that_exceed_the_limit_together_are_sent_separately() {
    testkit::run(async |db| {
        let texts = untimed::<u32, String>(db).page_size(2).build().unwrap();
        texts.ensure_indexes().await.unwrap();
        let sizes = [1, 9 << 20, 9 << 20, 1, 17 << 20, 1];
        let results = append_all(&texts, &sizes.map(|bytes| "x".repeat(bytes))).await;
        let kind = |result: &Result<Appended>| result.as_ref().err().map(Error::kind);
        let kinds: Vec<Option<ErrorKind>> = results.iter().map(kind).collect();
        assert_eq!(kinds, [None, None, None, None, Some(ErrorKind::TooLarge), None]);
        assert_eq!(texts.counts(&123).await.unwrap().items, 5);
    })
    .await;
}

#[tokio::test]
async fn a_bucket_is_named_by_the_given_time() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(1)).await;
        let items = trades_of(0..3);
        let times = items.iter().map(|item| at(SECOND + 100 + item.n));
        let appends = items.iter().zip(times);
        let appends = appends.map(|(item, time)| trades.append(&123, item).at(time).into_future());
        for (n, appended) in (100..).zip(join_all(appends).await) {
            assert_eq!(appended.unwrap().opened, Some(format!("123_{}", SECOND + n)));
        }
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_server_reaches_every_caller_at_once() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        for result in append_all(&trades, &trades_of(0..50)).await {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::IndexMissing);
        }
        assert!(db.recorder().round_trips() <= 8, "{:?}", db.recorder().names());
        trades.ensure_indexes().await.unwrap();

        let fault = FailPoint::on(&["findAndModify", "update"]).close_connection();
        let fault = fault.enable(db).await;
        for result in append_all(&trades, &trades_of(0..50)).await {
            assert!(result.unwrap_err().is_outcome_unknown());
        }
        fault.disable().await;
        for result in append_all(&trades, &trades_of(0..50)).await {
            result.unwrap();
        }
        assert_eq!(numbers_of(&trades, 123).await, (0..50).collect::<Vec<_>>());
    })
    .await;
}

/// Also when the call that the others wait for is dropped, with its command on the way.
#[tokio::test]
async fn calls_have_their_turn_after_the_command_of_a_dropped_one() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items = trades_of(0..3);
        assert!(trades.append(&123, &items[0]).into_future().now_or_never().is_none());
        for appended in append_all(&trades, &items[1..]).await {
            let opened = appended.unwrap().opened;
            assert_eq!(opened, None, "the item of the dropped call opened the bucket");
        }
        assert_eq!(numbers_of(&trades, 123).await, [0, 1, 2]);
    })
    .await;
}
