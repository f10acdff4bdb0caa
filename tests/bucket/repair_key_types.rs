//! Keys of another type than the repository's: `verify` says that they are corrected by hand, and `repair` never merges them.

use mongo_patterns::Key;
use mongo_patterns::bucket::{BucketRepository, Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, Uuid, doc};

use support::bucket::damage::{bucket_at, plant, with};
use support::bucket::*;
use support::common::*;

fn repository<K: Key>(db: &TestDatabase) -> BucketRepository<K, Trade> {
    untimed::<K, Trade>(db).time_field("date").page_size(3).build().unwrap()
}

/// Stores two open buckets with the text of a key in their `_id`s, one with the key and one with a key of another type.
async fn both(db: &TestDatabase, key: &Bson, text: &str, other: &Bson) -> Vec<Document> {
    let of = |key: &Bson, second, trades| with(bucket_at(text, second, trades), "customerId", key.clone());
    plant(db, [of(key, SECOND, 0..2), of(other, SECOND + 5, 5..6)]).await;
    all(&plain(db)).await
}

async fn refuses_to_merge<K: Key>(db: &TestDatabase, key: Bson, text: &str, other: Bson) {
    let shown = format!("{key} and {other}");
    let buckets = repository::<K>(db);
    let before = both(db, &key, text, &other).await;
    confirm_settings(buckets.ensure_indexes()).await;
    let found = collected(buckets.verify().stream()).await;
    let wrong: Vec<_> = found.iter().filter(|found| found.problem == Problem::KeyType).collect();
    assert_eq!(wrong.len(), 1, "{shown}: {found:?}");
    assert_eq!(wrong[0].document_id, before[1].get("_id").unwrap().clone(), "{shown}");
    assert!(wrong[0].problem.to_string().contains("by hand"), "{shown}");

    let planned: Vec<Repaired> = collected(buckets.repair().dry_run().stream()).await;
    let repaired: Vec<Repaired> = collected(buckets.repair().stream()).await;
    assert_eq!(planned, repaired, "{shown}");
    assert_eq!(repaired.len(), 1, "{shown}: {repaired:?}");
    assert_eq!(repaired[0].unrepaired, Some(Unrepaired::AmbiguousKey), "{shown}");
    assert_eq!((repaired[0].written, repaired[0].deleted), (0, 0), "{shown}");
    assert_eq!(all(&plain(db)).await, before, "{shown}: nothing is merged");

    // Corrected by hand, it is a bucket of the key. The index would refuse the second open one.
    plain(db).drop_indexes().await.unwrap();
    let correct = doc! { "$set": { "customerId": &key } };
    plain(db)
        .update_one(doc! { "_id": before[1].get("_id") }, correct)
        .await
        .unwrap();
    let repaired: Vec<Repaired> = collected(buckets.repair().stream()).await;
    assert!(
        repaired.iter().all(|one| one.unrepaired.is_none()),
        "{shown}: {repaired:?}"
    );
    let found = collected(buckets.verify().stream()).await;
    assert_eq!(found, [], "{shown}");
    let history: usize = all(&plain(db))
        .await
        .iter()
        .map(|bucket| bucket.get_array("history").unwrap().len())
        .sum();
    assert_eq!(history, 3, "{shown}");
}

#[tokio::test]
async fn a_key_of_another_type_with_the_same_text_is_not_merged() {
    testkit::run(async |db| {
        refuses_to_merge::<u32>(db, 123.into(), "123", "123".into()).await;
        refuses_to_merge::<i64>(db, (-5_i64).into(), "-5", "-5".into()).await;
        let id = ObjectId::new();
        refuses_to_merge::<ObjectId>(db, id.into(), &id.to_hex(), id.to_hex().into()).await;
        let id = Uuid::new();
        refuses_to_merge::<Uuid>(db, id.into(), &id.to_string(), id.to_string().into()).await;
        refuses_to_merge::<String>(db, "123".into(), "123", 123.into()).await;
        refuses_to_merge::<String>(db, "123".into(), "123", 123.5.into()).await;
    })
    .await;
}
