//! The key codec of the server agrees with that of the client.

use mongo_patterns::Key;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, Uuid, doc};
use proptest::prelude::*;

use crate::bucket::migration::raw;
use support::common::at_least;
use support::model::check_cases;

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
