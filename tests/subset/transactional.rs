//! Transactions: their order of commands, and many of them at once.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Client;
use mongodb::bson::doc;

use crate::subset::writes::{fill, names};
use support::common::all;
use support::subset::*;

/// A generous limit for work that takes seconds.
const LIMIT: Duration = Duration::from_secs(150);

/// A transaction that writes the child first decides nothing about a product that is not as this process left it.
#[tokio::test]
async fn a_wrong_guess_in_a_transaction_costs_only_round_trips() {
    testkit::run(async |db| {
        const PARENT_FIRST: &str = "update insert find update commitTransaction";
        let products = products(db).await;
        fill(&products, 100..115).await;
        names(db);
        products.insert(&review(200)).await.unwrap();
        assert_eq!(names(db), "insert find update commitTransaction");
        products.replace(&review(200)).await.unwrap();
        assert_eq!(names(db), "update find update commitTransaction");

        // Another program removed the version.
        let unset = doc! { "$set": { "reviews": [] }, "$unset": { "reviews_version": "" } };
        change_product(db, unset).await;
        products.insert(&review(201)).await.unwrap();
        assert_eq!(names(db), format!("insert find update abortTransaction {PARENT_FIRST}"));
        let unmanaged = doc! { "$unset": { "reviews_version": "" } };
        change_product(db, unmanaged).await;
        products.insert(&review(202)).await.unwrap();
        let first_write = "update find aggregate update insert find update commitTransaction";
        assert_eq!(names(db), format!("insert find update abortTransaction {first_write}"));
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        // The greatest version cannot be incremented.
        let greatest = doc! { "$set": { "reviews_version": i64::MAX } };
        change_product(db, greatest).await;
        products.insert(&review(203)).await.unwrap();
        assert_eq!(names(db), format!("insert find update abortTransaction {PARENT_FIRST}"));
        products.refresh(1).await.unwrap();
        names(db);

        // A missing child, and one that exists.
        let before = all(&reviews(db)).await;
        let missing = products.replace(&review(9)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::ChildNotFound);
        assert_eq!(names(db), "update abortTransaction update update abortTransaction");
        let exists = products.insert(&review(202)).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(db), "insert abortTransaction update insert abortTransaction");

        // Several products are written first.
        add_product(db, 2).await;
        products.insert_many(&[review(300), review_of(2, 1, 1)]).await.unwrap();
        assert_eq!(
            names(db),
            "update update insert find update find update commitTransaction"
        );
        products.insert(&review_of(2, 2, 2)).await.unwrap();
        assert_eq!(names(db), "insert find update commitTransaction");

        // Another process deleted the product.
        product(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        for (new, sent) in [
            (
                review(400),
                "insert find update abortTransaction update find abortTransaction",
            ),
            (review(202), "update find abortTransaction"),
        ] {
            let error = products.insert(&new).await.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::NotFound, None));
            assert_eq!(names(db), sent);
        }
        assert_eq!(all(&reviews(db)).await.len(), before.len() + 3);

        // This process deletes a product.
        products.delete_parent(2).await.unwrap();
        names(db);
        let error = products.insert(&review_of(2, 3, 3)).await.unwrap_err();
        assert_eq!(
            (error.kind(), names(db).as_str()),
            (ErrorKind::NotFound, "update find abortTransaction")
        );
    })
    .await;
}

/// After a conflict, this process locks the product first, until a transaction succeeds at its first attempt.
#[tokio::test]
async fn a_transaction_with_a_conflict_writes_the_product_first() {
    testkit::run(async |db| {
        let products = products(db).await;
        fill(&products, 0..10).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let touch = doc! { "$set": { "touched": true } };
        let other = product(db);
        let touch = other.update_one(doc! { "_id": 1 }, touch).session(&mut session);
        touch.await.unwrap();
        db.recorder().clear();
        let new = review(20);
        let insert = async { products.insert(&new).await.unwrap() };
        let release = async {
            db.recorder().sent(6).await;
            session.abort_transaction().await.unwrap();
        };
        futures::future::join(insert, release).await;
        let sent = names(db);
        let conflict = "insert find update abortTransaction update abortTransaction ";
        assert!(sent.starts_with(conflict), "{sent}");
        assert!(
            sent.ends_with(" abortTransaction update insert find update commitTransaction"),
            "{sent}"
        );
        assert_eq!(sent.matches("insert").count(), 2, "{sent}");
        for expected in ["update update find update", "update find update"] {
            products.update(1, 20, doc! { "$set": { "stars": 5 } }).await.unwrap();
            assert_eq!(names(db), format!("{expected} commitTransaction"));
        }
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// Returns repositories that each have their own lanes, as processes have. They share a client with few
/// connections.
async fn processes(db: &TestDatabase, connections: u32, count: usize) -> Vec<Products> {
    let mut options = db.server().client_options().await.unwrap();
    options.max_pool_size = Some(connections);
    let database = Client::with_options(options).unwrap().database(db.database().name());
    let patient = RetryPolicy::default()
        .with_max_attempts(u32::MAX)
        .with_max_elapsed(LIMIT);
    let mut repositories = Vec::new();
    for _ in 0..count {
        let repository = builder(&database).retry(patient);
        repositories.push(ready(db, repository).await);
    }
    repositories
}

/// A transaction waits for no lock on the server, so one connection is enough for any number of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn concurrent_transactions_need_only_one_connection() {
    testkit::run(async |db| {
        for (writers, parents, processes_of) in [(64, 1, 1), (64, 1, 4), (64, 16, 4)] {
            let repositories = processes(db, 1, processes_of).await;
            for id in 2..=parents {
                add_product(db, id).await;
            }
            let write = |writer: i32| {
                let products = repositories[writer as usize % processes_of].clone();
                tokio::spawn(async move {
                    let parent = 1 + writer % parents;
                    for n in 0..2 {
                        let id = writer * 10 + n;
                        products.insert(&review_of(parent, id, id.into())).await.unwrap();
                    }
                    let update = doc! { "$set": { "stars": 5 } };
                    products.update(parent, writer * 10, update).await.unwrap();
                    assert!(products.delete(parent, writer * 10 + 1).await.unwrap().found);
                })
            };
            let written = tokio::time::timeout(LIMIT, join_all((0..writers).map(write))).await;
            let context = format!("{writers} writers, {parents} products, {processes_of} processes");
            for task in written.expect(&context) {
                task.expect(&context);
            }
            assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}");
            let stored = all(&reviews(db)).await;
            assert_eq!(stored.len(), writers as usize, "{context}");
            assert!(
                stored
                    .iter()
                    .all(|review| review.get_i32("stars").is_ok_and(|stars| stars == 5)),
                "{context}"
            );
        }
    })
    .await;
}
