//! Figures with many writers.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use crate::subset::computed::stale;
use crate::subset::computed_support::*;
use crate::subset::support::*;

/// With one process and with several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computed_fields_are_correct_when_64_writers_stop() {
    testkit::run(async |db| {
        for processes in [1, 4] {
            let first = rated_products(db).await;
            for id in 2..=8 {
                add_product(db, id).await;
            }
            let mut repositories = vec![first];
            repositories.resize_with(processes, || rated_builder(db.database()).build().unwrap());
            let writers = (0..64).map(|writer: i32| {
                let products: Rated = repositories[writer as usize % repositories.len()].clone();
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    for n in 0..2 {
                        let parent = random.below(8) as i32 + 1;
                        let id = writer * 100 + n;
                        let mut rating = || random.below(5) as i32 + 1;
                        products.insert(&rated(parent, id, rating())).await.unwrap();
                        products.update(parent, id, rate(rating())).await.unwrap();
                        if rating() < 3 {
                            products.delete(parent, id).await.unwrap();
                        }
                    }
                })
            });
            for written in join_all(writers).await {
                written.unwrap();
            }
            assert_eq!(miscounted(db).await, [], "{processes}");
            assert_eq!(stale(&repositories[0]).await, []);
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
