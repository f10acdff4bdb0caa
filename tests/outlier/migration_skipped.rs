//! Migrations of existing documents with invalid lists, and at a rate.

use std::time::{Duration, Instant};

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::common::support::all;
use crate::outlier::support::*;

fn list(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("skipped")
}

/// Documents of which two have too many customers, and two none that can be split.
async fn fill(db: &TestDatabase) {
    let of = |id: i32, customers: usize| doc! { "_id": id, "customers_purchased": users(0..customers) };
    let invalid = |id: i32| doc! { "_id": id, "customers_purchased": "none" };
    let documents = [of(1, 3), invalid(2), of(3, 90), invalid(4), of(5, 80)];
    sales(db).insert_many(documents).await.unwrap();
}

#[tokio::test]
async fn invalid_lists_are_skipped_listed_and_counted() {
    testkit::run(async |db| {
        let books = again(db, 50, 20);
        fill(db).await;
        let list_of_call = db.collection::<Document>("skipped");
        let migration = || books.migrate_existing().skip_invalid(&list_of_call);
        let dry = migration().plan().await.unwrap().migrated;
        assert_eq!(
            (dry.documents, dry.skipped.get("no_array"), dry.skipped.total()),
            (2, 2, 2)
        );
        assert_eq!(all(&list(db)).await, Vec::<Document>::new());
        for name in ["sales", "extra_sales", "mongo_patterns"] {
            let list = db.collection::<Document>(name);
            let refused = books.migrate_existing().skip_invalid(&list).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
        let invalid = |documents: Vec<Document>| {
            let is_invalid = |document: &Document| document.get_i32("_id").unwrap() % 2 == 0;
            documents.into_iter().filter(is_invalid).collect::<Vec<_>>()
        };
        let before = invalid(all(&sales(db)).await);
        for documents in [2, 0] {
            let migrated = migration().await.unwrap();
            assert_eq!((migrated.documents, migrated.skipped.total()), (documents, 2));
            let listed = all(&list(db)).await;
            let reasons: Vec<(i32, &str)> = listed
                .iter()
                .map(|listed| (listed.get_i32("_id").unwrap(), listed.get_str("reason").unwrap()))
                .collect();
            assert_eq!(reasons, [(2, "no_array"), (4, "no_array")]);
            assert_eq!(invalid(all(&sales(db)).await), before);
        }
        assert_eq!(stored(db, 3).await, users(0..90));
        // A document that was corrected leaves the list.
        let correct = doc! { "$set": { "customers_purchased": [] } };
        sales(db).update_one(doc! { "_id": 2 }, correct).await.unwrap();
        assert_eq!(migration().await.unwrap().skipped.total(), 1);
        assert_eq!(all(&list(db)).await.len(), 1);
        let refused = books.migrate_existing().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        list(db).insert_one(doc! { "_id": "mine" }).await.unwrap();
        let refused = migration().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TargetNotEmpty);
    })
    .await;
}

/// The time is a lower bound, which no load of the machine can break.
#[tokio::test]
async fn a_rate_is_kept_by_pauses_between_documents() {
    testkit::run(async |db| {
        fill(db).await;
        sales(db).delete_many(doc! { "_id": { "$in": [2, 4] } }).await.unwrap();
        let books = again(db, 50, 20);
        let refused = books.migrate_existing().rate(0).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let start = Instant::now();
        assert_eq!(books.migrate_existing().rate(2).await.unwrap().documents, 2);
        assert!(start.elapsed() >= Duration::from_secs(1));
    })
    .await;
}

#[tokio::test]
async fn only_the_documents_of_the_filter_are_migrated() {
    testkit::run(async |db| {
        let books = again(db, 50, 20);
        let of = |id: i32, customers: usize| doc! { "_id": id, "customers_purchased": users(0..customers) };
        sales(db).insert_many((1..=6).map(|id| of(id, 80))).await.unwrap();
        let half = || books.migrate_existing().filter(doc! { "_id": { "$lte": 3 } });
        assert_eq!(half().plan().await.unwrap().migrated.documents, 3);
        assert_eq!(half().await.unwrap().documents, 3);
        let split = |document: &Document| document.get_bool("has_extras").unwrap_or(false);
        let are_split: Vec<bool> = all(&sales(db)).await.iter().map(split).collect();
        assert_eq!(are_split, [true, true, true, false, false, false]);
        assert_eq!(half().await.unwrap().documents, 0);
        for id in 1..=6 {
            assert_eq!(stored(db, id).await, users(0..80), "{id}");
        }

        let before = all(&sales(db)).await;
        let illegal = books.migrate_existing().filter(doc! { "_id": { "$noSuch": "secret" } });
        let error = illegal.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(all(&sales(db)).await, before);
        assert_eq!(books.migrate_existing().await.unwrap().documents, 3);
    })
    .await;
}
