//! Repairs while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::TryStreamExt;
use mongo_patterns::bucket::Repaired;
use mongo_patterns_testkit as testkit;
use mongodb::Collection;
use mongodb::bson::{Document, Regex, cstr, doc};

use support::bucket::damage::*;
use support::bucket::*;
use support::common::*;

async fn repair(named: &Named) -> Vec<Repaired> {
    confirm_settings(named.ensure_indexes()).await;
    collected(named.repair().stream()).await
}

/// The trades of these keys. Panics when one is stored twice.
async fn numbers_of(named: &Named, keys: &[String]) -> Vec<i64> {
    let mut found = Vec::new();
    for key in keys {
        found.extend(numbers(&collected(named.items(key).stream()).await));
    }
    found.sort_unstable();
    assert!(found.is_sorted_by(|a, b| a < b), "a trade is stored twice: {found:?}");
    found
}

/// Runs the manual's `updateOne` with an unescaped key. Returns whether it was acknowledged.
async fn shell_append(collection: &Collection<Document>, key: &str, n: i64) -> bool {
    let pattern = Regex {
        pattern: format!("^{key}_").try_into().unwrap(),
        options: cstr!("").into(),
    };
    let update = doc! {
        "$push": { "history": trade(n) },
        "$inc": { "count": 1 },
        "$setOnInsert": { "_id": format!("{key}_{}", SECOND + n), "customerId": key },
    };
    let filter = doc! { "_id": pattern, "count": { "$lt": 3 } };
    collection.update_one(filter, update).upsert(true).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_of_shells_is_repaired_while_shells_write() {
    testkit::run(async |db| {
        let named = named(db).build().unwrap();
        let keys: Vec<String> = ["c_1", "c_2", "d1", "d2"].map(str::to_owned).to_vec();
        let writing = Arc::new(AtomicU32::new(8));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (shell, keys, writing) = (plain(db), keys.clone(), Arc::clone(&writing));
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in writer * 1000..writer * 1000 + 60 {
                        let key = &keys[usize::try_from(n).unwrap() % keys.len()];
                        if shell_append(&shell, key, n).await {
                            acknowledged.push(n);
                        }
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                    acknowledged
                })
            })
            .collect();
        let mut mended = 0;
        while writing.load(Ordering::Relaxed) > 0 {
            mended += repair(&named).await.len();
        }
        assert!(mended > 0);
        let mut expected = Vec::new();
        for writer in writers {
            expected.extend(writer.await.unwrap());
        }
        repair(&named).await;
        expected.sort_unstable();
        assert_eq!(numbers_of(&named, &keys).await, expected);
        assert_eq!(problems(&findings(&named).await), []);
        named.ensure_indexes().await.unwrap();
        for key in &keys {
            named.append(key, &spread(100_000)).await.unwrap();
        }
        assert_eq!(problems(&findings(&named).await), []);
    })
    .await;
}

/// Makes each call for all keys, while the stream is not polled.
#[tokio::test]
async fn the_reader_of_a_repair_calls_the_same_repository() {
    testkit::run(async |db| {
        let named = named(db).build().unwrap();
        named.ensure_indexes().await.unwrap();
        let keys: Vec<String> = (0..24).map(|key| format!("k{key}")).collect();
        for key in &keys {
            plain(db).insert_one(with(bucket(key, 0..3), "count", 4)).await.unwrap();
        }
        let repair = async {
            let mut repaired = named.repair().stream();
            let mut number = 0;
            while repaired.try_next().await.unwrap().is_some() {
                if number < 2 {
                    for key in &keys {
                        named.append(key, &spread(100 + number)).await.unwrap();
                    }
                }
                number += 1;
            }
            assert!(number > 0);
        };
        ends("an append, which waits for no lock of the stream,", repair).await;
        for key in &keys {
            assert_eq!(numbers_of(&named, std::slice::from_ref(key)).await, [0, 1, 2, 100, 101]);
        }
    })
    .await;
}
