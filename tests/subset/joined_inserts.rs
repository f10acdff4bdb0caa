//! Concurrent transactional inserts of one process for one product share transactions.
//!
//! The futures of a test are polled by one thread, in their order: the first call locks the product, and all others join.

use futures::future::join_all;
use mongo_patterns::subset::InsertedChild;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::subset::rated::{miscounted, rated, rated_products};
use crate::subset::writes::{fill, names};
use support::common::{all, end_transactions};
use support::subset::*;

const WRITERS: i32 = 16;
const ALONE: &str = "insert find update commitTransaction";

async fn stored(db: &TestDatabase) -> Vec<i32> {
    let stored = all(&reviews(db)).await;
    let mut ids: Vec<i32> = stored
        .iter()
        .map(|review| review.get_i32("review_id").unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

/// Returns a repository that has written the product, with ten reviews from 100.
async fn written(db: &TestDatabase) -> Products {
    let products = products(db).await;
    fill(&products, 100..110).await;
    names(db);
    products
}

/// Inserts reviews concurrently. Returns the results in order.
async fn insert_all(products: &Products, new: &[Review]) -> Vec<Result<InsertedChild>> {
    join_all(new.iter().map(|new| products.insert(new).into_future())).await
}

#[tokio::test]
async fn waiting_inserts_share_one_transaction() {
    testkit::run(async |db| {
        let products = written(db).await;
        let new: Vec<Review> = (200..200 + WRITERS).map(review).collect();
        let inserted = insert_all(&products, &new).await;
        assert_eq!(names(db), format!("{ALONE} {ALONE}"));
        for (id, inserted) in inserted.into_iter().enumerate() {
            let inserted = inserted.unwrap();
            // The first one is in the subset that its own transaction wrote.
            assert_eq!(inserted.in_subset, id == 0 || id >= 6, "{id}");
        }
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert_eq!(stored(db).await.len(), 26);
        // Also tasks that call again and again.
        let writer = async |writer: i32| {
            for n in 0..5 {
                products.insert(&review(1000 + writer * 10 + n)).await.unwrap();
            }
        };
        join_all((0..WRITERS).map(writer)).await;
        let transactions = names(db).matches("commitTransaction").count();
        assert!((5..20).contains(&transactions), "{transactions} for 80 children");
        assert_eq!(stored(db).await.len(), 26 + 80);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        // The queue has no task any more.
        products.insert(&review(300)).await.unwrap();
        assert_eq!(names(db), ALONE);
    })
    .await;
}

#[tokio::test]
async fn a_refused_child_fails_alone() {
    testkit::run(async |db| {
        let products = written(db).await;
        let kinds = async |ids: [i32; 8]| {
            let inserted = insert_all(&products, &ids.map(review)).await.into_iter();
            let kinds = inserted.map(|one| one.err().map(|error| error.kind()));
            kinds.collect::<Vec<Option<ErrorKind>>>()
        };
        // 105 exists, and 203 comes twice.
        let found = kinds([200, 201, 202, 203, 105, 204, 203, 205]).await;
        let exists = Some(ErrorKind::AlreadyExists);
        assert_eq!(found, [None, None, None, None, exists, None, exists, None]);
        let expected: Vec<i32> = (100..110).chain(200..206).collect();
        assert_eq!(stored(db).await, expected);

        // By a validator of the application.
        let modify = doc! { "collMod": "review", "validator": { "review_id": { "$ne": 303 } } };
        db.plain_client()
            .database(db.database().name())
            .run_command(modify)
            .await
            .unwrap();
        let found = kinds([300, 301, 302, 303, 304, 305, 306, 307]).await;
        let invalid = Some(ErrorKind::ValidationFailed);
        assert_eq!(found, [None, None, None, invalid, None, None, None, None]);
        assert_eq!(stored(db).await.len(), 16 + 7);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_product_is_that_of_every_call() {
    testkit::run(async |db| {
        let products = written(db).await;
        product(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        let new: Vec<Review> = (200..204).map(review).collect();
        for inserted in insert_all(&products, &new).await {
            let error = inserted.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::NotFound, None));
        }
        assert_eq!(stored(db).await.len(), 10);
    })
    .await;
}

#[tokio::test]
async fn a_commit_without_a_reply_is_of_unknown_outcome_for_every_call() {
    testkit::run(async |db| {
        const EXCEEDED: i32 = 50;
        let products = written(db).await;
        let new: Vec<Review> = (200..204).map(review).collect();
        let second_commit = 7;
        let fault = FailPoint::on(&[]).times(1).error_code(EXCEEDED).plan(db, second_commit);
        let inserted = insert_all(&products, &new).await;
        assert!(fault.is_made());
        fault.end();
        end_transactions(db).await;
        let mut inserted = inserted.into_iter();
        inserted.next().unwrap().unwrap();
        for inserted in inserted {
            let error = inserted.unwrap_err();
            assert!(error.is_outcome_unknown(), "{error:?}");
        }
        let retried = insert_all(&products, &new[1..]).await;
        let is_stored = |error: &mongo_patterns::Error| error.kind() == ErrorKind::AlreadyExists;
        assert!(retried.iter().all(|one| one.as_ref().err().is_none_or(is_stored)));
        assert_eq!(stored(db).await.len(), 14);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// A waiting call waits for a task, and not for the call that is dropped.
#[tokio::test]
async fn dropped_calls_affect_no_other() {
    testkit::run(async |db| {
        let products = written(db).await;
        let [first, second, third, fourth] = [200, 201, 202, 203].map(review);
        let mut alone = Box::pin(products.insert(&first).into_future());
        let mut waits = Box::pin(products.insert(&second).into_future());
        let waits_too = [
            products.insert(&third).into_future(),
            products.insert(&fourth).into_future(),
        ];
        assert!(futures::poll!(alone.as_mut()).is_pending());
        assert!(futures::poll!(waits.as_mut()).is_pending());
        let waits_too = join_all(waits_too);
        drop((alone, waits));
        for inserted in waits_too.await {
            inserted.unwrap();
        }
        end_transactions(db).await;
        // The second one has left the queue. The transaction of the first one was aborted.
        assert_eq!(stored(db).await[10..], [202, 203]);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        // Nothing is locked.
        products.insert(&review(300)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn totals_and_computed_fields_count_all_children_of_a_transaction() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let new: Vec<Document> = (1..=12).map(|id| rated(1, id, id % 5)).collect();
        for inserted in join_all(new.iter().map(|new| products.insert(new).into_future())).await {
            inserted.unwrap();
        }
        assert_eq!(names(db).matches("commitTransaction").count(), 2);
        assert_eq!(miscounted(db).await, []);
    })
    .await;
}

/// A caller's session orders its calls, so they do not join.
#[tokio::test]
async fn calls_in_sessions_do_not_join() {
    testkit::run(async |db| {
        let products = written(db).await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(db.client().start_session().await.unwrap());
        }
        let new: Vec<Review> = (200..203).map(review).collect();
        let calls = new.iter().zip(&mut sessions);
        let inserted = join_all(calls.map(|(new, session)| products.insert(new).session(session).into_future())).await;
        assert!(inserted.iter().all(Result::is_ok));
        assert_eq!(names(db), format!("{ALONE} {ALONE} {ALONE}"));
    })
    .await;
}
