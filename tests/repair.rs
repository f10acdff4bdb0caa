//! What is wrong with stored buckets is mended, and no item is lost.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{Left, Repaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::damage::*;
use crate::support::*;

async fn repair(named: &Named) -> Vec<Repaired> {
    named.repair().stream().try_collect().await.unwrap()
}

/// The ids of the stored buckets and the numbers of their trades.
async fn stored(db: &TestDatabase) -> Vec<(String, Vec<i64>)> {
    let numbers = |bucket: &Document| {
        let history = bucket.get_array("history").unwrap().iter();
        history
            .map(|trade| trade.as_document().unwrap().get_i64("n").unwrap())
            .collect()
    };
    all(&plain(db))
        .await
        .iter()
        .map(|bucket| (bucket.get_str("_id").unwrap().to_owned(), numbers(bucket)))
        .collect()
}

#[tokio::test]
async fn each_kind_of_damage_is_mended_or_left_and_said() {
    testkit::run(async |db| {
        let named = named(db).build().unwrap();
        for damage in kinds() {
            plant(db, damage.documents.iter().cloned()).await;
            let before = all(&plain(db)).await;
            db.recorder().clear();
            let planned: Vec<_> = named.repair().dry_run().stream().try_collect().await.unwrap();
            let writes = ["insert", "delete", "update", "commitTransaction"];
            assert!(!db.recorder().names().iter().any(|name| writes.contains(&name.as_str())));
            assert_eq!(all(&plain(db)).await, before, "a dry run writes nothing");

            let repaired = repair(&named).await;
            assert_eq!(repaired, planned, "a dry run says what a repair does");
            assert_eq!(repaired.len(), 1, "{:?}", damage.problems);
            match damage.pages {
                Some(pages) => {
                    let pages: Vec<_> = pages.into_iter().map(|(id, trades)| (id.to_owned(), trades)).collect();
                    assert_eq!(stored(db).await, pages);
                    assert_eq!(repaired[0].left, None);
                    assert_eq!(problems(&findings(&named).await), []);
                    assert_eq!(repair(&named).await, [], "and nothing is left to do");
                    named.ensure_indexes().await.unwrap();
                    named.append("a", &spread(99)).await.unwrap();
                    assert_eq!(problems(&findings(&named).await), []);
                }
                None => {
                    assert!(repaired[0].left.is_some());
                    assert_eq!(all(&plain(db)).await, before);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn on_a_standalone_nothing_is_changed_and_a_dry_run_works() {
    let standalone = testkit::Mongod::start(testkit::MongodOptions::new().standalone())
        .await
        .unwrap();
    let client = mongodb::Client::with_uri_str(standalone.uri()).await.unwrap();
    let collection = client.database("test").collection::<Document>("trades");
    let named = Named::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .page_size(3)
        .build()
        .unwrap();
    collection.insert_one(bucket("a", 0..7)).await.unwrap();
    let before = all(&collection).await;
    let error = named.repair().stream().try_next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert_eq!(error.operation(), Some("repair"));
    let planned: Vec<Repaired> = named.repair().dry_run().stream().try_collect().await.unwrap();
    assert_eq!(planned[0].written.len(), 3);
    assert_eq!(all(&collection).await, before);
}
