//! The remedy of an error leads to a call that works in that state.

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::{ErrorKind, Remedy, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::common::at;
use support::history::policy;
use support::outlier::damage::{flagged, naive};
use support::repositories::Repositories;

/// Two documents that a unique index of the pattern refuses.
async fn insert_damaged(db: &TestDatabase, collection: &str, documents: [Document; 2]) {
    let stored = db.plain_collection::<Document>(collection);
    stored.insert_many(documents).await.unwrap();
}

/// Walks from the set-up of a damaged collection to a set-up that works, by the remedies alone.
macro_rules! walk {
    ($db:ident, $repository:expr, $collection:literal, $damaged:expr) => {{
        let repository = $repository;
        insert_damaged($db, $collection, $damaged).await;
        let of = |error: &mongo_patterns::Error| (error.kind(), error.remedy());
        let refused = repository.ensure_indexes().await.unwrap_err();
        assert_eq!(of(&refused), (ErrorKind::Corrupt, Some(Remedy::Verify)), "{refused:?}");
        let findings: Vec<_> = repository.verify().stream().collect().await;
        assert!(findings.iter().any(Result::is_ok), "{}", repository.pattern());

        let unknown = repository.repair().stream().try_collect::<Vec<_>>().await.unwrap_err();
        let expected = (ErrorKind::SettingsMismatch, Some(Remedy::CheckSettings));
        assert_eq!(of(&unknown), expected, "{unknown:?}");
        let refused = repository.ensure_indexes().replace_settings().await.unwrap_err();
        assert_eq!(of(&refused), (ErrorKind::Corrupt, Some(Remedy::Verify)), "{refused:?}");
        let repaired: Vec<_> = repository.repair().stream().collect().await;
        let repairs = repaired.iter().filter_map(|repaired| repaired.as_ref().ok());
        assert!(repairs.count() > 0, "{}", repository.pattern());
        // A scan without the indexes is not complete, and says so.
        if let Some(Err(error)) = repaired.last() {
            let expected = (ErrorKind::IndexMissing, Some(Remedy::EnsureIndexes));
            assert_eq!(of(error), expected, "{error:?}");
        }

        // What a repair does not decide is corrected by hand.
        if repository.ensure_indexes().await.is_err() {
            let corrected = doc! { "_id": $damaged[1].get("_id").unwrap() };
            $db.plain_collection::<Document>($collection)
                .delete_one(corrected)
                .await
                .unwrap();
            repository.ensure_indexes().await.unwrap();
        }
        repository.repair().stream().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(repository.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
    }};
}

#[tokio::test]
async fn documents_that_a_unique_index_refuses_can_be_repaired_by_the_remedies() {
    testkit::run(async |db| {
        let repositories = Repositories::new(db.database());
        let bucket = |second: i64, n: i32| {
            let trade = doc! { "n": n, "date": at(second) };
            doc! { "_id": format!("1_{second}"), "customerId": 1, "count": 1, "history": [trade] }
        };
        walk!(db, repositories.trades, "trades", [bucket(100, 1), bucket(200, 2)]);
        db.plain_collection("sales").insert_one(flagged(1, 0..0)).await.unwrap();
        walk!(
            db,
            repositories.books,
            "extra_sales",
            [naive(1, "a", 0..2), naive(1, "b", 2..4)]
        );
        db.plain_collection("product")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let review = |id: i32| doc! { "_id": id, "product_id": 1, "review_id": 1, "published": at(0) };
        walk!(db, repositories.products, "review", [review(1), review(2)]);
        let policy = |id: i32| {
            let mut policy = policy(1);
            policy.extend(doc! { "_id": id, "revision": 1, "dateSet": at(0) });
            policy
        };
        walk!(db, repositories.policies, "currentPolicies", [policy(1), policy(2)]);
    })
    .await;
}
