//! The keys that have buckets, the deletion of a key, and the codec of keys on the server, which agrees with that of the client.

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::{ErrorKind, Key};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, Uuid, doc};
use proptest::prelude::*;

use crate::bucket::migration::raw;
use support::bucket::damage::{bucket, bucket_at, named, with};
use support::bucket::*;
use support::common::*;
use support::model::check_cases;

async fn all_keys(trades: &Trades) -> Vec<u32> {
    trades.keys().stream().try_collect().await.unwrap()
}

/// Inserts a number of full buckets of each of these keys, without the repository.
async fn plant(db: &TestDatabase, keys: impl Iterator<Item = u32>, buckets: i64) {
    let bucket = |key: u32, n: i64| {
        let id = format!("{key}_{}", SECOND + n);
        doc! { "_id": id, "customerId": i64::from(key), "count": 10, "history": [] }
    };
    let documents: Vec<Document> = keys.flat_map(|key| (0..buckets).map(move |n| bucket(key, n))).collect();
    plain(db).insert_many(documents).await.unwrap();
}

/// The `_id` index serves it: no documents are examined, and few entries.
#[tokio::test]
async fn each_key_is_returned_once_in_few_round_trips() {
    testkit::run(async |db| {
        for (keys, buckets, round_trips) in [(0, 1, 1), (5, 1, 1), (3000, 1, 6), (20, 300, 30)] {
            plain(db).drop().await.unwrap();
            let trades = trades(db).await;
            if keys > 0 {
                plant(db, 1..=keys, buckets).await;
            }
            let mut expected: Vec<u32> = (1..=keys).collect();
            expected.sort_by_key(|key| format!("{key}_"));
            db.recorder().clear();
            assert_eq!(all_keys(&trades).await, expected, "{keys} keys of {buckets} buckets");
            let commands = db.recorder().commands();
            assert!(commands.iter().all(|command| command.name == "find"));
            let sent = commands.len();
            assert!(sent <= round_trips, "{sent} for {keys} keys of {buckets}");
            let (mut entries, mut documents) = (0, 0);
            for command in &commands {
                let examined = explain(db, command).await;
                entries += examined.keys;
                documents += examined.documents;
            }
            assert_eq!(documents, 0);
            let few = 16 * i64::from(keys) + 200;
            assert!(entries <= few, "{entries} entries for {keys} keys of {buckets}");
            assert_eq!(trades.keys().await.unwrap(), expected);
            for limit in [1, 5, 101, 5000_u32] {
                let first = expected.iter().take(limit as usize).copied().collect::<Vec<_>>();
                assert_eq!(trades.keys().limit(limit).await.unwrap(), first);
                assert_eq!(collected(trades.keys().limit(limit).stream()).await, first);
            }
        }
    })
    .await;
}

/// Each is reported, and the keys after it are returned all the same.
#[tokio::test]
async fn a_bucket_that_names_no_key_is_an_error_that_names_it() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        plant(db, [5, 123].into_iter(), 2).await;
        let object_id = ObjectId::new();
        let ids: [Bson; 7] = [
            7.into(),
            8.5.into(),
            "".into(),
            "007_1698335223".into(),
            "12x_1698335223".into(),
            "what".into(),
            object_id.into(),
        ];
        for id in &ids {
            let bucket = doc! { "_id": id, "customerId": 5, "count": 10 };
            plain(db).insert_one(bucket).await.unwrap();
        }
        plain(db).insert_one(doc! { "_id": true, "count": 10 }).await.unwrap();
        let found: Vec<_> = trades.keys().stream().collect().await;
        let mut keys = Vec::new();
        let mut named = Vec::new();
        for key in found {
            match key {
                Ok(key) => keys.push(key),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
                    assert_eq!((error.operation(), error.field()), (Some("keys"), Some("_id")));
                    named.push(error.document_id().unwrap().clone());
                }
            }
        }
        assert_eq!(keys, [123, 5]);
        assert!(trades.keys().await.unwrap_err().is_corrupt());
        // The first before the strings, and the first after them.
        assert_eq!(named, [0, 2, 3, 4, 5, 6].map(|number: usize| ids[number].clone()));
    })
    .await;
}

#[tokio::test]
async fn keys_are_read_and_deleted_in_the_callers_session() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&1, &spread(0)).await.unwrap();
        until_seen(db, &["trades"]).await;
        let mut session = transaction(db).await;
        trades.append(&2, &spread(0)).session(&mut session).await.unwrap();
        let keys: Vec<u32> = collected(trades.keys().session(&mut session).stream()).await;
        assert_eq!(keys, [1, 2]);
        assert_eq!(all_keys(&trades).await, [1]);
        db.recorder().clear();
        let deleted = trades.delete_key(&2).session(&mut session).await.unwrap();
        assert_eq!((deleted.documents, db.recorder().round_trips()), (1, 1));
        session.abort_transaction().await.unwrap();
        let deleted = trades.delete_key(&1).session(&mut session).await.unwrap();
        assert_eq!(deleted.documents, 1, "also where no transaction is running");
    })
    .await;
}

#[tokio::test]
async fn a_key_is_deleted_with_all_its_buckets_and_no_other() {
    testkit::run(async |db| {
        let names = named(db).build().unwrap();
        let others = [
            bucket("a_4", 0..3),
            bucket("b", 0..3),
            with(bucket("a", 0..3), "_id", "aa_1698335223"),
            // These have an id of the key, and the key field of another one.
            with(bucket("b", 0..3), "_id", "a_5"),
            with(bucket("b", 0..3), "_id", "a%5F3_5"),
        ];
        // Its key field is `a`, and its `_id` looks like one of `a_3`.
        let of_a = with(bucket("a", 0..3), "_id", "a_3_7");
        for (key, encoded) in [("a", "a"), ("a_3", "a%5F3")] {
            plain(db).drop().await.unwrap();
            let mut expected = others.to_vec();
            if key != "a" {
                expected.push(of_a.clone());
            }
            expected.sort_by_key(|other| other.get_str("_id").unwrap().to_owned());
            plain(db).insert_many(&expected).await.unwrap();
            let own = (0..5_i64).map(|n| {
                let id = format!("{encoded}_{}", SECOND + n);
                with(bucket_at(key, SECOND, n * 3..n * 3 + 3), "_id", id)
            });
            let hand_written = with(bucket(key, 90..92), "_id", format!("{key}_1698335399"));
            plain(db).insert_many(own.chain([hand_written])).await.unwrap();
            db.recorder().clear();
            let deleted = names.delete_key(key).await.unwrap();
            assert_eq!((deleted.found, deleted.documents), (true, 6));
            assert_eq!(db.recorder().names(), ["delete", "find"]);
            assert_eq!(all(&plain(db)).await, expected, "{key}");
            db.recorder().clear();
            let again = names.delete_key(key).await.unwrap();
            assert_eq!(
                (again.found, again.documents, db.recorder().round_trips()),
                (false, 0, 2)
            );
            assert_eq!(all(&plain(db)).await, expected);
        }
    })
    .await;
}

/// The `_id` index serves it, for any number of buckets.
#[tokio::test]
async fn a_deletion_examines_the_buckets_of_its_key_and_needs_no_retries() {
    testkit::run(async |db| {
        // A policy of one attempt allows the deletion, which needs two passes.
        let once = mongo_patterns::RetryPolicy::default().with_max_attempts(1);
        let trades = ready(db, builder(db).retry(once)).await;
        plant(db, 100..200, 5).await;
        assert_eq!(trades.delete_key(&150).await.unwrap().documents, 5);
        let examined = explain_last(db).await;
        assert_eq!((examined.index.as_str(), examined.documents), ("_id_", 0));
        assert_eq!(all_keys(&trades).await.len(), 99);
        trades.append(&150, &spread(0)).await.unwrap();
        assert_eq!(trades.counts(&150).await.unwrap().items, 1);
    })
    .await;
}

/// Appends, batches and removals of two processes continue while the key is deleted repeatedly.
#[tokio::test]
async fn concurrent_appends_are_deleted_or_stored() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).item_id_field("n").page_size(3)).await;
        let other = builder(db).item_id_field("n").page_size(3).build().unwrap();
        let batches = async {
            for batch in 0..30_i64 {
                let items: Vec<Trade> = (0..7).map(|n| spread(batch * 7 + n)).collect();
                assert_eq!(trades.append_many(&1, &items).await.unwrap().items, 7);
            }
        };
        let appends = async {
            for n in 1000..1100 {
                other.append(&1, &spread(n)).await.unwrap();
                other.remove_item(&1, n - 3).await.unwrap();
                trades.append(&12, &spread(n)).await.unwrap();
            }
        };
        let deletes = async {
            let mut buckets = 0;
            for _ in 0..20 {
                buckets += trades.delete_key(&1).await.unwrap().documents;
            }
            buckets
        };
        let (_, _, buckets) = tokio::join!(batches, appends, deletes);
        assert!(buckets > 0);
        let left: Vec<Trade> = collected(trades.items(&1).stream()).await;
        let of_batch = |batch: i64| left.iter().filter(|item| item.n < 1000 && item.n / 7 == batch).count();
        for batch in 0..30 {
            let items = of_batch(batch);
            assert!([0, 7].contains(&items), "batch {batch} has {items} items");
        }
        let findings = collected(trades.verify().stream()).await;
        assert_eq!(findings, []);
        assert_eq!(violations(&plain(db), 3).await, []);
        let of_another = trades.counts(&12).await.unwrap();
        assert_eq!(of_another.items, 100, "another key loses no item");
        trades.delete_key(&1).await.unwrap();
        assert_eq!(all_keys(&trades).await, [12]);
    })
    .await;
}

/// A `deleteMany` that waits for a transaction skips a bucket that the transaction deletes and inserts again with the same
/// `_id`.
#[tokio::test]
async fn a_deletion_finds_a_bucket_that_a_transaction_writes_concurrently() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).item_id_field("n").page_size(3)).await;
        let other_process = builder(db).item_id_field("n").page_size(3).build().unwrap();
        for pages in 1..=2 {
            let items = trades_of(0..pages * 3);
            trades.append_many(&1, &items).await.unwrap();
            until_seen(db, &["trades"]).await;
            let mut session = transaction(db).await;
            let removed = other_process.remove_item(&1, 0_i64).session(&mut session);
            assert!(removed.await.unwrap().found);
            let commits = async {
                until_blocked(db, doc! { "op": "remove" }).await;
                session.commit_transaction().await.unwrap();
            };
            let (deleted, ()) = tokio::join!(trades.delete_key(&1), commits);
            assert_eq!(all(&plain(db)).await, Vec::<Document>::new(), "{pages} pages");
            assert!(deleted.unwrap().found);
        }
    })
    .await;
}

/// The server encodes a key to the client's text, and refuses the same values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_encodes_keys_as_the_client_does() {
    async fn check<K: Key>(db: &TestDatabase, values: &[Bson]) {
        let values: Vec<Document> = (0..)
            .zip(values)
            .map(|(n, value)| doc! { "_id": n, "k": value })
            .collect();
        let collection = db.plain_collection::<Document>("keys");
        collection.drop().await.unwrap();
        collection.insert_many(&values).await.unwrap();
        let on_server = K::expressions("$k");
        // Before MongoDB 8.0 a server has no expression for the text of a UUID, and migrations refuse these keys.
        let has_text = K::BSON_TYPES != Uuid::BSON_TYPES || at_least(db, 8);
        let text = if has_text { on_server.text } else { "".into() };
        let encoded = doc! { "t": text, "v": on_server.value };
        let project = doc! { "e": { "$cond": [on_server.is_key, encoded, null] } };
        let stages = [doc! { "$sort": { "_id": 1 } }, doc! { "$project": project }];
        let mut cursor = collection.aggregate(stages).await.unwrap();
        for value in &values {
            assert!(cursor.advance().await.unwrap());
            let found = cursor.deserialize_current().unwrap();
            let found = found.get_document("e").ok().map(raw);
            let stored = raw(value);
            let key = K::from_stored(stored.get("k").unwrap().unwrap()).and_then(|key| key.encode_key().ok());
            let expected = key.map(|key| {
                let text = if has_text { key.text() } else { "" };
                raw(&doc! { "t": text, "v": key.value() })
            });
            assert_eq!(found, expected, "{value}");
        }
    }
    let number = prop_oneof![
        any::<i64>().prop_map(Bson::from),
        any::<i32>().prop_map(Bson::from),
        any::<i32>().prop_map(|n| Bson::from(f64::from(n))),
        any::<u64>().prop_map(|n| Bson::from(f64::from_bits(n))),
        prop::sample::select(vec![
            0.0,
            -0.0,
            0.5,
            f64::NAN,
            f64::INFINITY,
            2_f64.powi(53),
            -(2_f64.powi(53)),
            2_f64.powi(54),
            2_f64.powi(63)
        ])
        .prop_map(Bson::from),
        prop::sample::select(vec![
            -1,
            0,
            i64::MIN,
            i64::MAX,
            1 << 31,
            1 << 32,
            (1 << 32) - 1,
            (1 << 53) + 1
        ])
        .prop_map(Bson::from),
    ];
    let text = prop_oneof![
        4 => r"[12_%.*+|(\\^$\[\]a\x00]{0,8}",
        1 => "\\PC{0,12}",
        1 => any::<String>(),
        1 => "[a_]{300,1100}",
    ];
    let other = prop_oneof![
        any::<[u8; 16]>().prop_map(|bytes| Bson::from(Uuid::from_bytes(bytes))),
        any::<[u8; 12]>().prop_map(|bytes| Bson::from(ObjectId::from_bytes(bytes))),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes
        })),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Binary(Binary {
            subtype: BinarySubtype::UuidOld,
            bytes: bytes.to_vec()
        })),
        Just(Bson::Null),
        Just(Bson::Array(vec![])),
        Just(Bson::from(doc! {})),
        Just(Bson::from(DateTime::from_millis(0))),
    ];
    let values = prop::collection::vec(prop_oneof![number, text.prop_map(Bson::from), other], 60);
    testkit::run(async |db| {
        check_cases(12, &values, async |values| {
            check::<i32>(db, &values).await;
            check::<i64>(db, &values).await;
            check::<u32>(db, &values).await;
            check::<u64>(db, &values).await;
            check::<String>(db, &values).await;
            check::<ObjectId>(db, &values).await;
            check::<Uuid>(db, &values).await;
        });
    })
    .await;
}
