//! Appends in a transaction of the caller.

use mongo_patterns_testkit as testkit;

use support::bucket::*;
use support::common::*;

/// A collision would abort the transaction, and would be met again in the next one. So in a session a free `_id` of a
/// new bucket is read, and not tried.
#[tokio::test]
async fn a_taken_second_does_not_abort_a_transaction() {
    testkit::run(async |db| {
        for policy in POLICIES {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).id_policy(policy)).await;
            let mut session = transaction(db).await;
            for n in 0..15 {
                let appended = trades.append(&123, &same_second(n)).session(&mut session).await;
                appended.unwrap();
            }
            let batch = |numbers: std::ops::Range<i64>| numbers.map(same_second).collect::<Vec<_>>();
            let of_batch = trades.append_many(&123, &batch(15..35)).session(&mut session).await;
            assert_eq!(of_batch.unwrap().items, 20);
            session.commit_transaction().await.unwrap();
            session.start_transaction().await.unwrap();
            let of_batch = trades.append_many(&123, &batch(35..60)).session(&mut session).await;
            assert_eq!(of_batch.unwrap().items, 25);
            session.abort_transaction().await.unwrap();
            let read = collected(trades.items(&123).stream()).await;
            assert_eq!(read, batch(0..35));
            let suffixes = ["", "_000001", "_000002", "_000003"].map(|suffix| format!("123_{SECOND}{suffix}"));
            assert_eq!(ids(&all(&plain(db)).await), suffixes);
        }
    })
    .await;
}
