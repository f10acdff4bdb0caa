//! Calls in a session and a transaction of the caller.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::IdPolicy;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::doc;

use crate::common::support::*;

async fn session(db: &TestDatabase) -> ClientSession {
    db.client().start_session().await.unwrap()
}

/// A collision would abort the transaction, and would be met again in the next one. So in a session a free `_id` of a
/// new bucket is read, and not tried.
#[tokio::test]
async fn a_taken_second_does_not_abort_a_transaction() {
    testkit::run(async |db| {
        for policy in [IdPolicy::ItemTime, IdPolicy::Monotonic] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).id_policy(policy)).await;
            let mut session = session(db).await;
            session.start_transaction().await.unwrap();
            for n in 0..35 {
                trades
                    .append(&123, &same_second(n))
                    .session(&mut session)
                    .await
                    .unwrap();
            }
            session.commit_transaction().await.unwrap();
            let stored = all(&plain(db)).await;
            assert_eq!(
                ids(&stored),
                [
                    "123_1698335223",
                    "123_1698335223_000001",
                    "123_1698335223_000002",
                    "123_1698335223_000003"
                ]
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_missing_index_is_named_in_a_transaction_too() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        plain(db).insert_one(full_bucket(SECOND)).await.unwrap();
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        let error = trades.append(&123, &spread(0)).session(&mut session).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
    })
    .await;
}
