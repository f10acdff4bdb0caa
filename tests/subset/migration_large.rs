//! Parents whose embedded children are together nearly as large as a document can be.

use std::cmp::Reverse;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Finding;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::subset::migration::{fill, of_product};
use support::subset::*;

const CHILDREN: i64 = 2_000;
/// The `_id` of the large product, which is migrated before the others.
const LARGE: i32 = 0;

/// Returns reviews of 14 MB. Their ids, read twice, and all of them exceed the limit of a document together.
fn large_reviews() -> Vec<Document> {
    let review = |n: i64| {
        let published = day(n * 7919 % CHILDREN);
        doc! { "review_id": format!("{n:01400}"), "review_author": "x".repeat(5_600), "published_date": published }
    };
    (0..CHILDREN).map(review).collect()
}

/// Inserts a large product and 20 small ones. Returns the reviews of the large one, and the number of all.
async fn fill_large(db: &TestDatabase) -> (Vec<Document>, u64) {
    let small = fill(db, 20).await.len() as u64;
    let large = large_reviews();
    let new = doc! { "_id": LARGE, "name": "Super Widget", "reviews": &large };
    product(db).insert_one(new).await.unwrap();
    (large, small + CHILDREN as u64)
}

fn any_products(db: &TestDatabase) -> Any {
    builder(db.database()).build().unwrap()
}

async fn any_findings(products: &Any) -> Vec<Finding> {
    products.verify().stream().try_collect().await.unwrap()
}

/// Asserts that all reviews are stored, and that the large product keeps the ten newest ones.
async fn assert_migrated(db: &TestDatabase, products: &Any, large: &[Document], children: u64) {
    assert_eq!(reviews(db).count_documents(doc! {}).await.unwrap(), children);
    let of_large = doc! { "product_id": LARGE };
    assert_eq!(reviews(db).count_documents(of_large).await.unwrap(), large.len() as u64);
    let mut newest: Vec<&Document> = large.iter().collect();
    newest.sort_by_key(|review| Reverse(review.get_datetime("published_date").unwrap()));
    let newest = newest.into_iter().take(10).cloned().map(Bson::Document);
    let stored = product(db).find_one(doc! { "_id": LARGE }).await.unwrap().unwrap();
    assert_eq!(stored.get_array("reviews").unwrap(), &newest.collect::<Vec<_>>());
    assert_eq!(any_findings(products).await, []);
}

/// Also by the call after a migration was killed: while it copied the reviews of the large product, or before it wrote the
/// product. A stored review with other content is refused.
#[tokio::test]
async fn a_product_of_nearly_16_mib_is_migrated_like_the_others() {
    testkit::run(async |db| {
        for copied in [0, CHILDREN / 2, CHILDREN] {
            for name in ["product", "review", "mongo_patterns"] {
                db.plain_collection::<Document>(name).drop().await.unwrap();
            }
            let (large, children) = fill_large(db).await;
            let products = any_products(db);
            let migrate = || products.migrate_from_embedded().allow_non_empty_target();
            if copied > 0 {
                let copied = large[..copied as usize].iter();
                let copies = copied.map(|review| of_product(LARGE, review));
                reviews(db).insert_many(copies).await.unwrap();
                let one = doc! { "review_id": large[7].get("review_id") };
                let author = |author: &str| doc! { "$set": { "review_author": author } };
                reviews(db).update_one(one.clone(), author("another")).await.unwrap();
                let refused = migrate().await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::TargetNotEmpty, "{refused}");
                assert_eq!(refused.document_id(), Some(&LARGE.into()));
                let stored = product(db).find_one(doc! { "_id": LARGE }).await.unwrap().unwrap();
                assert_eq!(stored.get_array("reviews").unwrap().len(), large.len());
                let first = large[7].get_str("review_author").unwrap();
                reviews(db).update_one(one, author(first)).await.unwrap();
            }
            let migrated = match copied {
                0 => products.migrate_from_embedded().await,
                _ => migrate().await,
            };
            let migrated = migrated.unwrap();
            assert_eq!((migrated.documents, migrated.children), (21, children), "{copied}");
            assert_migrated(db, &products, &large, children).await;
            let again = products.migrate_from_embedded().await.unwrap();
            assert_eq!((again.documents, again.resumed), (0, false));
        }
    })
    .await;
}

/// A parent with more stored children than the server holds in memory at once for a `$lookup`.
#[tokio::test]
async fn a_product_with_few_embedded_and_very_many_stored_reviews_is_migrated() {
    testkit::run(async |db| {
        let embedded = vec![doc! { "review_id": -1, "published_date": day(9_000) }];
        let new = doc! { "_id": LARGE, "name": "Super Widget", "reviews": &embedded };
        product(db).insert_one(new).await.unwrap();
        // 110 MB.
        for block in 0..11 {
            let many = (block * 100..(block + 1) * 100).map(|id| {
                let review =
                    doc! { "review_id": id, "review_author": "x".repeat(100_000), "published_date": day(id.into()) };
                of_product(LARGE, &review)
            });
            reviews(db).insert_many(many).await.unwrap();
        }
        let products = any_products(db);
        let migrated = products.migrate_from_embedded().allow_non_empty_target().await.unwrap();
        assert_eq!((migrated.documents, migrated.children), (1, 1));
        assert_eq!(reviews(db).count_documents(doc! {}).await.unwrap(), 1101);
        let stored = product(db).find_one(doc! { "_id": LARGE }).await.unwrap().unwrap();
        assert_eq!(stored.get_array("reviews").unwrap()[0], embedded[0].clone().into());
        assert_eq!(any_findings(&products).await, []);
    })
    .await;
}

/// The stored and the correct subset exceed the limit of a document together.
#[tokio::test]
async fn a_stale_subset_of_more_than_8_mib_is_found_and_rebuilt() {
    testkit::run(async |db| {
        let products: Any = ready(db, builder(db.database())).await;
        let review = |id: i32, author: &str| {
            doc! { "review_id": id, "review_author": author.repeat(900_000), "published_date": day(id.into()) }
        };
        let written = (0..10).map(|id| of_product(1, &review(id, "n")));
        reviews(db).insert_many(written).await.unwrap();
        let old: Vec<Document> = (0..10).rev().map(|id| review(id, "o")).collect();
        let new: Vec<Document> = (0..10).rev().map(|id| review(id, "n")).collect();
        for with_unmanaged in [false, true] {
            let version = if with_unmanaged { Bson::Null } else { 1_i64.into() };
            let stale = doc! { "$set": { "reviews": &old, "reviews_version": version } };
            product(db).update_one(doc! { "_id": 1 }, stale).await.unwrap();
            assert_eq!(any_findings(&products).await.len(), 1, "{with_unmanaged}");
            let rebuilt = products.refresh_all().await.unwrap();
            assert_eq!(rebuilt.rebuilt_individually, 0, "{with_unmanaged}");
            let stored = all(&product(db)).await.remove(0);
            let expected: Vec<Bson> = new.iter().cloned().map(Bson::Document).collect();
            assert!(stored.get_array("reviews").unwrap() == &expected, "{with_unmanaged}");
            assert_eq!(any_findings(&products).await, [], "{with_unmanaged}");
        }
    })
    .await;
}
