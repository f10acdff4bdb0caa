//! Computed fields with 64 writers, and the naive form.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Consistency;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use crate::subset::computed::stale;
use crate::subset::computed_support::*;
use crate::subset::support::*;

/// With one process and with several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computed_fields_are_correct_when_64_writers_stop() {
    testkit::run(async |db| {
        for consistencies in [
            vec![Consistency::Eventual],
            vec![Consistency::Eventual; 8],
            vec![Consistency::Transactional],
            vec![Consistency::Transactional; 4],
        ] {
            let first = rated_products(db, consistencies[0]).await;
            for id in 2..=8 {
                add_product(db, id).await;
            }
            let mut repositories = vec![first];
            for consistency in &consistencies[1..] {
                repositories.push(rated_builder(db.database(), *consistency).build().unwrap());
            }
            let writers = (0..64).map(|writer: i32| {
                let products: Rated = repositories[writer as usize % repositories.len()].clone();
                tokio::spawn(async move {
                    let mut random = Random(writer as u64);
                    for n in 0..4 {
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
            assert_eq!(miscounted(db).await, [], "{consistencies:?}");
            assert_eq!(stale(&repositories[0]).await, []);
        }
    })
    .await;
}

/// 64 writers that read the sum, add to it, and set it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_that_is_read_and_set_loses_ratings() {
    testkit::run(async |db| {
        let products = rated_products(db, Consistency::Eventual).await;
        let (parents, children) = (product(db), reviews(db));
        let writers = (0..64).map(|id| {
            let (parents, children) = (parents.clone(), children.clone());
            tokio::spawn(async move {
                children.insert_one(rated(1, id, 5)).await.unwrap();
                let read = parents.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
                let sum = read.get_i32("rating_sum").unwrap_or(0);
                let set = doc! { "$set": { "rating_sum": sum + 5 } };
                parents.update_one(doc! { "_id": 1 }, set).await.unwrap();
            })
        });
        for written in join_all(writers).await {
            written.unwrap();
        }
        let naive = figures(db).await.get_i32("rating_sum").unwrap();
        assert!(naive < 5 * 64, "no rating was lost");
        products.rebuild(1).await.unwrap();
        assert_eq!(figures(db).await.get_i32("rating_sum").unwrap(), 5 * 64);
    })
    .await;
}

/// Writes to one parent conflict, and each of them counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retried_insert_counts_once() {
    testkit::run(async |db| {
        for consistency in BOTH {
            let products = rated_products(db, consistency).await;
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
        }
    })
    .await;
}
