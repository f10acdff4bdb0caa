//! Every write, failed and dropped at each of its commands. `verify` reports exactly the stale parents, and a repair or
//! the next write corrects them.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::subset::{Consistency, Finding, Problem, Repaired};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, doc};

use crate::common::support::{all, dropped_commands, end_transactions, quiet};
use crate::subset::support::*;

const COMMANDS: [&str; 6] = ["update", "insert", "delete", "find", "commitTransaction", "aggregate"];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert,
    InsertMany,
    Update,
    Replace,
    Delete,
    DeleteParent,
}

const CASES: [Operation; 6] = [
    Operation::Insert,
    Operation::InsertMany,
    Operation::Update,
    Operation::Replace,
    Operation::Delete,
    Operation::DeleteParent,
];

/// Inserts two products with fifteen reviews each, and fills the version cache if `cached`. Then it clears the
/// recorder.
async fn fill(db: &TestDatabase, products: &Products, cached: bool) {
    product(db).delete_many(doc! {}).await.unwrap();
    reviews(db).delete_many(doc! {}).await.unwrap();
    for id in 1..=2 {
        add_product(db, id).await;
        let children: Vec<Review> = (0..15).map(|n| review_of(id, n, i64::from(n))).collect();
        products.insert_many(&children).await.unwrap();
        if cached {
            products.rebuild(id).await.unwrap();
        }
    }
    db.recorder().clear();
}

async fn run(products: &Products, operation: Operation) -> Result<(), Error> {
    match operation {
        Operation::Insert => products.insert(&review(20)).await.map(drop),
        Operation::InsertMany => products
            .insert_many(&[review(20), review_of(2, 20, 20)])
            .await
            .map(drop),
        Operation::Update => products
            .update(1, 12, doc! { "$set": { "published_date": day(30) } })
            .await
            .map(drop),
        Operation::Replace => products.replace(&review_of(1, 12, 30)).await.map(drop),
        Operation::Delete => products.delete(1, 12).await.map(drop),
        Operation::DeleteParent => products.delete_parent(1).await.map(drop),
    }
}

async fn found(products: &Products) -> Vec<Finding> {
    products.verify().stream().try_collect().await.unwrap()
}

/// Checks that `verify` reports exactly the stale parents, and that they can be repaired. Returns their number.
async fn check(db: &TestDatabase, products: &Products, operation: Operation, by_write: bool, context: &str) -> usize {
    let stored = async || (all(&product(db)).await, all(&reviews(db)).await);
    let before = stored().await;
    let (findings, expected) = (found(products).await, wrong(&product(db), &reviews(db), 10).await);
    assert_eq!(stored().await, before, "{context}: a command arrived late");
    let stale: Vec<Bson> = findings
        .iter()
        .filter(|finding| finding.problem == Problem::Stale)
        .map(|finding| finding.parent_id.clone())
        .collect();
    assert_eq!(stale, expected, "{context}: {before:?}");
    if let Operation::DeleteParent = operation {
        let gone = product(db).find_one(doc! { "_id": 1 }).await.unwrap().is_none();
        let left = reviews(db).count_documents(doc! { "product_id": 1 }).await.unwrap();
        assert_eq!(findings.len(), usize::from(gone && left > 0), "{context}");
        products.delete_parent(1).await.unwrap();
        assert_eq!(all(&reviews(db)).await.len(), 15, "{context}");
        assert_eq!(found(products).await, [], "{context}");
        return findings.len();
    }
    assert_eq!(findings.len(), stale.len(), "{context}");
    if by_write {
        // Also a review that is too old to be embedded.
        for id in 1..=2 {
            products.insert(&review_of(id, 99, -99)).await.unwrap();
        }
    } else {
        let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), findings.len(), "{context}");
    }
    assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}");
    // An interrupted call can be repeated.
    match run(products, operation).await {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{context}"),
    }
    assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}");
    findings.len()
}

/// Drops a call as a kill does: nothing is sent after the running command. Returns whether the call had completed.
async fn drop_after(db: &TestDatabase, products: &Products, operation: Operation, skip: u32) -> bool {
    let slow = FailPoint::on(&COMMANDS).skip(skip).block(Duration::from_millis(30));
    let fault = slow.enable(db).await;
    let sent = db.recorder().sent(skip as usize + 1);
    let done = tokio::select! {
        biased;
        () = sent => false,
        outcome = run(products, operation) => {
            outcome.unwrap();
            true
        }
    };
    fault.disable().await;
    end_transactions(db).await;
    dropped_commands(db).await;
    quiet(db).await;
    done
}

/// Drops each operation at each of its commands. Returns the number of stale parents.
async fn dropped(db: &TestDatabase, consistency: Consistency) -> usize {
    let mut damaged = 0;
    let cached = [(Operation::Insert, true)];
    for (operation, cached) in CASES.map(|operation| (operation, false)).into_iter().chain(cached) {
        for skip in 0.. {
            let mut done = false;
            for by_write in [false, true] {
                // Its own per-key locks for each, as another process has.
                let products = builder(db.database()).consistency(consistency).build().unwrap();
                products.ensure_indexes().await.unwrap();
                fill(db, &products, cached).await;
                done = drop_after(db, &products, operation, skip).await;
                let context = format!("{consistency:?} {operation:?} cached {cached} dropped after {skip}");
                damaged += check(db, &products, operation, by_write, &context).await;
            }
            if done {
                break;
            }
        }
    }
    damaged
}

#[tokio::test]
async fn a_write_dropped_at_any_command_is_found_and_repaired() {
    testkit::run(async |db| {
        let damaged = dropped(db, Consistency::Eventual).await;
        assert!(damaged >= 15, "{damaged}");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_transaction_leaves_no_stale_parent() {
    testkit::run(async |db| assert_eq!(dropped(db, Consistency::Transactional).await, 0)).await;
}

/// The error reports whether the child is stored although its product was not written.
#[tokio::test]
async fn a_write_that_fails_at_any_command_reports_the_stored_data() {
    testkit::run(async |db| {
        let products = products(db, Consistency::Eventual).await;
        let mut failed = 0;
        for (operation, cached) in [
            (Operation::Insert, false),
            (Operation::Insert, true),
            (Operation::Update, false),
            (Operation::Replace, false),
            (Operation::Delete, false),
        ] {
            for skip in 0.. {
                fill(db, &products, cached).await;
                let before = all(&reviews(db)).await;
                let fault = FailPoint::on(&COMMANDS).skip(skip).error_code(96).enable(db).await;
                let outcome = run(&products, operation).await;
                fault.disable().await;
                let Err(error) = outcome else { break };
                failed += 1;
                let context = format!("{operation:?} failed after {skip}: {error:?}");
                let is_stored = all(&reviews(db)).await != before;
                assert_eq!(error.stored_count(), is_stored.then_some(1), "{context}");
                let text = error.to_string();
                assert!(
                    !is_stored || !text.contains("nothing was") && text.contains("rebuild(..)"),
                    "{context}"
                );
                check(db, &products, operation, skip % 2 == 0, &context).await;
            }
        }
        assert_eq!(failed, 16 + 3);
    })
    .await;
}

/// A review of a deleted product cannot be undone if it existed before, or if the server fails.
#[tokio::test]
async fn a_review_that_remains_without_its_product_is_reported() {
    testkit::run(async |db| {
        let products = products(db, Consistency::Eventual).await;
        let check_error = |error: Error, kind: ErrorKind| {
            assert_eq!((error.kind(), error.stored_count()), (kind, Some(1)), "{error:?}");
            assert!(!error.to_string().contains("nothing was"), "{error:?}");
            assert!(!error.is_transient() && !error.is_invalid_input(), "{error:?}");
        };
        fill(db, &products, false).await;
        let fault = FailPoint::on(&["update"])
            .block(Duration::from_millis(200))
            .enable(db)
            .await;
        let update = async { products.update(1, 12, doc! { "$set": { "stars": 5 } }).await };
        let delete = async {
            db.recorder().sent(2).await;
            product(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        };
        let (updated, ()) = futures::future::join(update, delete).await;
        fault.disable().await;
        check_error(updated.unwrap_err(), ErrorKind::NotFound);

        fill(db, &products, true).await;
        product(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        let fault = FailPoint::on(&["delete"]).error_code(96).enable(db).await;
        let error = products.insert(&review(20)).await.unwrap_err();
        fault.disable().await;
        check_error(error, ErrorKind::Driver);
        assert_eq!(reviews(db).count_documents(doc! { "review_id": 20 }).await.unwrap(), 1);
    })
    .await;
}

/// An insert whose product is deleted concurrently deletes its review.
#[tokio::test]
async fn an_insert_with_a_concurrent_delete_of_its_product_leaves_no_review() {
    testkit::run(async |db| {
        let products = products(db, Consistency::Eventual).await;
        let fault = FailPoint::on(&["insert"])
            .block(Duration::from_millis(200))
            .enable(db)
            .await;
        let review = review(1);
        let insert = async { products.insert(&review).await };
        let delete = async {
            db.recorder().sent(2).await;
            product(db).delete_one(doc! {}).await.unwrap();
        };
        let (inserted, ()) = futures::future::join(insert, delete).await;
        fault.disable().await;
        let error = inserted.unwrap_err();
        assert_eq!(
            (error.kind(), error.stored_count()),
            (ErrorKind::NotFound, None),
            "{error:?}"
        );
        assert!(all(&reviews(db)).await.is_empty());
    })
    .await;
}
