//! 64 concurrent writers that insert, delete and update, mostly embedded reviews.

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Finding;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};

use support::common::all;
use support::pace::Pace;
use support::subset::*;

const PARENTS: i32 = 20;
const WRITERS: i32 = 64;
const OPERATIONS: i32 = 800;
const SIZE: u32 = 5;

/// Runs 50% inserts, 30% deletes and 20% updates of the date, mostly of embedded reviews.
async fn write_mixed(repositories: &[Products]) {
    let seed: u64 = 20_261_121;
    let writers = (0..WRITERS).map(|writer| {
        let products = repositories[writer as usize % repositories.len()].clone();
        tokio::spawn(async move {
            let mut random = Random(seed.wrapping_add(writer as u64));
            for n in 0..=OPERATIONS / WRITERS {
                let parent = random.below(PARENTS as u64) as i32;
                let day_of = random.below(60) as i64;
                let what = random.below(10);
                if what < 5 {
                    let new = review_of(parent, writer * 1000 + n, day_of);
                    products.insert(&new).await.unwrap();
                    continue;
                }
                let shown = products.get(parent).await.unwrap().unwrap().reviews;
                if shown.is_empty() {
                    continue;
                }
                let id = shown[random.below(shown.len() as u64) as usize].review_id;
                if what < 8 {
                    products.delete(parent, id).await.unwrap();
                } else {
                    let edit = doc! { "published_date": day(day_of), "review_author": format!("w{writer}-{n}") };
                    match products.update(parent, id, doc! { "$set": edit }).await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::ChildNotFound, "{error:?}"),
                    }
                }
            }
        })
    });
    for written in join_all(writers).await {
        written.unwrap();
    }
}

/// As one process, and as several processes, each with its own lanes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn subsets_are_correct_when_64_writers_stop() {
    testkit::run(async |db| {
        for processes in [1, 4] {
            let repository = || builder_of(db.database(), newest().size(SIZE));
            let mut repositories = vec![ready(db, repository()).await];
            product(db).delete_many(doc! {}).await.unwrap();
            let parents = (0..PARENTS).map(|id| doc! { "_id": id, "name": "Super Widget", "reviews": [] });
            product(db).insert_many(parents).await.unwrap();
            repositories.extend((1..processes).map(|_| repository().build().unwrap()));
            write_mixed(&repositories).await;
            assert_eq!(wrong(&product(db), &reviews(db), SIZE as usize).await, []);
            let findings: Vec<Finding> = repositories[0].verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, []);
            assert!(reviews(db).count_documents(doc! {}).await.unwrap() > 100);
        }
    })
    .await;
}

/// Reads a product and all its reviews from one snapshot, repeatedly, during concurrent writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn an_observer_of_transactional_writes_never_sees_a_stale_subset() {
    testkit::run(async |db| {
        let repository = builder_of::<Product, Review>(db.database(), newest().size(SIZE));
        let products = ready(db, repository).await;
        let pace = Pace::of(0);
        let writers = (0..8).map(|writer| {
            let (products, pace) = (products.clone(), pace.clone());
            tokio::spawn(async move {
                let mut random = Random(writer as u64);
                let mut n = 0;
                while pace.next().await {
                    n += 1;
                    let id = writer * 100_000 + n;
                    products
                        .insert(&review_of(1, id, random.below(50) as i64))
                        .await
                        .unwrap();
                    if random.below(3) > 0 {
                        products.delete(1, id - random.below(3) as i32).await.unwrap();
                    }
                }
                n
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut session = db.plain_client().start_session().await.unwrap();
        let (parents, children) = (product(db), reviews(db));
        let mut seen = std::collections::HashSet::new();
        for _ in 0..60 {
            pace.keep(8).await;
            let snapshot = TransactionOptions::builder()
                .read_concern(ReadConcern::snapshot())
                .build();
            session.start_transaction().with_options(snapshot).await.unwrap();
            let parent = parents
                .find_one(doc! { "_id": 1 })
                .session(&mut session)
                .await
                .unwrap()
                .unwrap();
            let mut cursor = children.find(doc! {}).session(&mut session).await.unwrap();
            let all: Vec<Document> = cursor.stream(&mut session).try_collect().await.unwrap();
            session.commit_transaction().await.unwrap();
            let expected = truth(parent.get("_id").unwrap(), &all, SIZE as usize);
            assert_eq!(parent.get_array("reviews").unwrap(), &expected);
            seen.insert(parent.get_i64("reviews_version").unwrap());
        }
        pace.end();
        for writer in writers {
            assert!(writer.await.unwrap() > 1);
        }
        assert!(seen.len() > 20, "{} versions", seen.len());
    })
    .await;
}

/// The product is deleted before the snapshot of the transaction, and after it.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_insert_with_a_concurrent_delete_of_its_product_stores_no_review() {
    testkit::run(async |db| {
        for command in ["insert", "find"] {
            let products = products(db).await;
            products.insert(&review(1)).await.unwrap();
            reviews(db).delete_many(doc! {}).await.unwrap();
            db.recorder().clear();
            let slow = FailPoint::on(&[command]).times(1).block(Duration::from_secs(2));
            let fault = slow.enable(db).await;
            let review = review(2);
            let insert = async { products.insert(&review).await };
            let delete = async {
                db.recorder().sent(if command == "insert" { 1 } else { 2 }).await;
                product(db).delete_one(doc! {}).await.unwrap();
            };
            let (inserted, ()) = futures::future::join(insert, delete).await;
            fault.disable().await;
            assert_eq!(inserted.unwrap_err().kind(), ErrorKind::NotFound, "{command}");
            assert!(all(&reviews(db)).await.is_empty(), "{command}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_during_delete_parent_leaves_no_review() {
    testkit::run(async |db| {
        let products = products(db).await;
        let other: Products = builder(db.database()).build().unwrap();
        for round in 0..10 {
            // The product of the first round has no version, and this process has not written it yet.
            let new: Vec<Review> = (0..round % 3).map(review).collect();
            products.insert_many(&new).await.unwrap();
            let inserts = (10..14).map(|id| {
                let products = if id % 2 == 0 { &products } else { &other };
                let products = products.clone();
                tokio::spawn(async move { products.insert(&review(id)).await })
            });
            let inserts: Vec<_> = inserts.collect();
            let deleted = other.delete_parent(1).await.unwrap();
            assert!(deleted.found);
            for inserted in join_all(inserts).await {
                if let Err(error) = inserted.unwrap() {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
                }
            }
            assert_eq!(all(&reviews(db)).await, [], "{round}");
            add_product(db, 1).await;
        }
    })
    .await;
}
