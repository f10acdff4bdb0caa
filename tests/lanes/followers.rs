//! A follower applies changes in a process whose calls for a held document are dropped all the time.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::Error;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::common::pause;
use support::lanes::*;

const NAME: &str = "follower";
/// The time-out of a request, and how many are concurrent.
const TIME_OUT: Duration = Duration::from_millis(50);
const REQUESTS: i32 = 12;
/// How many changes the follower applies, one after another.
const CHANGES: i32 = 6;

/// Drops calls for the held document without end.
async fn drop_calls(operation: &Operation, repositories: &Repositories) {
    let request = async |first: i32| {
        for number in (first..).step_by(REQUESTS as usize) {
            let call = operation.run(repositories, HELD, number);
            let dropped = tokio::time::timeout(TIME_OUT, call).await;
            assert!(dropped.is_err(), "{dropped:?}");
        }
    };
    join_all((FIRST + 1..).take(REQUESTS as usize).map(request)).await;
}

/// Follows without end.
async fn follow(operation: &Operation, of: &Repositories) -> Error {
    match operation.collection {
        "customers" => of.orders.follow(NAME).await.unwrap_err(),
        "product" => of.products.follow(NAME).enable_pre_images().await.unwrap_err(),
        _ => of.policies.follow(NAME).enable_pre_images().await.unwrap_err(),
    }
}

/// Stores the position from which the follower resumes.
async fn begin(operation: &Operation, of: &Repositories) {
    match operation.collection {
        "customers" => drop(of.orders.follow(NAME).run_until_current().await.unwrap()),
        "product" => {
            let follow = of.products.follow(NAME).enable_pre_images();
            follow.run_until_current().await.unwrap();
        }
        _ => {
            let follow = of.policies.follow(NAME).enable_pre_images();
            follow.run_until_current().await.unwrap();
        }
    }
}

/// Writes a free document without the repository, and waits until the follower has applied the change.
async fn change(db: &TestDatabase, operation: &Operation, number: i32) {
    let plain = |name| db.plain_collection::<Document>(name);
    let free = FREE[1];
    let (collection, applied) = match operation.collection {
        "customers" => {
            let rename = doc! { "$set": { "name": user(number) } };
            let customers = plain("customers");
            customers.update_one(doc! { "_id": free }, rename).await.unwrap();
            ("orders", doc! { "_id": free, "customer.name": user(number) })
        }
        "product" => {
            plain("review").insert_one(review(free, number)).await.unwrap();
            let id = review_id(free, number);
            ("product", doc! { "_id": free, "reviews.review_id": id })
        }
        _ => {
            let insure = doc! { "$push": { "itemsInsured": number } };
            let policies = plain("currentPolicies");
            policies.update_one(doc! { "policyId": free }, insure).await.unwrap();
            ("policyRevisions", doc! { "policyId": free, "itemsInsured": number })
        }
    };
    while plain(collection).find_one(applied.clone()).await.unwrap().is_none() {
        pause().await;
    }
}

async fn check(operation: &Operation) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        begin(operation, &repositories).await;
        let holder = Holder::hold(db, operation, HELD).await;
        let changes = async {
            for number in FIRST + 1..=FIRST + CHANGES {
                ends("the follower", change(db, operation, number)).await;
            }
        };
        tokio::select! {
            error = follow(operation, &repositories) => panic!("{error:?}"),
            () = drop_calls(operation, &repositories) => unreachable!(),
            () = changes => {}
        }
        assert!(on_server_for(db, HELD).await <= 1);
        holder.release().await;
    })
    .await;
}

each! {
    check;
    of_references: "update_source";
    of_subsets: "insert";
    of_histories: "update";
}
