//! Migrations of embedded children with invalid parents, by a filter, and at a rate.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::subset::migration::*;
use support::common::all;
use support::subset::migration::*;
use support::subset::*;

const INTERRUPTED: i32 = 11_601;

/// Returns the reviews of the valid parents.
async fn fill_mixed(db: &TestDatabase) -> Vec<Document> {
    let expected = fill(db, 30).await;
    let bad = invalid();
    let bad = bad.iter().map(|(parent, _)| parent);
    product(db).insert_many(bad).await.unwrap();
    expected
}

#[tokio::test]
async fn invalid_parents_are_found_and_migrated_when_they_are_repaired() {
    testkit::run(async |db| {
        fill_mixed(db).await;
        let products = unmigrated(db);
        let found = products.migrate_from_embedded().find_invalid(None).await.unwrap();
        assert_eq!((found.checked, found.invalid.total()), (26, 6));
        assert_eq!(product(db).count_documents(found.filter).await.unwrap(), 6);
        let list = db.plain_collection::<Document>("skipped");
        let migration = || products.migrate_from_embedded().skip_invalid(&list);
        assert_eq!(migration().await.unwrap().documents, 30);

        let before = all(&product(db)).await;
        let repaired = doc! { "$set": { "reviews": [embedded_review(1, 1)] } };
        product(db).update_one(doc! { "_id": 904 }, repaired).await.unwrap();
        let again = migration().allow_non_empty_target().await.unwrap();
        assert_eq!((again.documents, again.skipped.total()), (1, 5));
        let others = |mut parents: Vec<Document>| {
            parents.retain(|parent| parent.get_i32("_id").unwrap() != 904);
            parents
        };
        assert_eq!(others(all(&product(db)).await), others(before));
        assert_eq!(all(&list).await.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn another_filter_is_refused_when_it_resumes() {
    testkit::run(async |db| {
        let expected = fill_mixed(db).await;
        let few = doc! { "_id": { "$lte": 10 } };
        let with = |filter: Document| async {
            let products = unmigrated(db);
            products.migrate_from_embedded().chunk(50).filter(filter).await
        };
        // The second chunk fails.
        let fault = FailPoint::on(&["update"])
            .skip(3)
            .error_code(INTERRUPTED)
            .enable(db)
            .await;
        with(few.clone()).await.unwrap_err();
        fault.disable().await;
        let refused = with(doc! { "_id": { "$lte": 11 } }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("another filter"), "{refused}");
        let others = doc! { "_id": { "$gt": 10 } };
        let before: Vec<Document> = found(&product(db), others.clone()).await;
        let migrated = with(few).await.unwrap();
        assert!(migrated.resumed);
        let of_few = expected
            .iter()
            .filter(|review| review.get_i32("product_id").unwrap() <= 10);
        assert_eq!(stored(db).await, of_few.cloned().collect::<Vec<_>>());
        assert_eq!(found(&product(db), others).await, before);
        let rest = doc! { "_id": { "$gt": 10, "$lt": 900 } };
        let rest = unmigrated(db)
            .migrate_from_embedded()
            .filter(rest)
            .allow_non_empty_target()
            .await
            .unwrap();
        assert!(rest.documents > 0 && stored(db).await == expected);
    })
    .await;
}

async fn found(collection: &Collection<Document>, filter: Document) -> Vec<Document> {
    let found = collection.find(filter).sort(doc! { "_id": 1 }).await.unwrap();
    found.try_collect().await.unwrap()
}
