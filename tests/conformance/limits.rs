//! The largest and the smallest numbers that a call accepts: it succeeds, or its error names the invalid argument.

use futures::TryStreamExt;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::common::*;
use support::{outlier as outlier_support, subset as subset_support};

fn is_refused<T>(outcome: Result<T>, call: &str) {
    let Err(error) = outcome else {
        panic!("{call} accepted it")
    };
    assert!(error.is_invalid_input(), "{call}: {error:?}");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Configuration),
        "{call}: {error:?}"
    );
}

#[tokio::test]
async fn buckets_accept_extreme_numbers_or_refuse_them() {
    testkit::run(async |db| {
        for size in [1, 10, i32::MAX as u32] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(size)).await;
            let all: Vec<Trade> = (0..25).map(spread).collect();
            trades.append_many(&size, &all).await.unwrap();
            let newest = trades.newest(&size, u32::MAX).await.unwrap();
            assert_eq!(newest, all.iter().cloned().rev().collect::<Vec<_>>());
            let pages = trades.buckets(&size).limit(u32::MAX).page().await.unwrap();
            assert_eq!(pages.items.len(), 25_usize.div_ceil(size as usize));
            assert!(trades.page(&size, i64::MAX as u64).await.unwrap().is_none());
            is_refused(trades.page(&size, u64::MAX).await, "page");
            assert_eq!(trades.items(&size).limit(u32::MAX).page().await.unwrap().items, all);
            let skipped: Vec<Trade> = trades.items(&size).skip(u64::MAX).stream().try_collect().await.unwrap();
            assert_eq!(skipped, []);
            let limited = trades.items(&size).skip(5).limit(u32::MAX);
            let limited: Vec<Trade> = limited.stream().try_collect().await.unwrap();
            assert_eq!(limited, all[5..]);
        }
        for size in [0, i32::MAX as u32 + 1, u32::MAX] {
            is_refused(builder(db).page_size(size).build(), "page_size");
        }
        plain(db).drop().await.unwrap();
        let trades = trades(db).await;
        is_refused(trades.newest(&1, 0).await, "newest");
        is_refused(trades.buckets(&1).limit(0).page().await, "buckets");
        is_refused(trades.keys().limit(0).await, "keys");
        is_refused(trades.find_items(doc! {}).limit(0).await, "find_items");
        is_refused(trades.page(&1, 0).await, "page");
    })
    .await;
}

#[tokio::test]
async fn outliers_accept_extreme_numbers_or_refuse_them() {
    testkit::run(async |db| {
        let books = outlier_support::books(db).await;
        let book = outlier_support::book(1, 120);
        books.insert(&book).await.unwrap();
        let all = &book.customers_purchased;
        assert_eq!(&books.elements(1).limit(u64::MAX).await.unwrap(), all);
        assert_eq!(books.elements(1).skip(100).limit(u64::MAX).await.unwrap(), all[100..]);
        assert_eq!(books.elements(1).skip(u64::MAX).limit(u64::MAX).await.unwrap(), [""; 0]);
        is_refused(books.elements(1).limit(0).await, "elements");
        let stream = books.elements(1).skip(u64::MAX).stream();
        assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap(), [""; 0]);
        for concurrency in [0, usize::MAX] {
            books.migrate_existing().concurrency(concurrency).await.unwrap();
        }
        for (threshold, cap) in [(0, 500), (50, 0), (u32::MAX, 500), (50, u32::MAX)] {
            let builder = outlier_support::builder::<Document, String>(db);
            is_refused(
                builder.threshold(threshold).max_overflow_elements(cap).build(),
                "threshold and cap",
            );
        }
        let most = outlier_support::builder::<Document, String>(db)
            .threshold(i32::MAX as u32)
            .max_overflow_elements(i32::MAX as u32);
        let most = outlier_support::ready(db, most).await;
        most.insert(&doc! { "_id": 2 }).await.unwrap();
        most.push(2, &"a".to_owned()).await.unwrap();
        most.push_many(1, &["b".to_owned(), "c".to_owned()]).await.unwrap();
        assert_eq!(most.count(1).await.unwrap().total(), 122);
        assert_eq!(most.count(2).await.unwrap().total(), 1);
    })
    .await;
}

async fn with_reviews(db: &TestDatabase, size: u32) -> SubsetRepository<Document, Document> {
    let products = subset_support::builder_of::<Document, Document>(db.database(), subset_support::newest().size(size));
    let products = subset_support::ready(db, products).await;
    for id in 0..15 {
        let review = subset_support::review(id);
        let review = doc! { "review_id": id, "product_id": 1, "published_date": review.published_date };
        products.insert(&review).await.unwrap();
    }
    products
}

#[tokio::test]
async fn subsets_accept_extreme_numbers_or_refuse_them() {
    testkit::run(async |db| {
        let products = with_reviews(db, i32::MAX as u32).await;
        assert_eq!(subset_support::embedded(db).await.len(), 15);
        products.refresh_all().await.unwrap();
        assert_eq!(products.verify().stream().try_collect::<Vec<_>>().await.unwrap(), []);
        let all = products.children(1).limit(u32::MAX).page().await.unwrap();
        assert_eq!(all.items.len(), 15);
        let first = products.children(1).limit(1).page().await.unwrap();
        let rest = products
            .children(1)
            .limit(u32::MAX)
            .after(first.next)
            .page()
            .await
            .unwrap();
        assert_eq!(rest.items.len(), 14);
        let back = products
            .children(1)
            .limit(u32::MAX)
            .before(rest.previous)
            .page()
            .await
            .unwrap();
        assert_eq!(back.items.len(), 1);
        is_refused(products.children(1).limit(0).page().await, "limit");
        for size in [0, i32::MAX as u32 + 1, u32::MAX] {
            let newest = subset_support::newest().size(size);
            let builder = subset_support::builder_of::<Document, Document>(db.database(), newest);
            is_refused(builder.build(), "size");
        }
        let reviews = subset_support::reviews(db);
        reviews.delete_many(doc! {}).await.unwrap();
        let unset = doc! { "$unset": { "reviews_version": "" } };
        subset_support::product(db).update_one(doc! {}, unset).await.unwrap();
        is_refused(products.migrate_from_embedded().chunk(0).await, "chunk");
        let migrated = products.migrate_from_embedded().chunk(u64::MAX).await.unwrap();
        assert_eq!(migrated.children, 15);
    })
    .await;
}
