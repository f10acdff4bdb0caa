//! What the calls count, and that labels contain no user data.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::try_join_all;
use mongo_patterns::Repository;
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document};

use ::metrics::set_default_local_recorder as listen;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use support::bucket::migration as bucket_migration;
use support::common::{SECOND, Trade, at, same_second, spread, trades};
use support::history;
use support::history::follow::push_plainly;
use support::metrics::Seen;
use support::outlier;
use support::outlier::damage::{main_of, plant};
use support::reference;
use support::subset;
use support::subset::follower;

#[tokio::test]
async fn every_call_is_one_operation_and_labels_have_no_user_values() {
    testkit::run(async |db| {
        type Names = mongo_patterns::bucket::BucketRepository<String, String>;
        let names = Names::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .page_size(1)
            .build()
            .unwrap();
        names.ensure_indexes().await.unwrap();
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        for _ in 0..2 {
            let secret = "secret".to_owned();
            names.append("secret", &secret).at(at(SECOND)).await.unwrap();
        }
        names.page("secret", 1).await.unwrap();
        names.page("secret", 0).await.unwrap_err();
        drop(listening);

        let seen = Seen::take(&recorder);
        let appends = [("pattern", "bucket"), ("operation", "append"), ("collection", "trades")];
        assert_eq!(
            seen.count("operations_total", &[&appends[..], &[("outcome", "ok")]].concat()),
            2
        );
        assert_eq!(seen.durations("append"), 2);
        // The second bucket of the same second needs another `_id`.
        for (name, number) in [("attempts_total", 3), ("retries_total", 1), ("conflicts_total", 1)] {
            assert_eq!(seen.count(name, &appends), number, "{name}");
        }
        let refused = [("operation", "page"), ("outcome", "invalid-argument")];
        assert_eq!(seen.count("operations_total", &refused), 1);
        assert_eq!(seen.count("operations_total", &[]), 4);
        let text = format!("{:?}", seen.0);
        assert!(!text.contains("secret"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_retry_in_the_task_of_joined_calls_is_counted() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        let items: Vec<Trade> = (0..11).map(same_second).collect();
        try_join_all(items.iter().map(|item| trades.append(&1, item).into_future()))
            .await
            .unwrap();
        drop(listening);
        let seen = Seen::take(&recorder);
        let appends = [("operation", "append"), ("collection", "trades")];
        assert_eq!(seen.count("operations_total", &appends), 11);
        assert_eq!(seen.count("joined_items_total", &[("collection", "trades")]), 10);
        // The first item, the nine that fill its bucket, and the last one: its bucket needs another `_id`.
        assert_eq!(seen.count("retries_total", &appends), 1);
        assert_eq!(seen.count("attempts_total", &appends), 12);
    })
    .await;
}

/// Checks that one call has succeeded in its third attempt.
fn assert_third_attempt(seen: &Seen, labels: &[(&str, &str)]) {
    let expected = [
        ("operations_total", 1),
        ("conflicts_total", 2),
        ("retries_total", 2),
        ("attempts_total", 3),
    ];
    for (name, number) in expected {
        assert_eq!(seen.count(name, labels), number, "{name}");
    }
}

#[tokio::test]
async fn conflicts_of_a_transaction_and_its_attempts_are_counted() {
    testkit::run(async |db| {
        let products = subset::products(db).await;
        let recorder = DebuggingRecorder::new();
        let fault = FailPoint::on(&["update"]).times(2).error_code(112).enable(db).await;
        let listening = listen(&recorder);
        products.insert(&subset::review(1)).await.unwrap();
        drop(listening);
        fault.disable().await;
        let seen = Seen::take(&recorder);
        let insert = [("pattern", "subset"), ("operation", "insert")];
        assert_third_attempt(&seen, &insert);
        assert_eq!(seen.count("refreshes_total", &[("result", "written")]), 1);
    })
    .await;
}

#[tokio::test]
async fn calls_of_the_reference_pattern_and_a_repeated_sweep_are_counted() {
    testkit::run(async |db| {
        let orders = reference::with_customers(db).await;
        let fault = FailPoint::on(&["update"]).times(1).error_code(91).enable(db).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        orders.insert(&reference::order(7, 1)).await.unwrap();
        orders.update_source(1, reference::rename("Bea")).await.unwrap();
        orders.set_reference(7, 3).await.unwrap_err();
        orders.delete_source(1).await.unwrap_err();
        drop(listening);
        fault.disable().await;
        let seen = Seen::take(&recorder);
        for (operation, outcome) in [
            ("insert", "ok"),
            ("update_source", "ok"),
            ("set_reference", "not-found"),
            ("delete_source", "referenced"),
        ] {
            let labels = [
                ("pattern", "reference"),
                ("collection", "orders"),
                ("operation", operation),
                ("outcome", outcome),
            ];
            assert_eq!(seen.count("operations_total", &labels), 1, "{operation}");
            assert_eq!(seen.durations(operation), 1, "{operation}");
        }
        let update = [("pattern", "reference"), ("operation", "update_source")];
        assert_eq!(seen.count("retries_total", &update), 1);
        assert_eq!(seen.count("operations_total", &[]), 4);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_future_is_a_cancelled_operation() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let block = Duration::from_secs(3);
        let blocked = FailPoint::on(&["update"]).times(1).block(block).enable(db).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        drop(trades.append(&1, &spread(0)).into_future());
        assert_eq!(Seen::take(&recorder).0.len(), 0, "it was not polled");
        tokio::select! {
            appended = trades.append(&1, &spread(0)) => panic!("{appended:?}"),
            met = blocked.met(db, Duration::from_secs(60)) => assert!(met),
        }
        drop(listening);
        blocked.disable().await;
        let seen = Seen::take(&recorder);
        assert_eq!(seen.count("operations_total", &[("outcome", "cancelled")]), 1);
        assert_eq!(seen.count("operations_total", &[]), 1);
        assert_eq!(seen.durations("append"), 1);
    })
    .await;
}

#[tokio::test]
async fn elements_in_overflow_documents_are_counted() {
    testkit::run(async |db| {
        let books = outlier::books(db).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        books.insert(&outlier::book(1, 49)).await.unwrap();
        for user in ["a", "b", "c"] {
            books.push(1, user).await.unwrap();
        }
        books.insert(&outlier::book(2, 560)).await.unwrap();
        drop(listening);
        let seen = Seen::take(&recorder);
        for (operation, elements, documents) in [("push", 2, 1), ("insert", 510, 2)] {
            let labels = [("pattern", "outlier"), ("operation", operation)];
            assert_eq!(seen.count("spilled_elements_total", &labels), elements, "{operation}");
            assert_eq!(
                seen.count("overflow_documents_total", &labels),
                documents,
                "{operation}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn refreshes_and_changes_of_a_follower_are_counted() {
    testkit::run(async |db| {
        let products = follower::behind(db, 3, 100).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        products.follow(follower::NAME).run_until_current().await.unwrap();
        products.insert(&subset::review(1_000_000)).await.unwrap();
        products.refresh(2).await.unwrap();
        drop(listening);
        let seen = Seen::take(&recorder);
        let written = |operation| seen.count("refreshes_total", &[("operation", operation), ("result", "written")]);
        assert_eq!([written("follow"), written("refresh")], [3, 1]);
        assert_eq!(seen.count("refreshes_total", &[("operation", "insert")]), 1);
        let of_follower = [("operation", "follow"), ("follower", follower::NAME)];
        assert_eq!(seen.count("follower_changes_total", &of_follower), 100);
        let lag: Vec<&DebugValue> = seen.values("follower_lag_seconds", &of_follower).collect();
        let [DebugValue::Gauge(lag)] = lag[..] else {
            panic!("{lag:?}")
        };
        // The clocks of the server and the client are the same here.
        assert!((0.0..3600.0).contains(&lag.0), "{lag}");
    })
    .await;
}

#[tokio::test]
async fn calls_and_changes_of_a_history_are_counted() {
    testkit::run(async |db| {
        let policies = history::policies(db).await;
        let recorder = DebuggingRecorder::new();
        let fault = FailPoint::on(&["insert"]).times(2).error_code(112).enable(db).await;
        let listening = listen(&recorder);
        policies.insert(&history::policy(1)).await.unwrap();
        drop(listening);
        fault.disable().await;
        let seen = Seen::take(&recorder);
        let insert = [
            ("pattern", "history"),
            ("operation", "insert"),
            ("collection", "currentPolicies"),
        ];
        assert_third_attempt(&seen, &insert);
        assert_eq!(seen.durations("insert"), 1);

        let listening = listen(&recorder);
        let stale = policies.update(1, history::push("secret")).expecting(7);
        stale.await.unwrap_err();
        drop(policies.follow("f").enable_pre_images().run_until_current().await);
        drop(listening);
        let seen = Seen::take(&recorder);
        let refused = [("operation", "update"), ("outcome", "revision-mismatch")];
        assert_eq!(seen.count("operations_total", &refused), 1);
        assert!(!format!("{:?}", seen.0).contains("secret"));
        for n in 0..5 {
            push_plainly(db, 1, &n.to_string()).await;
        }
        let listening = listen(&recorder);
        policies.follow("f").run_until_current().await.unwrap();
        drop(listening);
        let seen = Seen::take(&recorder);
        let of_follower = [("pattern", "history"), ("operation", "follow"), ("follower", "f")];
        // The follower reads its own writes too.
        assert!(seen.count("follower_changes_total", &of_follower) >= 5);
        assert_eq!(seen.values("follower_lag_seconds", &of_follower).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn migrated_documents_are_counted_but_planned_ones_are_not() {
    testkit::run(async |db| {
        let books: outlier::Books = outlier::builder(db).build().unwrap();
        let main = (0..).zip([1, 51, 700]).map(|(id, number)| main_of(id, 0..number));
        plant(db, main.collect(), vec![]).await;
        let recorder = DebuggingRecorder::new();
        let listening = listen(&recorder);
        books.migrate_existing().plan().await.unwrap();
        assert_eq!(Seen::take(&recorder).count("migrated_documents_total", &[]), 0);
        books.migrate_existing().await.unwrap();
        let seen = Seen::take(&recorder);
        let lists = [("pattern", "outlier"), ("operation", "migrate_existing")];
        assert_eq!(seen.count("migrated_documents_total", &lists), 2);

        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        bucket_migration::fill(db, &bucket_migration::documents(&keys, 25)).await;
        let trades = bucket_migration::histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        trades.migrate_from_flat(&source).plan().await.unwrap();
        assert_eq!(Seen::take(&recorder).count("migrated_documents_total", &[]), 0);
        trades.migrate_from_flat(&source).await.unwrap();
        drop(listening);
        let seen = Seen::take(&recorder);
        let items = [("pattern", "bucket"), ("operation", "migrate_from_flat")];
        assert_eq!(seen.count("migrated_documents_total", &items), 100);
    })
    .await;
}
