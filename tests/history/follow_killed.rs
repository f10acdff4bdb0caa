//! A follower that meets the transaction of a process that was killed.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::common::until;
use support::history::follow::*;
use support::history::*;

/// A process that is killed in a transaction leaves it open: its documents are locked until the server ends it.
#[tokio::test]
async fn the_transaction_of_a_killed_process_is_waited_for() {
    wait_for_a_killed_process(async |db, killed| {
        // As after 60 seconds, when the follower has met it.
        until("the follower", async || has_met(db)).await;
        let admin = db.plain_client().database("admin");
        admin.run_command(doc! { "killSessions": [killed] }).await.unwrap();
    })
    .await;
}

/// The same, until the server ends it by itself.
#[tokio::test]
#[ignore = "long: cargo xtask ci --full"]
async fn the_transaction_of_a_killed_process_is_waited_for_until_the_server_ends_it() {
    wait_for_a_killed_process(async |_, _| {}).await;
}

fn has_met(db: &TestDatabase) -> bool {
    db.recorder().names().contains(&"abortTransaction".to_owned())
}

async fn wait_for_a_killed_process(end: impl AsyncFnOnce(&TestDatabase, Document)) {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert(&policy(1)).await.unwrap();
        follow(&policies).await;
        push_plainly(db, 1, "a").await;
        let current = current(db);
        let mut killed = current.client().start_session().await.unwrap();
        killed.start_transaction().await.unwrap();
        let locked = current.update_one(doc! { "policyId": 1 }, push("b"));
        locked.session(&mut killed).await.unwrap();
        let next = restarted(db);
        let (followed, ()) = tokio::join!(follow(&next), end(db, killed.id().clone()));
        assert_eq!((followed.written, followed.repaired), (1, 0));
        assert!(has_met(db), "it has met the other transaction");
        assert!(killed.commit_transaction().await.is_err(), "the server has ended it");
        assert_recorded(db, &policies, "after it").await;
    })
    .await;
}
