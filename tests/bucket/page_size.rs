//! Migrations of a live collection to another page size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use support::bucket::damage::problems;
use support::bucket::*;
use support::common::*;
use support::pace::Pace;

const KEYS: u32 = 6;
const WRITERS: i64 = 8;

fn sized(db: &TestDatabase, page_size: u32) -> Trades {
    builder(db).page_size(page_size).build().unwrap()
}

/// The trades of each key. Panics when one is stored twice.
async fn stored(trades: &Trades) -> BTreeMap<i64, u32> {
    let mut stored = BTreeMap::new();
    for key in 0..KEYS {
        let items: Vec<Trade> = collected(trades.items(&key).stream()).await;
        for trade in items {
            assert_eq!(stored.insert(trade.n, key), None, "trade {} is stored twice", trade.n);
        }
    }
    stored
}

/// The trades of unknown outcome are stored once, or not at all.
async fn check(trades: &Trades, acknowledged: &BTreeMap<i64, u32>, unknown: &BTreeMap<i64, u32>) {
    let mut stored = stored(trades).await;
    stored.retain(|trade, key| unknown.get(trade) != Some(key));
    assert_eq!(&stored, acknowledged);
    let found = collected(trades.verify().stream()).await;
    assert_eq!(problems(&found), []);
}

/// Writers with the old size append until they are refused. Then they wait for the end of the migration, if the new size
/// cannot be written before, and continue with the new size.
async fn change_under_load(db: &TestDatabase, old: u32, new: u32) {
    plain(db).drop().await.unwrap();
    let (old_size, new_size) = (sized(db, old), sized(db, new));
    old_size.ensure_indexes().await.unwrap();
    let mut acknowledged = BTreeMap::new();
    for key in 0..KEYS {
        let first = i64::from(key) * 1000 + 1_000_000;
        let before: Vec<Trade> = (first..first + 95).map(spread).collect();
        old_size.append_many(&key, &before).await.unwrap();
        acknowledged.extend(before.iter().map(|trade| (trade.n, key)));
    }
    let started = Arc::new(tokio::sync::Barrier::new(usize::try_from(WRITERS).unwrap() + 1));
    let refused = Arc::new(AtomicU32::new(0));
    let done = Arc::new(AtomicBool::new(false));
    // Without a bound, each round of the migration would find more to do.
    let (pace, written) = (Pace::of(0), Arc::new(AtomicU32::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (old_size, new_size) = (old_size.clone(), new_size.clone());
            let (started, refused, done) = (Arc::clone(&started), Arc::clone(&refused), Arc::clone(&done));
            let (pace, written) = (pace.clone(), Arc::clone(&written));
            tokio::spawn(async move {
                let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
                let mut trades = old_size;
                let (mut is_new, mut after) = (false, 0);
                started.wait().await;
                for n in (writer * 100_000)..((writer + 1) * 100_000) {
                    pace.next().await;
                    let key = u32::try_from(n % i64::from(KEYS)).unwrap();
                    loop {
                        match trades.append(&key, &spread(n)).await {
                            Ok(_) => {
                                written.fetch_add(1, Ordering::Relaxed);
                                break acknowledged.push((n, key));
                            }
                            Err(error) if error.kind() == ErrorKind::IndexMissing => {
                                if !std::mem::replace(&mut is_new, true) {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                    trades = new_size.clone();
                                }
                                pause().await;
                            }
                            // The index was dropped while the server executed the append.
                            Err(error) if error.is_outcome_unknown() && !is_new => break unknown.push((n, key)),
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    if done.load(Ordering::Relaxed) && is_new {
                        after += 1;
                        if after == 5 {
                            break;
                        }
                    }
                }
                (acknowledged, unknown)
            })
        })
        .collect();
    started.wait().await;
    let mut progress = Vec::new();
    let change = new_size
        .migrate_page_size_from(old)
        .on_progress(|change| {
            progress.push(change);
            pace.add(2);
        })
        .await
        .unwrap();
    assert!(written.load(Ordering::Relaxed) > 0, "nothing was written beside it");
    pace.end();
    done.store(true, Ordering::Relaxed);
    let mut unknown = BTreeMap::new();
    for writer in writers {
        let of_writer = writer.await.unwrap();
        acknowledged.extend(of_writer.0);
        unknown.extend(of_writer.1);
    }
    let refused = i64::from(refused.load(Ordering::Relaxed));
    assert_eq!(refused, WRITERS, "each was refused once");
    assert!(change.keys >= u64::from(KEYS), "{change:?}");
    let done: Vec<u64> = progress.iter().map(|at| at.done).collect();
    assert_eq!(done, Vec::from_iter(1..=done.len() as u64), "each bucket once");
    assert!(done.len() as u64 >= change.keys, "{change:?}");
    assert!(progress.iter().all(|at| at.total >= u64::from(KEYS)), "{progress:?}");
    println!(
        "{old} to {new}: {change:?}, {} items, unknown {unknown:?}",
        acknowledged.len()
    );
    check(&new_size, &acknowledged, &unknown).await;
    assert_eq!(violations(&plain(db), i32::try_from(new).unwrap()).await, []);
    let indexes = plain(db).list_index_names().await.unwrap();
    assert_eq!(indexes, ["_id_", new_size.indexes()[0].indexes()[0].name.as_str()]);
    let again = new_size.migrate_page_size_from(old).await.unwrap();
    assert_eq!((again.keys, again.documents), (0, 0), "and nothing is left to do");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_larger_pages() {
    testkit::run(async |db| change_under_load(db, 3, 10).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_smaller_pages() {
    testkit::run(async |db| change_under_load(db, 10, 3).await).await;
}

#[tokio::test]
async fn an_impossible_migration_is_an_error_and_changes_nothing() {
    testkit::run(async |db| {
        for old in [0, 10, u32::MAX] {
            let refused = sized(db, 10).migrate_page_size_from(old).await;
            assert_refused(refused, ErrorKind::InvalidArgument);
        }
        assert_eq!(db.recorder().round_trips(), 0);

        // An index of that name with another definition.
        sized(db, 3).ensure_indexes().replace_settings().await.unwrap();
        plain(db).drop_indexes().await.unwrap();
        let name = IndexOptions::builder().name("customerId_1_count_lt_3".to_owned());
        let index = IndexModel::builder().keys(doc! { "customerId": 1 });
        let index = index.options(name.build()).build();
        plain(db).create_index(index).await.unwrap();
        for page_size in [10, 2] {
            let refused = sized(db, page_size).migrate_page_size_from(3).await;
            assert_refused(refused, ErrorKind::IndexMismatch);
            assert_eq!(plain(db).list_index_names().await.unwrap().len(), 2);
        }
    })
    .await;
}

/// The error comes before the old index is dropped: without an index, no client could append.
#[tokio::test]
async fn a_key_that_cannot_be_rewritten_stops_a_migration_to_larger_pages() {
    testkit::run(async |db| {
        let old_size = sized(db, 3);
        old_size.ensure_indexes().await.unwrap();
        let trades = trades_of(0..7);
        old_size.append_many(&123, &trades).await.unwrap();
        let mut damaged: Document = full_bucket(SECOND + 100);
        damaged.insert("history", 7);
        plain(db).insert_one(&damaged).await.unwrap();
        let before = all(&plain(db)).await;
        let new_size = sized(db, 10);
        let error = new_size.migrate_page_size_from(3).await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");
        assert_eq!(error.key(), Some("123"));
        assert_eq!(all(&plain(db)).await, before);
        old_size.append(&123, &spread(7)).await.unwrap();

        plain(db).delete_one(doc! { "_id": damaged.get("_id") }).await.unwrap();
        let change = new_size.migrate_page_size_from(3).await.unwrap();
        assert_eq!((change.keys, change.documents), (1, 1));
        assert_eq!(new_size.page(&123, 1).await.unwrap().unwrap().items.len(), 8);
    })
    .await;
}
