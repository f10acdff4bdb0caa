//! Several subsets and figures of one parent with many writers.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::subset::rated::*;
use support::subset::*;

const PARENTS: u64 = 6;

/// Returns a change of an order, of what a filter compares, or of neither.
fn change(random: &mut Random) -> Document {
    match random.below(6) {
        0 => doc! { "$inc": { "stars": random.below(5) as i32 - 2 } },
        1 => doc! { "$set": { "stars": random.below(5) as i32 + 1 } },
        2 => doc! { "$inc": { "votes": 1 } },
        3 => doc! { "$set": { "hidden": random.below(2) == 0 } },
        4 => doc! { "$set": { "published_date": day(random.below(60) as i64) } },
        _ => doc! { "$set": { "text": "Nice." } },
    }
}

/// With one process and with several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn subsets_and_figures_are_correct_when_64_writers_stop() {
    testkit::run(async |db| {
        for processes in [1, 2] {
            let mut repositories = vec![ready(db, full_builder(db.database())).await];
            for id in 2..=PARENTS as i32 {
                add_product(db, id).await;
            }
            repositories.resize_with(processes, || full_builder(db.database()).build().unwrap());
            let writers = (0..64).map(|writer: i32| {
                let products: Any = repositories[writer as usize % repositories.len()].clone();
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    for n in 0..4 {
                        let (parent, id) = (random.below(PARENTS) as i32 + 1, writer * 100 + n);
                        let (published, stars) = (random.below(60) as i64, random.below(5) as i32 + 1);
                        products.insert(&reviewed(parent, id, published, stars)).await.unwrap();
                        products.update(parent, id, change(&mut random)).await.unwrap();
                        if random.below(2) == 0 {
                            assert!(products.delete(parent, id).await.unwrap().found);
                        }
                    }
                })
            });
            for written in join_all(writers).await {
                written.unwrap();
            }
            assert_eq!(wrong_fields(db).await, [] as [String; 0], "{processes}");
            assert_eq!(stale(&repositories[0]).await, []);
        }
    })
    .await;
}

/// Most inserts belong to the best reviews only, or to no subset, so that the calls that share a transaction differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn concurrent_inserts_outside_the_first_subset_enter_the_others() {
    testkit::run(async |db| {
        for repositories in [1, 2] {
            let first = several_products(db).await;
            let newest: Vec<Document> = (0..5).map(|id| reviewed(1, 1000 + id, 1000, 3)).collect();
            first.insert_many(&newest).await.unwrap();
            let other = several_builder(db.database()).build().unwrap();
            let writers = (0..64).map(|writer: i32| {
                let products = if writer % repositories == 0 { &first } else { &other };
                let products = products.clone();
                tokio::spawn(async move {
                    for n in 0..2 {
                        let mut new = reviewed(1, writer * 10 + n, 0, writer % 6);
                        new.insert("votes", 64 - writer);
                        products.insert(&new).await.unwrap();
                        let again = products.insert(&new).await.unwrap_err();
                        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
                    }
                })
            });
            for written in join_all(writers).await {
                written.unwrap();
            }
            assert_eq!(wrong_subsets(db).await, [] as [String; 0], "{repositories}");
        }
    })
    .await;
}

/// Writes to one parent conflict, and each of them counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retried_insert_counts_once() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let writers = (0..16).map(|writer| {
            let products = products.clone();
            tokio::spawn(async move {
                for id in 0..4 {
                    match products.insert(&rated(1, id, 5)).await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{writer} {error:?}"),
                    }
                }
            })
        });
        for written in join_all(writers).await {
            written.unwrap();
        }
        assert_eq!(miscounted(db).await, []);
        assert_eq!(figures(db).await.get_i32("rating_sum").unwrap(), 20);
    })
    .await;
}
