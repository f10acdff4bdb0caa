//! Every write, failed and dropped at each of its commands: it leaves no stale parent, and nothing of it is stored.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::subset::Finding;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;

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

/// Inserts two products with fifteen reviews each. With `is_later`, this process writes each of them a second time. Then it
/// clears the recorder.
async fn fill(db: &TestDatabase, products: &Products, is_later: bool) {
    product(db).delete_many(doc! {}).await.unwrap();
    reviews(db).delete_many(doc! {}).await.unwrap();
    for id in 1..=2 {
        add_product(db, id).await;
        let children: Vec<Review> = (0..15).map(|n| review_of(id, n, i64::from(n))).collect();
        products.insert_many(&children).await.unwrap();
        if is_later {
            products.insert(&review_of(id, -1, -1)).await.unwrap();
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

/// Checks that no parent is stale, and that the call can be repeated.
async fn check(db: &TestDatabase, products: &Products, operation: Operation, context: &str) {
    let stored = async || (all(&product(db)).await, all(&reviews(db)).await);
    let before = stored().await;
    assert_eq!(found(products).await, [], "{context}");
    assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}: {before:?}");
    assert_eq!(stored().await, before, "{context}: a command arrived late");
    match run(products, operation).await {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{context}"),
    }
    assert_eq!(found(products).await, [], "{context}");
    assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}");
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

/// Each operation with the first write of a process to its parent, and with a later one, which sends other commands.
fn cases() -> impl Iterator<Item = (Operation, bool)> {
    CASES
        .into_iter()
        .flat_map(|operation| [false, true].map(|is_later| (operation, is_later)))
}

#[tokio::test]
async fn a_write_dropped_at_any_command_leaves_no_stale_parent() {
    testkit::run(async |db| {
        for (operation, is_later) in cases() {
            for skip in 0.. {
                // Its own lanes for each, as another process has.
                let products = builder(db.database()).build().unwrap();
                products.ensure_indexes().await.unwrap();
                fill(db, &products, is_later).await;
                let done = drop_after(db, &products, operation, skip).await;
                let context = format!("{operation:?} later {is_later} dropped after {skip}");
                check(db, &products, operation, &context).await;
                if done {
                    assert!(skip >= 3, "{context}");
                    break;
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_write_that_fails_at_any_command_stores_nothing() {
    testkit::run(async |db| {
        let products = products(db).await;
        for (operation, is_later) in cases() {
            for skip in 0.. {
                fill(db, &products, is_later).await;
                let before = (all(&product(db)).await, all(&reviews(db)).await);
                let fault = FailPoint::on(&COMMANDS).skip(skip).error_code(96).enable(db).await;
                let outcome = run(&products, operation).await;
                fault.disable().await;
                let context = format!("{operation:?} later {is_later} failed after {skip}: {outcome:?}");
                let Err(error) = outcome else {
                    assert!(skip >= 3, "{context}");
                    break;
                };
                assert_eq!(error.stored_count(), None, "{context}");
                assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before, "{context}");
                check(db, &products, operation, &context).await;
            }
        }
    })
    .await;
}

/// The product is deleted before the snapshot of the transaction, and after it.
#[tokio::test]
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
