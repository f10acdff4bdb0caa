//! Batches: order, whole pages, round trips, and the stored prefix of a batch that fails.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;

use support::bucket::*;
use support::common::*;

fn batch(range: std::ops::Range<i64>, item: fn(i64) -> Trade) -> Vec<Trade> {
    range.map(item).collect()
}

/// All items of customer 123, in order, when every page but the last is full.
async fn history(trades: &Trades, page_size: usize) -> Vec<Trade> {
    let pages = trades.buckets(&123).limit(100_000).page().await.unwrap().items;
    if let Some((_, full)) = pages.split_last() {
        let is_full = full.iter().all(|page| page.items.len() == page_size);
        assert!(is_full, "every page but the last is full");
    }
    pages.into_iter().flat_map(|page| page.items).collect()
}

#[tokio::test]
async fn a_batch_is_stored_in_order_in_one_or_two_round_trips() {
    testkit::run(async |db| {
        for item in [spread, same_second] {
            for before in [0, 3, 10] {
                for n in [0, 7, 10, 107] {
                    plain(db).delete_many(doc! {}).await.unwrap();
                    let trades = trades(db).await;
                    for n in 0..before {
                        trades.append(&123, &item(n)).await.unwrap();
                    }
                    db.recorder().clear();
                    let items = batch(before..before + n, item);
                    let appended = trades.append_many(&123, &items).await.unwrap();
                    assert_eq!(appended.items, u64::try_from(n).unwrap());
                    let round_trips = db.recorder().names();
                    let first_fit = if before % 10 == 0 { 10 } else { 10 - before % 10 };
                    let expected = match n {
                        0 => 0,
                        n if n <= first_fit => 1,
                        _ => 2,
                    };
                    // A taken suffix is found by a collision and a read.
                    let collisions = if item(0).date == item(1).date { 2 } else { 0 };
                    assert!(
                        (expected..=expected + collisions).contains(&round_trips.len()),
                        "{before}+{n}: {round_trips:?}"
                    );
                    assert_eq!(history(&trades, 10).await, batch(0..before + n, item), "{before}+{n}");
                    let pages = u64::try_from((before + n + 9) / 10 - (before + 9) / 10).unwrap();
                    assert_eq!(appended.opened, pages, "{before}+{n}");
                    assert_eq!(violations(&plain(db), 10).await, []);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_over_taken_seconds_finds_free_ids_with_one_read() {
    testkit::run(async |db| {
        let first = trades(db).await;
        first.append_many(&123, &batch(0..1000, spread)).await.unwrap();
        // another process, whose cache is empty
        let second = trades(db).await;
        second.append_many(&123, &batch(0..1000, spread)).await.unwrap();
        let names = db.recorder().names();
        assert!(names.len() <= 6, "{names:?}");
        let counts = second.counts(&123).await.unwrap();
        assert_eq!((counts.items, counts.pages), (2000, 200));
        let stored = all(&plain(db)).await;
        assert!(ids(&stored).contains(&"123_1698335233_000001"));
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_large_batch_is_sent_in_bounded_commands() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(2)).await;
        // A thousand pages a command.
        trades.append_many(&123, &batch(0..5_000, spread)).await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "insert", "insert", "insert"]);
        assert_eq!(history(&trades, 2).await, batch(0..5_000, spread));

        // where a bucket is open it is filled first
        trades.append(&123, &spread(5_000)).await.unwrap();
        db.recorder().clear();
        trades.append_many(&123, &batch(5_001..5_400, spread)).await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "findAndModify", "insert"]);
        assert_eq!(history(&trades, 2).await, batch(0..5_400, spread));

        plain(db).drop().await.unwrap();
        let texts = untimed::<u32, String>(db).build().unwrap();
        texts.ensure_indexes().replace_settings().await.unwrap();
        db.recorder().clear();
        let megabytes: Vec<String> = (0..40).map(|n| format!("{n}").repeat(500_000)).collect();
        texts.append_many(&123, &megabytes).at(at(SECOND)).await.unwrap();
        let names = db.recorder().names();
        assert!(names.len() > 3, "{names:?}");
        assert!(collected(texts.items(&123).stream()).await == megabytes, "in order");
    })
    .await;
}

#[tokio::test]
async fn an_invalid_item_at_any_position_stores_nothing() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut items = batch(0..30, spread);
        items[27].date = at(-1);
        let error = trades.append_many(&123, &items).await.unwrap_err();
        assert_eq!((error.kind(), error.stored_count()), (ErrorKind::InvalidTime, None));

        let texts = untimed::<u32, String>(db).build().unwrap();
        let mut items = vec!["small".to_owned(); 30];
        items[19] = "x".repeat(9 << 20);
        items[20] = "x".repeat(9 << 20);
        assert_refused(texts.append_many(&123, &items).await, ErrorKind::TooLarge);
        assert_eq!(db.recorder().round_trips(), 0);

        plain(db).drop().await.unwrap();
        for items in [30, 1000] {
            let unready = builder(db).build().unwrap();
            let error = unready.append_many(&123, &batch(0..items, spread)).await.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::IndexMissing, Some(0)));
        }
        assert!(all(&plain(db)).await.is_empty());
    })
    .await;
}

/// A batch fails at each of its commands in turn. A prefix is stored, and the error has its length.
#[tokio::test]
async fn the_error_of_a_batch_has_the_length_of_the_stored_prefix() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(2)).await;
        let items = batch(3..5_003, spread);
        for (command, stored) in (0..).zip([0, 1, 2_001, 4_001]) {
            plain(db).delete_many(doc! {}).await.unwrap();
            trades.append_many(&123, &batch(0..3, spread)).await.unwrap();
            let fault = FailPoint::on(&["findAndModify", "insert"])
                .skip(command)
                .close_connection()
                .enable(db)
                .await;
            let error = trades.append_many(&123, &items).await.unwrap_err();
            fault.disable().await;
            assert_eq!(error.stored_count(), Some(stored), "{error:?}");
            assert!(error.is_outcome_unknown());
            let text = format!("stored before the error: {stored})");
            assert!(error.to_string().contains(&text), "{error}");
            let prefix = i64::try_from(stored).unwrap();
            assert_eq!(history(&trades, 2).await, batch(0..3 + prefix, spread));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_and_single_items_from_many_writers() {
    testkit::run(async |db| {
        for item in [spread as fn(i64) -> Trade, same_second] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db)).await;
            let writers = (0..16_i64).map(|writer| {
                let trades = trades.clone();
                tokio::spawn(async move {
                    let mut n = writer * 1000;
                    for size in [3, 10, 0, 27, 61] {
                        trades.append_many(&123, &batch(n..n + size, item)).await.unwrap();
                        trades.append(&123, &item(n + size)).await.unwrap();
                        n += size + 1;
                    }
                    n - writer * 1000
                })
            });
            let mut expected = 0;
            for written in futures::future::join_all(writers).await {
                expected += written.unwrap();
            }
            check_all_once(db, &trades, expected).await;
        }
    })
    .await;
}

async fn check_all_once(db: &TestDatabase, trades: &Trades, expected: i64) {
    let pages = trades.buckets(&123).limit(100_000).page().await.unwrap().items;
    let mut stored: Vec<i64> = pages.iter().flat_map(|page| numbers(&page.items)).collect();
    assert_eq!(i64::try_from(stored.len()).unwrap(), expected);
    stored.sort_unstable();
    assert!(stored.is_sorted_by(|a, b| a < b), "an item is stored twice");
    let open = pages.iter().filter(|page| page.items.len() < 10);
    assert!(open.count() <= 1, "all pages but one are full");
    assert_eq!(violations(&plain(db), 10).await, []);
}

/// The order that the documentation of `append_many` and `items` describes.
#[tokio::test]
async fn the_times_of_the_items_order_the_buckets_of_a_batch() {
    testkit::run(async |db| {
        let descending: Vec<Trade> = (0..40).rev().map(spread).collect();
        let by_time = |size: usize| descending.chunks(size).rev().flatten().cloned().collect::<Vec<_>>();
        for page_size in [1, 10] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(page_size)).await;
            trades.append_many(&123, &descending).await.unwrap();
            let items: Vec<Trade> = collected(trades.items(&123).stream()).await;
            assert_eq!(items, by_time(page_size as usize), "pages of {page_size}");
        }
    })
    .await;
}

/// A second has 1,000,000 buckets.
#[tokio::test]
async fn a_second_without_free_suffixes_is_an_error() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db)).await;
        let with_suffix = |suffix: &str| {
            let mut bucket = full_bucket(SECOND);
            bucket.insert("_id", format!("123_{SECOND}{suffix}"));
            bucket
        };
        let taken = ["", "_000001", "_000002", "_999999"].map(with_suffix);
        plain(db).insert_many(taken).await.unwrap();
        let errors = [
            trades.append(&123, &spread(0)).await.unwrap_err(),
            trades.append_many(&123, &[spread(0), spread(100)]).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.kind(), error.key()),
                (ErrorKind::InvalidTime, Some("123")),
                "{error:?}"
            );
        }
        assert_eq!(trades.counts(&123).await.unwrap().items, 40);
        trades.append(&123, &spread(1)).await.unwrap();
    })
    .await;
}
