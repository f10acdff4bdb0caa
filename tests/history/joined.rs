//! Changes of one document that wait for each other share transactions, each with its own revision.
//!
//! The futures of a test are polled by one thread, in their order: the first call is alone, and all others join.

use futures::future::join_all;
use mongo_patterns::history::Recorded;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::IndexOptions;

use support::common::{all, end_transactions};
use support::history::*;

const ALONE: &str = "findAndModify insert commitTransaction";
/// The server's code for a time limit. The driver does not retry it.
const EXCEEDED: i32 = 50;

async fn update_all(policies: &Policies, updates: impl IntoIterator<Item = Document>) -> Vec<Result<Recorded, Error>> {
    let updates = updates.into_iter();
    join_all(updates.map(|update| policies.update(1, update).into_future())).await
}

fn pushes(numbers: std::ops::Range<i32>) -> Vec<Document> {
    numbers.map(|number| push(&format!("item{number}"))).collect()
}

/// Checks that the revisions have no gap and no double, and that their times increase. Returns their number.
async fn revisions_of(db: &TestDatabase, policies: &Policies) -> usize {
    assert_eq!(findings(policies).await, []);
    let mut stored = all(&revisions(db)).await;
    stored.sort_by_key(|revision| number(revision, "revision"));
    let times: Vec<DateTime> = stored.iter().map(|one| *one.get_datetime("dateSet").unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    stored.len()
}

#[tokio::test]
async fn waiting_changes_share_one_transaction_and_each_has_its_revision() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let recorded = update_all(&policies, pushes(0..17)).await;
        let joined = ["findAndModify"; 16].join(" ");
        assert_eq!(names(db), format!("{ALONE} {joined} insert commitTransaction"));
        let recorded: Vec<u64> = recorded.into_iter().map(|one| one.unwrap().revision).collect();
        assert_eq!(recorded, (2..19).collect::<Vec<u64>>());
        let current = policies.get(1).await.unwrap().unwrap().document;
        let expected: Vec<String> = (0..17).map(|number| format!("item{number}")).collect();
        assert_eq!(items(&current), expected);
        assert_eq!(revisions_of(db, &policies).await, 18);
    })
    .await;
}

/// The first two end the transaction, and the third does not match the document.
#[tokio::test]
async fn refused_changes_fail_alone() {
    testkit::run(async |db| {
        let policies = unsharded(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let options = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "customerName": 1 }).options(options);
        current(db).create_index(index.build()).await.unwrap();
        policies
            .insert(&doc! { "policyId": 2, "customerName": "Ada" })
            .await
            .unwrap();
        let text = doc! { "$inc": { "customerName": 1 } };
        let alone = policies.update(1, text.clone()).await.unwrap_err();
        let mut updates = pushes(0..8);
        updates.insert(3, text);
        // A unique index of the application refuses it.
        updates.insert(6, doc! { "$set": { "customerName": "Ada" } });
        let call = |update| policies.update(1, update).into_future();
        let mut calls: Vec<_> = updates.into_iter().map(call).collect();
        calls.push(policies.update(1, push("never")).expecting(1000).into_future());
        let kinds = join_all(calls).await.into_iter();
        let kinds = kinds.map(|one| one.err().map(|error| error.kind()));
        let mut expected = vec![None; 11];
        expected[3] = Some(alone.kind());
        expected[6] = Some(ErrorKind::DuplicateKey);
        expected[10] = Some(ErrorKind::RevisionMismatch);
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        let current = policies.get(1).await.unwrap().unwrap().document;
        let expected: Vec<String> = (0..8).map(|number| format!("item{number}")).collect();
        assert_eq!(items(&current), expected);
        assert_eq!(numbers(db, 1).await, (1..=9).collect::<Vec<i64>>());
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn changes_after_a_joined_deletion_find_no_document() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let first = policies.update(1, push("car")).into_future();
        let deleted = policies.delete(1).into_future();
        let after = policies.update(1, push("watch")).into_future();
        let (first, deleted, after) = futures::join!(first, deleted, after);
        assert_eq!(first.unwrap().revision, 2);
        assert_eq!(deleted.unwrap().revision, Some(3));
        assert_eq!(after.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(policies.get(1).await.unwrap().map(|_| ()), None);
        assert_eq!(revisions_of(db, &policies).await, 3);
    })
    .await;
}

/// Four changes of a document of 6 MiB: its copies are sent in transactions of a bounded size.
#[tokio::test]
async fn the_copies_of_a_transaction_are_bounded() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        let mut large = policy(1);
        large.insert("terms", "x".repeat(6 << 20));
        policies.insert(&large).await.unwrap();
        names(db);
        for one in update_all(&policies, pushes(0..6)).await {
            one.unwrap();
        }
        let joined = "findAndModify findAndModify findAndModify insert commitTransaction";
        let rest = "findAndModify findAndModify insert commitTransaction";
        assert_eq!(names(db), format!("{ALONE} {joined} {rest}"));
        assert_eq!(revisions_of(db, &policies).await, 7);
    })
    .await;
}

#[tokio::test]
async fn a_commit_without_a_reply_is_of_unknown_outcome_for_every_call() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        // The first call has three commands, and the others four before their commit.
        let second_commit = 7;
        let fault = FailPoint::on(&[]).times(1).error_code(EXCEEDED).plan(db, second_commit);
        let recorded = update_all(&policies, pushes(0..4)).await;
        assert!(fault.is_made());
        fault.end();
        end_transactions(db).await;
        let mut recorded = recorded.into_iter();
        recorded.next().unwrap().unwrap();
        for one in recorded {
            let error = one.unwrap_err();
            assert!(error.is_outcome_unknown(), "{error:?}");
        }
        let stored = revisions_of(db, &policies).await;
        assert!([2, 5].contains(&stored), "all of them, or none: {stored}");
    })
    .await;
}
