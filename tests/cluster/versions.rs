//! Features that an older server lacks: a typed error reports it, and the call has no effect. On a newer server the
//! same call succeeds.

use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::bucket::migration::{can_move, fill, flat, histories};
use crate::common::support::*;
use crate::embedded::migration::{addresses, can_embed, index_reference, patrons, referring};
use crate::embedded::support::{self as embedded_support, patron, plant};
use crate::outlier::support as outlier_support;
use crate::subset::follower_support::{NAME, followed};
use crate::subset::support as subset_support;

#[tokio::test]
async fn a_migration_into_buckets_needs_mongodb_5() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        fill(db, &[doc! { "customerId": 1, "date": at(SECOND) }]).await;
        let trades = histories::<u32>(db).build().unwrap();
        assert_eq!(trades.migrate_from_flat(&flat(db)).await.unwrap().items, 1);
    })
    .await;
}

#[tokio::test]
async fn a_migration_into_parents_needs_mongodb_5() {
    testkit::run(async |db| {
        if !can_embed(db).await {
            return;
        }
        embedded_support::stored(db)
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        addresses(db).insert_one(referring(1, 1)).await.unwrap();
        index_reference(db).await;
        let migrated = patrons(db).migrate_from_references(&addresses(db), "patron_id").await;
        assert_eq!(migrated.unwrap().children, 1);
    })
    .await;
}

#[tokio::test]
async fn a_follower_needs_mongodb_6() {
    testkit::run(async |db| {
        let products = followed(db, 1).await;
        let run = products.follow(NAME).enable_pre_images().run_until_current().await;
        assert_eq!(run.unwrap().changes, 0);
    })
    .await;
}

#[tokio::test]
async fn indexes_of_two_page_sizes_need_mongodb_5() {
    testkit::run(async |db| {
        trades(db).await;
        let other = builder(db).page_size(20).build().unwrap();
        match other.ensure_indexes().replace_settings().await {
            Ok(_) => assert!(at_least(db, 5)),
            Err(error) => {
                assert!(
                    !at_least(db, 5) && error.kind() == ErrorKind::IndexMismatch,
                    "{error:?}"
                );
            }
        }
    })
    .await;
}

/// Returns how many documents the call stored: this number, or none if its error reports that the server does not
/// support names with a dollar. Older servers accept such names in some commands, and refuse others.
fn stored<T>(db: &TestDatabase, documents: u64, outcome: Result<T, Error>) -> u64 {
    let Err(error) = outcome else { return documents };
    assert!(!at_least(db, 5), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
    assert!(
        error.is_invalid_input() && error.to_string().contains("MongoDB 5.0"),
        "{error}"
    );
    0
}

#[tokio::test]
async fn names_with_a_dollar_need_mongodb_5() {
    testkit::run(async |db| {
        let hostile = doc! { "id": 9, "a": { "$b": 1 } };
        let trades = mongo_patterns::bucket::BucketRepository::<u32, Document>::builder(plain(db))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        trades.ensure_indexes().await.unwrap();
        let two = [hostile.clone(), hostile.clone()];
        let items = stored(db, 1, trades.append(&1, &hostile).at(at(SECOND)).await)
            + stored(db, 2, trades.append_many(&1, &two).at(at(SECOND)).await);
        assert_eq!(trades.counts(&1).await.unwrap().items, items);

        let books = outlier_support::builder::<Document, Document>(db).threshold(1);
        let books = outlier_support::ready(db, books).await;
        let inserted = books.insert(&doc! { "_id": 1, "x": { "$b": 1 } }).await;
        let inserted = stored(db, 1, inserted);
        books.insert(&doc! { "_id": 2 }).await.unwrap();
        let mut elements = 1;
        elements += stored(db, 1, books.push(2, &hostile).await);
        books.push(2, &doc! { "id": 1 }).await.unwrap();
        elements += stored(db, 1, books.push(2, &hostile).await);
        assert_eq!(books.elements(2).await.unwrap().len() as u64, elements);
        assert_eq!(all(&outlier_support::sales(db)).await.len() as u64, 1 + inserted);

        let reviews = subset_support::builder::<Document, Document>(db.database());
        let reviews = subset_support::ready(db, reviews).await;
        let review = |id: i32| doc! { "product_id": 1, "review_id": id, "x": { "$b": 1 } };
        let children = stored(db, 1, reviews.insert(&review(1)).await)
            + stored(db, 2, reviews.insert_many(&[review(2), review(3)]).await);
        assert_eq!(all(&subset_support::reviews(db)).await.len() as u64, children);

        plant(db, &patron("joe", [])).await;
        let patrons = embedded_support::patrons(db);
        let children = stored(db, 1, patrons.add_child("joe", &hostile).await);
        assert_eq!(embedded_support::ids(db, "joe").await.len() as u64, children);
        let parents = stored(db, 1, patrons.insert(&patron("zoe", [hostile])).await);
        assert_eq!(all(&embedded_support::stored(db)).await.len() as u64, 1 + parents);
        assert!(at_least(db, 5) || children == 0, "an older server refuses this child");
    })
    .await;
}
