//! The type of the keys of buckets in the catalog.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::key::Key;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, Uuid, doc};

use super::catalog::{collected, refused};
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
