//! The migrations of existing collections, and to another order, size or other embedded fields.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Subset;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::migration::findings;
use support::common::{all, until};
use support::pace::Pace;
use support::subset::*;

const PARENTS: i32 = 20;

/// Inserts products with reviews and without subsets, and reviews without a product.
async fn load(db: &TestDatabase) {
    let parents = (1..=PARENTS).map(|id| doc! { "_id": id, "name": "Super Widget" });
    product(db).insert_many(parents).await.unwrap();
    let mut random = Random(3);
    let mut children: Vec<Review> = (1..=PARENTS)
        .flat_map(|parent| (0..parent * 2).map(move |id| (parent, id)))
        .map(|(parent, id)| review_of(parent, id, random.below(30) as i64))
        .collect();
    children.extend((0..3).map(|id| review_of(90, id, 1)));
    db.plain_collection::<Review>("review")
        .insert_many(children)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_collections_are_migrated_with_concurrent_writers() {
    testkit::run(async |db| {
        load(db).await;
        let products: Products = builder(db.database()).build().unwrap();
        let database = db.plain_client().database(db.database().name());
        let other: Products = builder(&database).build().unwrap();
        other.ensure_indexes().await.unwrap();
        let pace = Pace::of(10);
        let begun = Arc::new(AtomicU32::new(0));
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (other, pace, begun) = (other.clone(), pace.clone(), Arc::clone(&begun));
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    let mut n = 0;
                    while pace.next().await {
                        begun.fetch_add(1, Ordering::Relaxed);
                        n += 1;
                        let parent = 1 + random.below(PARENTS as u64) as i32;
                        let new = review_of(parent, (writer + 1) * 10_000 + n, random.below(60) as i64);
                        other.insert(&new).await.unwrap();
                        other.delete(parent, new.review_id - 2).await.unwrap();
                    }
                })
            })
            .collect();
        until("the writers", async || begun.load(Ordering::Relaxed) >= 10).await;
        let migration = products.migrate_existing().into_future();
        let migrated = pace.beside(db, 5, migration).await.unwrap();
        assert!(begun.load(Ordering::Relaxed) > 10, "no write began beside it");
        pace.end();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!((migrated.documents, migrated.orphans), (PARENTS as u64, 3));
        assert_eq!(products.migrate_existing().plan().await.unwrap().migrated.orphans, 3);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert_eq!(findings(&products).await.len(), 1, "the children without a parent");
    })
    .await;
}

/// Returns a repository with a subset of this size whose order is the author.
fn by_author(database: &Database, size: u32) -> Products {
    let by_author = Subset::new("reviews").sort(doc! { "review_author": 1 });
    builder_of(database, by_author.size(size)).build().unwrap()
}

/// Returns the expected subset of a product by that order.
fn first_by_author(product: i32, reviews: &[Document], size: usize) -> Vec<Bson> {
    let mut of_product: Vec<&Document> = reviews
        .iter()
        .filter(|review| review.get("product_id") == Some(&Bson::Int32(product)))
        .collect();
    of_product.sort_by_key(|review| {
        (
            review.get_str("review_author").unwrap(),
            review.get_i32("review_id").unwrap(),
        )
    });
    let embedded = of_product.into_iter().take(size).map(|review| {
        let mut review = review.clone();
        review.remove("_id");
        review.remove("product_id");
        Bson::Document(review)
    });
    embedded.collect()
}

/// Writers with the old order write until they are refused, and continue with the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_order_with_concurrent_writers() {
    testkit::run(async |db| {
        load(db).await;
        let old: Products = builder(db.database()).build().unwrap();
        old.migrate_existing().await.unwrap();
        let new = by_author(db.database(), 4);
        let database = db.plain_client().database(db.database().name());
        let (begun, refused) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let pace = Pace::of(20);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let mut products: Products = builder(&database).build().unwrap();
                let next = by_author(&database, 4);
                let (begun, refused, pace) = (Arc::clone(&begun), Arc::clone(&refused), pace.clone());
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    let mut after = 10;
                    let mut is_old = true;
                    let mut n = 0;
                    while after > 0 {
                        if !pace.next().await && !is_old {
                            after -= 1;
                        }
                        begun.fetch_add(1, Ordering::Relaxed);
                        n += 1;
                        let parent = 1 + random.below(PARENTS as u64) as i32;
                        let mut review = review_of(parent, (writer + 1) * 100_000 + n, random.below(60) as i64);
                        review.review_author = format!("{}", random.below(1000));
                        let outcome = match n % 3 {
                            0 => products.delete(parent, review.review_id - 5).await.map(drop),
                            _ => products.insert(&review).await.map(drop),
                        };
                        if let Err(error) = outcome {
                            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
                            assert!(is_old);
                            refused.fetch_add(1, Ordering::Relaxed);
                            (products, is_old) = (next.clone(), false);
                        }
                    }
                })
            })
            .collect();
        until("the writers", async || begun.load(Ordering::Relaxed) >= 20).await;
        let plan = new.migrate_layout_from(&old).plan().await.unwrap();
        let drops = |planned: &mongo_patterns_core::PlannedCommand| {
            let index = planned.command.get_str("index").unwrap_or_default();
            planned.command.contains_key("dropIndexes") && index == "product_id_1_published_date_-1_review_id_-1"
        };
        assert_eq!(plan.commands.iter().filter(|planned| drops(planned)).count(), 1);
        let changed = pace
            .beside(db, 5, new.migrate_layout_from(&old).into_future())
            .await
            .unwrap();
        assert!(begun.load(Ordering::Relaxed) > 20, "no write began beside it");
        pace.end();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(changed.documents, PARENTS as u64);
        assert_eq!(changed.created_indexes, ["product_id_1_review_author_1_review_id_1"]);
        assert_eq!(
            changed.dropped_index.as_deref(),
            Some("product_id_1_published_date_-1_review_id_-1")
        );
        assert_eq!(refused.load(Ordering::Relaxed), 8, "each writer was refused once");
        let children = all(&reviews(db)).await;
        for parent in all(&product(db)).await {
            let id = parent.get_i32("_id").unwrap();
            assert_eq!(
                parent.get_array("reviews").unwrap(),
                &first_by_author(id, &children, 4),
                "product {id}"
            );
        }
        assert_eq!(findings(&new).await.len(), 1, "the children without a parent");
        let error = old.refresh(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
    })
    .await;
}

/// A refresh by the old order has read its children, and tries to write them after the migration.
#[tokio::test]
async fn children_read_by_the_old_order_are_not_written_after_the_migration() {
    testkit::run(async |db| {
        add_product(db, 1).await;
        let mut second = review_of(1, 2, 0);
        second.review_author = "A".to_owned();
        let both = [review_of(1, 1, 1), second];
        db.plain_collection::<Review>("review").insert_many(both).await.unwrap();
        let old: Products = builder_of(db.database(), newest().size(1)).build().unwrap();
        old.migrate_existing().await.unwrap();
        old.refresh(1).await.unwrap();
        assert_eq!(embedded(db).await, [1]);
        // A writer with the new order has begun before the migration, so its product is correct by then.
        let database = db.plain_client().database(db.database().name());
        let new = by_author(&database, 1);
        new.ensure_indexes().replace_settings().await.unwrap();
        new.refresh(1).await.unwrap();
        assert_eq!(embedded(db).await, [2]);
        db.recorder().clear();
        let mut late = Box::pin(old.refresh(1).into_future());
        // Version and children are read, and the update waits.
        let slow = FailPoint::on(&["update"])
            .times(1)
            .block(std::time::Duration::from_secs(2));
        let slow = slow.enable(db).await;
        tokio::select! {
            biased;
            () = db.recorder().sent(3) => {}
            rebuilt = &mut late => panic!("{rebuilt:?}"),
        }
        new.migrate_layout_from(&old).await.unwrap();
        let late = late.await;
        slow.disable().await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::IndexMissing);
        assert_eq!(db.recorder().names(), ["find", "find", "update", "find", "find"]);
        assert_eq!(embedded(db).await, [2]);
        assert_eq!(findings(&new).await, []);
    })
    .await;
}

/// Returns the subset of the product with the most reviews.
async fn shown_reviews(db: &TestDatabase) -> Vec<Bson> {
    let found = product(db).find_one(doc! { "_id": PARENTS }).await.unwrap().unwrap();
    found.get_array("reviews").unwrap().clone()
}

#[tokio::test]
async fn another_size_and_other_fields() {
    testkit::run(async |db| {
        load(db).await;
        let old: Products = builder(db.database()).build().unwrap();
        old.migrate_existing().await.unwrap();
        for (n, (size, embed)) in [(3, None), (12, None), (12, Some(["published_date"]))]
            .into_iter()
            .enumerate()
        {
            old.ensure_indexes().replace_settings().await.unwrap();
            let subset = newest().size(size);
            let subset = match embed {
                None => subset,
                Some(fields) => subset.embedded_fields(fields),
            };
            let new = builder_of::<Document, Document>(db.database(), subset).build().unwrap();
            let plan = new.migrate_layout_from(&old).plan().await.unwrap();
            let drops = |command: &Document| command.contains_key("dropIndexes");
            assert!(!plan.commands.iter().any(|planned| drops(&planned.command)));
            let changed = new.migrate_layout_from(&old).await.unwrap();
            assert_eq!((changed.documents, changed.dropped_index), (PARENTS as u64, None));
            let shown = shown_reviews(db).await;
            assert_eq!(shown.len(), size as usize);
            let fields = shown[0].as_document().unwrap().len();
            assert_eq!(fields, if embed.is_some() { 2 } else { 3 });
            let before = all(&product(db)).await;
            new.migrate_layout_from(&old).await.unwrap();
            assert_eq!(all(&product(db)).await, before, "a correct parent is not written");
            // A writer with the old settings that is not replaced yet.
            old.insert(&review_of(PARENTS, 1000 + n as i32, 999)).await.unwrap();
            assert_eq!(shown_reviews(db).await.len(), 10);
            new.migrate_layout_from(&old).await.unwrap();
            assert_eq!(shown_reviews(db).await.len(), size as usize);
        }
    })
    .await;
}

#[tokio::test]
async fn other_names_or_collections_are_refused() {
    testkit::run(async |db| {
        let old: Products = builder(db.database()).build().unwrap();
        let renamed: Products = builder_of(db.database(), Subset::new("newest").sort(doc! { "published_date": -1 }))
            .build()
            .unwrap();
        let elsewhere = by_author(&db.plain_client().database("other"), 10);
        for new in [renamed, elsewhere] {
            let error = new.migrate_layout_from(&old).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(db.recorder().round_trips(), 0);
        // An index with the old name and another definition.
        old.ensure_indexes().await.unwrap();
        reviews(db).drop_indexes().await.unwrap();
        let keys = doc! { "product_id": 1 };
        let options = mongodb::options::IndexOptions::builder()
            .name("product_id_1_published_date_-1_review_id_-1".to_owned())
            .build();
        let index = mongodb::IndexModel::builder().keys(keys).options(options).build();
        reviews(db).create_index(index).await.unwrap();
        let new = by_author(db.database(), 10);
        let error = new.migrate_layout_from(&old).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMismatch);
    })
    .await;
}

#[tokio::test]
async fn a_chunk_is_a_command() {
    testkit::run(async |db| {
        load(db).await;
        let products: Products = builder(db.database()).build().unwrap();
        for chunk in [3, 100] {
            db.recorder().clear();
            products.migrate_existing().chunk(chunk).await.unwrap();
            let commands = db.recorder().commands();
            let merges = commands
                .iter()
                .filter(|sent| sent.command.to_string().contains("$merge"));
            assert_eq!(merges.count(), (PARENTS as usize).div_ceil(chunk as usize), "{chunk}");
        }
    })
    .await;
}
