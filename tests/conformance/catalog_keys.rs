//! The type of the keys of buckets in the catalog.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::key::Key;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, Uuid, doc};

use super::catalog::{collected, entries, refused};
use support::common::*;

/// A repository of another type would not find the buckets. All integers have one form.
#[tokio::test]
async fn a_collection_has_keys_of_one_type() {
    #[derive(mongo_patterns::AsKey, Clone, Debug, PartialEq, Eq)]
    struct CustomerId(i64);

    fn of<K: Key>(db: &TestDatabase) -> BucketRepository<K, Document> {
        let builder = BucketRepository::builder(db.collection::<Document>("trades"));
        let builder = builder
            .key_field("customerId")
            .items_field("history")
            .time_field("date");
        builder.build().unwrap()
    }

    testkit::run(async |db| {
        trades(db).await.append(&1, &spread(1)).await.unwrap();
        let strings = of::<String>(db);
        let flat = db.collection::<Document>("flat");
        let before = contents(db).await;
        refused(strings.ensure_indexes(), "`key_type`").await;
        refused(collected(strings.verify().stream()), "`key_type`").await;
        refused(collected(strings.repair().stream()), "`key_type`").await;
        refused(strings.migrate_to_flat(&flat), "`key_type`").await;
        refused(strings.migrate_page_size_from(50), "`key_type`").await;
        refused(of::<Uuid>(db).ensure_indexes(), "`key_type`").await;
        refused(of::<ObjectId>(db).ensure_indexes(), "`key_type`").await;
        of::<i64>(db).ensure_indexes().await.unwrap();
        of::<CustomerId>(db).ensure_indexes().await.unwrap();
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// The next `ensure_indexes` stores the type. Until then a repository of any type is accepted.
#[tokio::test]
async fn an_entry_of_an_earlier_version_gets_the_type_of_the_keys() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&1, &spread(1)).await.unwrap();
        let complete = entries(db).await;
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        for earlier in [
            doc! { "$unset": { "settings.key_type": "" } },
            doc! { "$set": { "settings.key_type": null } },
        ] {
            catalog.update_one(doc! {}, earlier).await.unwrap();
            assert!(collected(trades.verify().stream()).await.unwrap().is_empty());
            assert!(collected(trades.repair().stream()).await.unwrap().is_empty());
            assert_ne!(entries(db).await, complete);
            db.recorder().clear();
            trades.ensure_indexes().await.unwrap();
            let commands = ["find", "listCollections", "listIndexes", "update", "find"];
            assert_eq!(db.recorder().names(), commands);
            assert_eq!(entries(db).await, complete);
        }
    })
    .await;
}
