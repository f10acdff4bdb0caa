//! Appending a stream of items of many keys.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::AppendProgress;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use support::bucket::migration::histories;
use support::bucket::*;
use support::common::*;

/// Items of 50 keys, in an order that jumps between them; a few keys have most of the items.
fn items(count: i64) -> Vec<(u32, Trade)> {
    (0..count)
        .map(|n| (u32::try_from((n * n + n / 7) % 50).unwrap(), spread(n)))
        .collect()
}

fn by_key(items: &[(u32, Trade)]) -> BTreeMap<u32, Vec<Trade>> {
    let mut by_key: BTreeMap<u32, Vec<Trade>> = BTreeMap::new();
    for (key, trade) in items {
        by_key.entry(*key).or_default().push(trade.clone());
    }
    by_key
}

async fn history(trades: &Trades, key: u32) -> Vec<Trade> {
    let pages = trades.buckets(&key).limit(100_000).page().await.unwrap().items;
    pages.into_iter().flat_map(|page| page.items).collect()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_stream_is_stored_by_key_in_its_order() {
    testkit::run(async |db| {
        for (concurrency, buffer) in [(8, 64 << 20), (1, 4_000), (16, 20_000), (4, 1)] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db)).await;
            let items = items(if buffer == 1 { 50 } else { 1000 });
            let mut last = AppendProgress::default();
            let appended = trades
                .append_stream(stream::iter(items.clone()))
                .concurrency(concurrency)
                .buffer_bytes(buffer)
                .on_progress(|progress| {
                    assert!(progress.read >= last.read && progress.stored > last.stored);
                    // an item takes more than 40 bytes
                    let buffered = progress.read - progress.stored;
                    assert!(
                        buffered <= buffer as u64 / 40 + 1,
                        "{buffered} items are in a buffer of {buffer} bytes"
                    );
                    last = progress;
                })
                .await
                .unwrap();
            let count = items.len() as u64;
            assert_eq!((appended.items, last.read, last.stored), (count, count, count));
            for (key, expected) in by_key(&items) {
                assert_eq!(history(&trades, key).await, expected, "key {key}");
            }
            assert_eq!(violations(&plain(db), 10).await, []);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_needs_two_round_trips_a_key() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_stream(stream::iter(items(5000))).await.unwrap();
        assert!(db.recorder().round_trips() <= 2 * 50, "{}", db.recorder().round_trips());
        db.recorder().clear();
        let nothing = trades.append_stream(stream::empty()).await.unwrap();
        assert_eq!((nothing.items, nothing.opened, db.recorder().round_trips()), (0, 0, 0));
    })
    .await;
}

#[tokio::test]
async fn only_the_first_command_of_a_key_reads_the_open_bucket() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(5)).await;
        trades.append(&1, &spread(0)).await.unwrap();
        db.recorder().clear();
        // More than the 1000 pages of a command. The first four fill the open bucket, and the last ones stay in one.
        let items: Vec<_> = (1..8002).map(|n| (1, spread(n))).collect();
        let appended = trades.append_stream(stream::iter(items)).await.unwrap();
        assert_eq!((appended.items, appended.opened), (8001, 1600));
        assert_eq!(db.recorder().names(), ["find", "findAndModify", "insert", "insert"]);
        assert_eq!(violations(&plain(db), 5).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_full_command_is_sent_while_the_stream_is_read() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).item_id_field("n").page_size(5)).await;
        trades.append(&1, &spread(0)).await.unwrap();
        // Nearly all items are of one key, and the first of them is stored already.
        let key_of = |n: i64| u32::from(n % 50 == 7) + 1;
        let items: Vec<_> = (0..8003).map(|n| (key_of(n), spread(n))).collect();
        let others = items.iter().filter(|(key, _)| *key == 2).count();
        for repeated in [1, items.len() as u64] {
            db.recorder().clear();
            let mut seen = Vec::new();
            let (sender, receiver) = tokio::sync::watch::channel(false);
            let read = stream::iter(items.clone()).enumerate().then(async |(position, item)| {
                if position == 5200 {
                    // The rest follows when something is stored.
                    receiver.clone().wait_for(|stored| *stored).await.unwrap();
                }
                item
            });
            let appended = trades.append_stream(read).on_progress(|progress| {
                seen.push(progress);
                sender.send_replace(true);
            });
            let appended = ends("a stream that waits for a command", appended.into_future())
                .await
                .unwrap();
            assert_eq!(appended.already_there, repeated);
            assert_eq!(appended.items, items.len() as u64 - repeated);
            let first = seen[0];
            assert!(
                (4996..=5000).contains(&first.stored),
                "a full command is sent: {first:?}"
            );
            assert_eq!(seen.last().unwrap().stored, items.len() as u64);
            for (key, expected) in by_key(&items) {
                assert!(history(&trades, key).await == expected, "key {key}");
            }
            assert_eq!(violations(&plain(db), 5).await, []);
        }
        let pages = plain(db).count_documents(doc! { "customerId": 1 }).await.unwrap();
        assert_eq!(pages, (items.len() - others).div_ceil(5) as u64);
    })
    .await;
}

/// A prefix of every key's items is stored. For the key that failed, the error has its length.
async fn check_prefixes(trades: &Trades, items: &[(u32, Trade)], failed: u32, position: u64) {
    for (key, expected) in by_key(items) {
        let stored = history(trades, key).await;
        assert_eq!(stored, expected[..stored.len()], "key {key}");
        if key == failed {
            let before = usize::try_from(position).unwrap();
            let expected = items[..before].iter().filter(|(key, _)| *key == failed).count();
            assert_eq!(stored.len(), expected, "up to position {position}");
        }
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_failed_stream_stores_a_prefix_of_every_key() {
    testkit::run(async |db| {
        let trades = unsharded(db).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder()
            .keys(doc! { "history.n": 1 })
            .options(unique)
            .build();
        plain(db).create_index(index).await.unwrap();
        let items = items(5000);
        let taken = items[4321].clone();
        let elsewhere = 1_000_000;
        trades.append(&elsewhere, &taken.1).await.unwrap();
        let stream = stream::iter(items.clone());
        let error = trades.append_stream(stream).buffer_bytes(50_000).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error:?}");
        assert_eq!(error.key(), Some(taken.0.to_string().as_str()));
        check_prefixes(&trades, &items, taken.0, error.stored_count().unwrap()).await;
        assert!(error.stored_count().unwrap() <= 4321);

        plain(db).delete_many(doc! {}).await.unwrap();
        let fault = FailPoint::on(&["findAndModify", "insert", "update"])
            .skip(70)
            .close_connection()
            .enable(db)
            .await;
        let stream = stream::iter(items.clone());
        let error = trades.append_stream(stream).buffer_bytes(50_000).await.unwrap_err();
        fault.disable().await;
        assert!(error.is_outcome_unknown(), "{error:?}");
        let failed = error.key().unwrap().parse().unwrap();
        check_prefixes(&trades, &items, failed, error.stored_count().unwrap()).await;
    })
    .await;
}

/// The error of an item that the client refuses has the number of stored items, so that the caller can retry the rest.
#[tokio::test]
async fn each_error_of_the_client_has_the_number_of_stored_items() {
    testkit::run(async |db| {
        let unready = builder(db).build().unwrap();
        for action in [
            unready.append_stream(stream::empty()).concurrency(0),
            unready.append_stream(stream::empty()).buffer_bytes(0),
        ] {
            assert_eq!(action.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let fresh = async || {
            plain(db).drop().await.unwrap();
            let names = histories::<String>(db).item_id_field("n").build().unwrap();
            names.ensure_indexes().await.unwrap();
            names
        };
        let dated = |n: i64| doc! { "n": n, "date": at(SECOND + n) };
        for (keys, buffer) in [(1, 100), (1, 64 << 20), (3, 100), (3, 400)] {
            let names = fresh().await;
            let key_of = |n: i64| (n % keys).to_string();
            let mut items: Vec<(String, Document)> = (0..20).map(|n| (key_of(n), dated(n))).collect();
            items[15].1.remove("date");
            let appended = names.append_stream(stream::iter(items.clone())).buffer_bytes(buffer);
            let error = appended.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTime, "{error:?}");
            assert_eq!(
                (error.key(), error.stored_count()),
                (Some(key_of(15).as_str()), Some(15))
            );
            assert!(!error.to_string().contains("nothing was stored"), "{error}");

            items[15].1 = dated(15);
            names.append_stream(stream::iter(items[15..].to_vec())).await.unwrap();
            for key in (0..keys).map(key_of) {
                let stored: Vec<Document> = collected(names.items(&key).stream()).await;
                let expected: Vec<Document> = (0..20).filter(|n| key_of(*n) == key).map(dated).collect();
                assert_eq!(stored, expected, "each item once");
            }
        }
        // A key that cannot be encoded, an item id of an unsupported type, and an item that is too large for a page.
        let large = doc! { "n": 7, "date": at(SECOND), "text": "x".repeat(16 << 20) };
        for (key, document, kind) in [
            ("x".repeat(5000), dated(7), ErrorKind::InvalidKey),
            (
                "a".into(),
                doc! { "n": 1.5, "date": at(SECOND) },
                ErrorKind::InvalidItemId,
            ),
            ("a".into(), large, ErrorKind::TooLarge),
        ] {
            let names = fresh().await;
            let items = (0..7).map(|n| ("a".to_owned(), dated(n))).chain([(key, document)]);
            let appended = names.append_stream(stream::iter(items)).buffer_bytes(100);
            let error = appended.await.unwrap_err();
            assert!(!error.to_string().contains("nothing was stored"), "{error}");
            let stored = names.counts("a").await.unwrap().items;
            assert_eq!((error.kind(), error.stored_count()), (kind, Some(stored)), "{error:?}");
            // A page that is too large is not sent, and neither are the others of its batch.
            assert!(stored == 7 || kind == ErrorKind::TooLarge && stored > 0);
        }
    })
    .await;
}
