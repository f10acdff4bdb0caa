//! A program that writes policies without the repository.

use mongo_patterns::history::Followed;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};

use crate::common::all;
use crate::history::*;

pub const NAME: &str = "policies";

/// Returns a repository whose follower has begun, with a clear recorder.
pub async fn followed(db: &TestDatabase) -> Policies {
    let policies = policies(db).await;
    assert_eq!(follow(&policies).await.written, 0);
    db.recorder().clear();
    policies
}

/// Follows until it is current.
pub async fn follow(policies: &Policies) -> Followed {
    let follow = policies.follow(NAME).enable_pre_images();
    follow.run_until_current().await.unwrap()
}

/// Returns a repository with its own lanes that has checked nothing yet, as in a new process.
pub fn restarted(db: &TestDatabase) -> Policies {
    builder(db.database()).build().unwrap()
}

/// Insures one more item, without the repository.
pub async fn push_plainly(db: &TestDatabase, id: i32, item: &str) {
    let pushed = current(db).update_one(doc! { "policyId": id }, push(item)).await;
    assert_eq!(pushed.unwrap().matched_count, 1);
}

/// Checks that the numbers have no gap, the times increase, and the newest revision is the current document.
pub async fn assert_recorded(db: &TestDatabase, policies: &Policies, context: &str) {
    assert_eq!(findings(policies).await, [], "{context}");
    for now in all(&current(db)).await {
        let copies = copies(db, now.get("policyId").unwrap().clone()).await;
        let last = copies
            .last()
            .unwrap_or_else(|| panic!("{context}: no revision of {now}"));
        assert_eq!(without_id(last), without_id(&now), "{context}");
        let numbers: Vec<i64> = copies.iter().map(|copy| number(copy, "revision")).collect();
        assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>(), "{context}");
    }
}

/// Returns the records of the followers.
pub async fn records(db: &TestDatabase) -> Vec<Document> {
    let mut records = all(&db.plain_collection::<Document>("mongo_patterns")).await;
    records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "follower");
    records
}
