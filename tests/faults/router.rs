//! Errors of the router of a sharded cluster, which sends a write again without a label of the driver.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;

use support::common::{Trade, plain, spread, trades};
use support::{embedded, outlier, subset};

/// The router has no suitable node of the shard; a chunk is moving; the shard is overloaded.
const UNAVAILABLE: [i32; 5] = [133, 134, 239, 272, 462];
/// The router lost its connection to the shard.
const BROKEN: [i32; 3] = [7, 202, 407];
/// One of each, for the commands of which the codes are not tested one by one: that these are the same is tested without a server.
const ONE_OF_EACH: [i32; 2] = [UNAVAILABLE[0], BROKEN[0]];

pub fn assert_unknown(error: &Error, context: &str) {
    let is_unknown = error.is_outcome_unknown() && !error.is_transient();
    assert!(is_unknown, "{context}: {error:?}");
    assert!(error.to_string().contains("may or may not"), "{context}: {error}");
}

/// Runs a write while its command fails with each of these codes, and asserts that the library does not retry it.
async fn fails(db: &TestDatabase, command: &str, codes: &[i32], write: impl AsyncFn() -> Result<(), Error>) {
    for code in codes.iter().copied() {
        let context = format!("{command} {code}");
        let fault = FailPoint::on(&[command]).error_code(code).enable(db).await;
        db.recorder().clear();
        let error = write().await.unwrap_err();
        // The driver retries what the server labels, once, and under the number by which the server recognizes it.
        let cause = error.as_driver_error().unwrap();
        let allowed = 1 + usize::from(cause.contains_label("RetryableWriteError"));
        let names = db.recorder().names();
        let sent = names.iter().filter(|name| *name == command).count();
        assert_eq!(sent, allowed, "{context}: {names:?}");
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::Driver, "{context}");
        assert_unknown(&error, &context);
    }
    // The server reports that it wrote nothing. It does so for both attempts.
    let fault = FailPoint::on(&[command]).error_code(133);
    let fault = fault.error_labels(&["NoWritesPerformed"]).enable(db).await;
    let error = write().await.unwrap_err();
    fault.disable().await;
    // A part of a batch may be stored before.
    let has_stored = error.stored_count().unwrap_or(0) > 0;
    assert_eq!(error.is_transient(), !has_stored, "{command}: {error:?}");
    assert!(!error.is_outcome_unknown(), "{command}: {error:?}");
    // The command runs, and its reply is an error.
    let fault = FailPoint::on(&[command])
        .times(1)
        .write_concern_error(133)
        .enable(db)
        .await;
    let error = write().await.unwrap_err();
    fault.disable().await;
    let is_unknown = error.is_outcome_unknown() && !error.is_transient();
    assert!(is_unknown, "{command}: {error:?}");
}

#[tokio::test]
async fn no_write_of_a_bucket_is_reported_as_not_stored() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let all = [&UNAVAILABLE[..], &BROKEN].concat();
        fails(db, "update", &all, async || {
            trades.append(&123, &spread(0)).await.map(drop)
        })
        .await;
        assert_eq!(trades.counts(&123).await.unwrap().items, 1, "the last one was executed");
        let batch: Vec<Trade> = (0..25).map(spread).collect();
        fails(db, "insert", &ONE_OF_EACH, async || {
            plain(db).delete_many(doc! {}).await.unwrap();
            trades.append_many(&123, &batch).await.map(drop)
        })
        .await;
        fails(db, "delete", &ONE_OF_EACH, async || {
            trades.delete_key(&123).await.map(drop)
        })
        .await;
    })
    .await;
}

/// The first call is sent alone, and the others together. Each caller gets the error, and nothing is retried.
#[tokio::test]
async fn nothing_of_joined_calls_is_retried() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let books = outlier::books(db).await;
        books.insert(&outlier::book(2, 0)).await.unwrap();
        let fault = FailPoint::on(&["update", "findAndModify", "insert"]);
        let fault = fault.error_code(133).enable(db).await;
        db.recorder().clear();
        let items: Vec<Trade> = (0..4).map(spread).collect();
        let appends = items.iter().map(|item| trades.append(&123, item).into_future());
        for result in join_all(appends).await {
            assert_unknown(&result.unwrap_err(), "append");
        }
        assert!(db.recorder().round_trips() <= 4, "{:?}", db.recorder().names());
        db.recorder().clear();
        let users = outlier::users(0..4);
        let pushes = users.iter().map(|user| books.push(2, user).into_future());
        for result in join_all(pushes).await {
            assert_unknown(&result.unwrap_err(), "push");
        }
        assert!(db.recorder().round_trips() <= 4, "{:?}", db.recorder().names());
        fault.disable().await;
    })
    .await;
}

#[tokio::test]
async fn no_push_is_reported_as_not_stored() {
    testkit::run(async |db| {
        let books = outlier::books(db).await;
        books.insert(&outlier::book(2, 3)).await.unwrap();
        let user = "user99".to_owned();
        fails(db, "update", &ONE_OF_EACH, async || {
            books.push(2, &user).await.map(drop)
        })
        .await;
        let stored = outlier::stored(db, 2).await;
        assert_eq!(stored.len(), 4, "the last one was executed");
        fails(db, "insert", &ONE_OF_EACH, async || {
            outlier::sales(db).delete_many(doc! {}).await.unwrap();
            books.insert(&outlier::book(3, 3)).await.map(drop)
        })
        .await;
    })
    .await;
}

/// A command of a transaction that fails, whatever the reason, leaves nothing behind. A chunk that moves aborts transactions,
/// which the call repeats as its policy allows.
#[tokio::test]
async fn a_child_whose_transaction_failed_is_not_stored() {
    testkit::run(async |db| {
        let few = mongo_patterns::RetryPolicy::default().with_max_attempts(3);
        let products: subset::Products = subset::ready(db, subset::builder(db.database()).retry(few)).await;
        let insert = async |fault: FailPoint, code: i32| {
            let fault = fault.enable(db).await;
            let error = products.insert(&subset::review(1)).await.unwrap_err();
            fault.disable().await;
            let reviews = subset::reviews(db);
            assert_eq!(reviews.count_documents(doc! {}).await.unwrap(), 0, "{code}");
            error
        };
        for code in UNAVAILABLE.into_iter().chain(BROKEN) {
            insert(FailPoint::on(&["insert"]).error_code(code), code).await;
        }
        for (code, is_contention) in [(239, true), (267, true), (272, true), (133, false)] {
            let fault = FailPoint::on(&["insert"]).error_code(code);
            let error = insert(fault.error_labels(&["TransientTransactionError"]), code).await;
            assert_eq!(error.is_contention(), is_contention, "{code}: {error:?}");
            assert!(error.is_transient() && !error.is_outcome_unknown(), "{code}: {error:?}");
            assert_eq!(error.attempts(), Some(3), "{code}");
        }
    })
    .await;
}

#[tokio::test]
async fn no_embedded_child_is_reported_as_not_stored() {
    testkit::run(async |db| {
        use embedded::{address, patron, patrons, plant};
        plant(db, &patron(1, [])).await;
        let patrons = patrons(db);
        fails(db, "update", &ONE_OF_EACH, async || {
            patrons.add_child(1, &address(7)).await.map(drop)
        })
        .await;
        assert_eq!(embedded::ids(db, 1).await, [7.into()], "the last one was executed");
    })
    .await;
}

/// The first attempt is stored, and its reply is lost. The second one, by which the router or the driver retries, fails
/// with an error that alone would mean that nothing was stored.
#[tokio::test]
async fn a_retry_that_fails_does_not_hide_the_attempt_that_was_stored() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut stored = 0;
        for attempt in 0.. {
            assert!(
                attempt < 20,
                "the second fail point never came before the driver's retry"
            );
            // Stored, and reported as by a server that shuts down: the driver looks for a primary, and retries.
            let lost = FailPoint::on(&["update"]).times(1).write_concern_error(91);
            let lost = lost.error_labels(&["RetryableWriteError"]).enable(db).await;
            let trade = spread(attempt);
            let append = trades.append(&123, &trade);
            let refuse = async {
                assert!(lost.met(db, Duration::from_secs(60)).await);
                lost.disable().await;
                FailPoint::on(&["update"]).error_code(133).enable(db).await
            };
            let (appended, refused) = futures::join!(async { append.await }, refuse);
            refused.disable().await;
            stored += 1;
            assert_eq!(trades.counts(&123).await.unwrap().items, stored, "stored once");
            if let Err(error) = appended {
                assert_unknown(&error, "retried");
                break;
            }
        }
    })
    .await;
}

/// A read has no outcome: nothing was stored.
#[tokio::test]
async fn a_read_of_an_unavailable_shard_is_transient() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&123, &spread(0)).await.unwrap();
        for code in UNAVAILABLE {
            let fault = FailPoint::on(&["find", "aggregate"]).error_code(code).enable(db).await;
            let errors = [
                trades.page(&123, 1).await.unwrap_err(),
                trades.newest(&123, 1).await.unwrap_err(),
                trades.counts(&123).await.unwrap_err(),
                trades.count_pages(&123).await.unwrap_err(),
                futures::TryStreamExt::try_collect::<Vec<_>>(trades.verify().stream())
                    .await
                    .unwrap_err(),
            ];
            fault.disable().await;
            for error in errors {
                assert!(error.is_transient() && !error.is_outcome_unknown(), "{code}: {error:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_router_is_too_old_for_is_unsupported() {
    testkit::run(async |db| {
        let books = outlier::books(db).await;
        let fault = FailPoint::on(&["aggregate"]).error_code(28769).enable(db).await;
        let error = futures::TryStreamExt::try_collect::<Vec<_>>(books.verify().stream())
            .await
            .unwrap_err();
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("MongoDB 8.0"), "{error}");
        // Not taken for a standalone, which has no transactions.
        books.insert(&outlier::book(2, 50)).await.unwrap();
        let fault = FailPoint::on(&["update"]).error_code(61).enable(db).await;
        let error = books.push(2, &"user99".to_owned()).await.unwrap_err();
        fault.disable().await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert_eq!(outlier::stored(db, 2).await.len(), 50);
    })
    .await;
}
