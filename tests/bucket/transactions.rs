//! Calls in a session and a transaction of the caller.

use mongo_patterns::bucket::IdPolicy;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use crate::common::support::*;

async fn session(db: &TestDatabase) -> ClientSession {
    db.client().start_session().await.unwrap()
}

#[tokio::test]
async fn every_call_sees_the_writes_of_its_transaction_and_no_other_client_does() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        for n in 0..25 {
            trades.append(&123, &spread(n)).session(&mut session).await.unwrap();
        }
        let page = trades.page(&123, 3).session(&mut session).await.unwrap().unwrap();
        assert_eq!(page.items.len(), 5);
        let slice = trades.pages(&123).limit(2).session(&mut session).await.unwrap();
        assert_eq!(slice.pages.len(), 2);
        let newest = trades.newest(&123, 7).session(&mut session).await.unwrap();
        assert_eq!(newest[0], spread(24));
        let counts = trades.counts(&123).session(&mut session).await.unwrap();
        assert_eq!((counts.items, counts.pages), (25, 3));
        assert_eq!(trades.count_pages(&123).session(&mut session).await.unwrap(), 3);

        assert_eq!(trades.counts(&123).await.unwrap().items, 0);
        session.commit_transaction().await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().items, 25);
        assert_eq!(violations(&plain(db), 10).await, []);
        trades.ensure_indexes().session(&mut session).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_aborted_transaction_leaves_nothing() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&123, &spread(0)).await.unwrap();
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        for n in 1..25 {
            trades.append(&123, &spread(n)).session(&mut session).await.unwrap();
        }
        session.abort_transaction().await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().items, 1);
    })
    .await;
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

/// Two transactions that open the bucket of one key: the later one fails with the label that makes the driver retry
/// it, and this crate does not retry it.
#[tokio::test]
async fn a_conflict_keeps_its_labels_and_is_not_retried_inside() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let (mut first, mut second) = (session(db).await, session(db).await);
        for session in [&mut first, &mut second] {
            session.start_transaction().await.unwrap();
            // begins the transaction, and so fixes its snapshot
            trades.counts(&123).session(session).await.unwrap();
        }
        trades.append(&123, &spread(0)).session(&mut first).await.unwrap();
        first.commit_transaction().await.unwrap();
        db.recorder().clear();
        let error = trades.append(&123, &spread(1)).session(&mut second).await.unwrap_err();
        assert_eq!(db.recorder().names(), ["update", "find", "update"], "once each");
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert!(error.attempts().is_none());
        let driver = mongodb::error::Error::from(error);
        assert!(driver.contains_label(TRANSIENT_TRANSACTION_ERROR), "{driver}");
        assert_eq!(trades.counts(&123).await.unwrap().items, 1);
    })
    .await;
}

#[tokio::test]
async fn the_drivers_convenient_api_retries_conflicting_transactions() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let writers = (0..8_i64).map(|writer| {
            let (trades, client) = (trades.clone(), db.client().clone());
            let audit = db.collection::<mongodb::bson::Document>("audit");
            async move {
                let mut session = client.start_session().await?;
                for n in 0..10_i64 {
                    let n = writer * 10 + n;
                    session
                        .start_transaction()
                        .and_run2(async |session| {
                            trades.append(&123, &spread(n)).session(&mut *session).await?;
                            audit.insert_one(doc! { "n": n }).session(session).await?;
                            Ok(())
                        })
                        .await?;
                }
                Ok::<(), mongodb::error::Error>(())
            }
        });
        for written in futures::future::join_all(writers).await {
            written.unwrap();
        }
        let counts = trades.counts(&123).await.unwrap();
        assert_eq!((counts.items, counts.pages), (80, 8));
        let audited = db
            .plain_collection::<mongodb::bson::Document>("audit")
            .count_documents(doc! {})
            .await
            .unwrap();
        assert_eq!(audited, 80);
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn an_error_of_this_crate_is_returned_from_the_drivers_callback() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut session = session(db).await;
        let error = session
            .start_transaction()
            .and_run2(async |session| {
                trades.append(&123, &spread(0)).session(&mut *session).await?;
                trades.page(&123, 0).session(session).await?;
                Ok(())
            })
            .await
            .unwrap_err();
        let error = Error::from(error);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.operation(), Some("page"));
        assert_eq!(
            trades.counts(&123).await.unwrap().items,
            0,
            "and the transaction was aborted"
        );
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
