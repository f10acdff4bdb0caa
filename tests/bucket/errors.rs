//! Errors say what to do, and contain no user values; also those of broken connections, unsatisfied write concerns and repeated
//! conflicts.

use std::error::Error as _;
use std::time::Duration;

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::{Error, ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;
use serde::{Deserialize, Serialize};

use support::bucket::*;
use support::common::*;

/// All text of an error that can be logged.
fn shown(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn an_unreachable_server_is_named_as_such() {
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let uri = format!("mongodb://{}/", closed.local_addr().unwrap());
    drop(closed);
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_millis(50));
    let database = Client::with_options(options).unwrap().database("test");
    let trades = Trades::builder(database.collection::<Document>("trades"));
    let trades = trades.key_field("customerId").items_field("history").build().unwrap();
    let errors = [
        trades.append(&123, &spread(0)).await.unwrap_err(),
        trades.page(&123, 1).await.unwrap_err(),
        trades.buckets(&123).page().await.unwrap_err(),
        trades.newest(&123, 1).await.unwrap_err(),
        trades.counts(&123).await.unwrap_err(),
        trades.count_pages(&123).await.unwrap_err(),
        trades.ensure_indexes().await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_server_selection() && !error.is_outcome_unknown(), "{error:?}");
        assert_eq!(error.namespace().unwrap().to_string(), "test.trades");
        assert!(error.as_driver_error().is_some());
        assert!(error.to_string().contains("no MongoDB server was found"), "{error}");
    }
}

#[tokio::test]
async fn an_error_of_a_corrupt_document_has_its_id_and_field() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let broken = [
            ("_id", "_id", Bson::String("123_x".into())),
            ("_id", "_id", Bson::String("123_1_2".into())),
            ("customerId", "customerId", Bson::Int32(124)),
            ("customerId", "customerId", Bson::String("123".into())),
            ("count", "count", Bson::Int32(9)),
            ("count", "count", Bson::Int32(11)),
            ("count", "count", Bson::String("10".into())),
            ("history", "history", Bson::String("none".into())),
            ("history", "history", Bson::Null),
            ("history", "count", Bson::Array(vec![])),
        ];
        for (changed, field, value) in broken {
            plain(db).delete_many(doc! {}).await.unwrap();
            let mut bucket = full_bucket(SECOND);
            bucket.insert(changed, value.clone());
            plain(db).insert_one(&bucket).await.unwrap();
            let error = trades.page(&123, 1).await.unwrap_err();
            assert!(error.is_corrupt(), "{changed} {value}: {error:?}");
            assert_eq!(error.field(), Some(field), "{changed} {value}");
            assert_eq!(error.document_id(), bucket.get("_id"));
            assert_eq!(error.key(), Some("123"));
        }
        plain(db).delete_many(doc! {}).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_error_of_an_item_of_another_type_has_its_position() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut bucket = full_bucket(SECOND);
        bucket.get_array_mut("history").unwrap()[3] = doc! { "n": "a secret", "date": at(SECOND) }.into();
        plain(db).insert_one(bucket).await.unwrap();
        let errors = [
            trades.page(&123, 1).await.unwrap_err(),
            trades.buckets(&123).page().await.unwrap_err(),
            trades.newest(&123, 10).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Decode, "{error:?}");
            assert_eq!(error.field(), Some("history.3.n"));
            assert!(!shown(&error).contains("secret"), "{}", shown(&error));
            let driver = error.as_driver_error().unwrap().to_string();
            assert!(driver.contains("secret"), "the driver's error has the reason: {driver}");
        }
    })
    .await;
}

#[derive(Serialize, Deserialize)]
struct Unwritable {
    number: u64,
}

#[tokio::test]
async fn no_error_shows_a_key_or_an_item() {
    testkit::run(async |db| {
        let names = BucketRepository::<String, Document>::builder(db.collection::<Document>("trades"))
            .key_field("customer")
            .items_field("history")
            .time_field("date")
            .retry(mongo_patterns::RetryPolicy::default().with_max_attempts(3))
            .build()
            .unwrap();
        let key = "secret@example.com";
        let item = doc! { "date": at(SECOND), "note": "secret" };
        let mut errors = vec![names.append(key, &item).await.unwrap_err()];
        names.ensure_indexes().await.unwrap();
        errors.push(names.append(key, &doc! { "date": "secret" }).await.unwrap_err());
        errors.push(names.append(&key.repeat(100), &item).await.unwrap_err());

        // a bucket of the key with an `_id` of another key
        let foreign = doc! { "_id": "secret", "customer": key, "count": 1, "history": [&item] };
        plain(db).insert_one(foreign).await.unwrap();
        errors.push(names.append(key, &item).await.unwrap_err());
        plain(db).delete_many(doc! {}).await.unwrap();

        // the server's message of a duplicate key contains it
        let duplicates =
            (0..2).map(|n| doc! { "_id": format!("{key}_{n}"), "customer": key, "count": 1, "history": [] });
        plain(db).drop_index("customer_1_count_lt_10").await.unwrap();
        plain(db).insert_many(duplicates).await.unwrap();
        let error = names.ensure_indexes().await.unwrap_err();
        assert!(error.as_driver_error().unwrap().to_string().contains("secret"));
        errors.push(error);
        errors.push(names.page(key, 1).await.unwrap_err());

        let numbers = BucketRepository::<String, Unwritable>::builder(db.collection::<Document>("numbers"))
            .key_field("customer")
            .items_field("history")
            .build()
            .unwrap();
        let number = 18_446_744_073_709_551_557;
        let error = numbers.append(key, &Unwritable { number }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encode);
        assert!(!shown(&error).contains("18446744073709551557"));
        errors.push(error);

        for error in errors {
            assert!(!shown(&error).contains("secret"), "{}", shown(&error));
            assert_eq!(error.pattern(), Some("bucket"));
        }
    })
    .await;
}

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

        // Broken once, the driver sends it again: also after a step-down.
        let once = || FailPoint::on(&["update"]).times(1);
        let stepdown = once().error_code(10107).error_labels(&["RetryableWriteError"]);
        for (n, fault) in (2..).zip([once().close_connection(), stepdown]) {
            let fault = fault.enable(db).await;
            trades.append(&123, &spread(n)).await.unwrap();
            fault.disable().await;
        }
        let page = trades.page(&123, 1).await.unwrap().unwrap();
        assert_eq!(numbers(&page.items), [0, 1, 2, 3]);
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
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).retry(by_count)).await;
            let hurried = builder(db).retry(by_time).build().unwrap();
            let fault = always_a_collision_on(field).enable(db).await;
            let error = trades.append(&123, &spread(0)).await.unwrap_err();
            let hurried = hurried.append(&123, &spread(0)).await.unwrap_err();
            fault.disable().await;
            for error in [&error, &hurried] {
                assert!(error.is_contention() && error.is_transient(), "{error:?}");
                assert!(!error.is_outcome_unknown(), "{error:?}");
                assert!(error.as_driver_error().is_some());
            }
            assert_eq!(error.attempts(), Some(7));
            assert!(error.to_string().contains("tried 7 times"), "{error}");
            assert!(hurried.elapsed().unwrap() <= Duration::from_secs(10));
            assert_eq!(trades.counts(&123).await.unwrap().items, 0);
        }
    })
    .await;
}
