//! Broken connections, unsatisfied write concerns, and repeated conflicts.

use std::time::Duration;

use mongo_patterns::bucket::IdPolicy;
use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::doc;

use support::bucket::*;
use support::common::*;

#[tokio::test]
async fn a_connection_that_stays_broken_leaves_the_outcome_unknown() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let fault = FailPoint::on(&["update"]).close_connection().enable(db).await;
        let error = trades.append(&123, &spread(0)).await.unwrap_err();
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
        assert!(error.is_outcome_unknown() && !error.is_transient());
        assert_eq!(trades.counts(&123).await.unwrap().items, 0);
        trades.append(&123, &spread(0)).await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().items, 1);

        // The item is stored, and the error reports it: a retry would store it twice.
        db.recorder().clear();
        let fault = FailPoint::on(&["update"]).write_concern_error(64).enable(db).await;
        let error = trades.append(&123, &spread(1)).await.unwrap_err();
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::WriteConcern, "{error:?}");
        assert!(error.is_outcome_unknown() && !error.is_transient());
        assert_eq!(db.recorder().names(), ["update"]);
        assert_eq!(trades.counts(&123).await.unwrap().items, 2);
    })
    .await;
}

/// A server that is no primary refuses a command that the first of the driver's two attempts may have executed.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn transient_errors_are_distinguished_from_unknown_outcomes() {
    const RETRYABLE: &str = "RetryableWriteError";
    const NOTHING: &str = "NoWritesPerformed";
    testkit::run(async |db| {
        let trades = trades(db).await;
        for (command, code, labels, transient, unknown) in [
            ("update", 10107, &[RETRYABLE, NOTHING][..], true, false),
            ("update", 10107, &[RETRYABLE], false, true),
            ("update", 11602, &[RETRYABLE, NOTHING], true, false),
            ("update", 11602, &[RETRYABLE], false, true),
            ("update", 50, &[], false, true),
            ("update", 8000, &[], false, false),
            ("update", 10107, &[], false, true),
            ("find", 13435, &[], true, false),
            ("find", 13436, &[], true, false),
        ] {
            let fault = FailPoint::on(&[command]).error_code(code).error_labels(labels);
            let fault = fault.enable(db).await;
            let error = match command {
                "find" => trades.page(&123, 1).await.unwrap_err(),
                _ => trades.append(&123, &spread(0)).await.unwrap_err(),
            };
            fault.disable().await;
            assert_eq!(error.kind(), ErrorKind::Driver, "{code}: {error:?}");
            assert_eq!(error.is_transient(), transient, "{command} {code} {labels:?}");
            assert_eq!(error.is_outcome_unknown(), unknown, "{command} {code} {labels:?}");
        }
        // A transaction that was aborted, and must be retried.
        let mut session = transaction(db).await;
        let fault = FailPoint::on(&["update"]).error_code(251);
        let fault = fault.error_labels(&["TransientTransactionError"]).enable(db).await;
        let error = trades.append(&123, &spread(0)).session(&mut session).await.unwrap_err();
        fault.disable().await;
        assert!(error.is_transient() && !error.is_outcome_unknown(), "{error:?}");
        session.abort_transaction().await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().items, 0);
    })
    .await;
}

fn always_a_collision_on(field: &str) -> FailPoint {
    FailPoint::on(&["update"]).error_code(11000).with(
        "errorExtraInfo",
        doc! { "keyPattern": { field: 1 }, "keyValue": { field: 1 } },
    )
}

#[tokio::test]
async fn repeated_conflicts_end_by_count_or_by_time() {
    testkit::run(async |db| {
        let by_count = RetryPolicy::default().with_max_attempts(7);
        let by_time = RetryPolicy::default().with_max_elapsed(Duration::from_millis(100));
        for field in ["_id", "customerId"] {
            for policy in POLICIES {
                plain(db).drop().await.unwrap();
                let trades = ready(db, builder(db).id_policy(policy).retry(by_count.clone())).await;
                let hurried = builder(db).id_policy(policy).retry(by_time.clone()).build().unwrap();
                // A monotonic append fails at its first update, which opens nothing, and is not retried.
                let fault = always_a_collision_on(field).enable(db).await;
                let error = trades.append(&123, &spread(0)).await.unwrap_err();
                let hurried = hurried.append(&123, &spread(0)).await.unwrap_err();
                fault.disable().await;
                for error in [&error, &hurried] {
                    assert!(error.is_contention() && error.is_transient(), "{error:?}");
                    assert!(!error.is_outcome_unknown(), "{error:?}");
                    assert!(error.as_driver_error().is_some());
                }
                if policy == IdPolicy::ItemTime {
                    assert_eq!(error.attempts(), Some(7));
                    assert!(error.to_string().contains("tried 7 times"), "{error}");
                    assert!(hurried.elapsed().unwrap() <= Duration::from_secs(10));
                }
                assert_eq!(trades.counts(&123).await.unwrap().items, 0);
            }
        }
    })
    .await;
}
