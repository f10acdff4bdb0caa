//! Indexes and documents that refuse the set-up of a sharded cluster, in whichever collection of a pattern they are.

use mongo_patterns::reference::Reference;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use crate::conformance::sharding::router::contents;
use support::reference::builder as orders;
use support::repositories::Repositories;
use support::router::Router;

/// An index with the name of one that the call creates, and other fields.
#[tokio::test]
async fn a_conflicting_index_of_any_collection_is_refused_before_anything_is_written() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        let invoices = router.database().collection::<Document>("invoices");
        let two_collections = orders(&router.database())
            .add_referring(invoices, Reference::new("customer").copied_fields(["name"]))
            .build()
            .unwrap();
        let database = db.plain_client().database(db.database().name());
        let mut refused = Vec::new();
        for pattern in 0..=repositories.ensure_sharded().len() {
            let ensure = || {
                let mut all = repositories.ensure_sharded();
                all.push(two_collections.ensure_sharded());
                all.swap_remove(pattern)
            };
            let start_again = async || {
                database.drop().await.unwrap();
                router.metadata().collections.clear();
            };
            start_again().await;
            ensure().await.unwrap();
            for (collection, _, indexes) in contents(db).await {
                let of_pattern = |name: &&String| *name != "_id_" && collection != "mongo_patterns";
                for name in indexes.iter().filter(of_pattern) {
                    start_again().await;
                    let named = IndexOptions::builder().name(name.clone()).build();
                    let other = IndexModel::builder().keys(doc! { "another": 1 }).options(named).build();
                    let conflicting = database.collection::<Document>(&collection);
                    conflicting.create_index(other).await.unwrap();
                    let before = contents(db).await;
                    let error = ensure().await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{collection} {name}: {error}");
                    assert!(router.metadata().collections.is_empty(), "{collection} {name}");
                    assert_eq!(contents(db).await, before, "{collection} {name}");
                    refused.push(collection.clone());
                }
            }
        }
        refused.dedup();
        let expected = "trades, extra_sales, review, currentPolicies, policyRevisions, orders, invoices, orders";
        assert_eq!(refused.join(", "), expected);
    })
    .await;
}

/// As a user shards the collections before the first call.
#[tokio::test]
async fn documents_of_other_settings_are_refused_in_sharded_collections() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let repositories = Repositories::new(&router.database());
        for (name, key) in [("product", doc! { "_id": 1 }), ("review", doc! { "product_id": 1 })] {
            let namespace = format!("{}.{name}", db.database().name());
            let entry = doc! { "_id": namespace, "key": key, "unique": false };
            router.metadata().collections.push(entry);
        }
        let reviews = db.plain_collection::<Document>("review");
        reviews.insert_one(doc! { "_id": 1, "product": 5 }).await.unwrap();
        let before = contents(db).await;
        let error = repositories.products.ensure_sharded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
        assert_eq!(contents(db).await, before);
    })
    .await;
}
