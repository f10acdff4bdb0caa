//! What is counted of calls that wait, of joined calls, and of dropped ones.

use std::time::Duration;

use futures::future::{join_all, poll_immediate};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mongo_patterns_testkit as testkit;

use support::lanes::*;
use support::metrics::Seen;

/// Returns by how much the number of waiting calls of a collection, and that of commands of dropped calls, has changed
/// since the last snapshot.
fn changes(seen: &Seen, operation: &Operation) -> (f64, f64) {
    let labels = [("collection", operation.collection)];
    let waiting = seen.gauge("lane_waiting_calls", &labels);
    (waiting, seen.gauge("taken_over_commands", &[]))
}

async fn check(operation: &Operation, joined: u64) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        let recorder = DebuggingRecorder::new();
        let listening = metrics::set_default_local_recorder(&recorder);
        let changes_since = || changes(&Seen::take(&recorder), operation);
        let holder = Holder::hold(db, operation, HELD).await;
        drop_in_flight(db, operation.run(&repositories, HELD, FIRST + 1)).await;
        assert_eq!(changes_since(), (0.0, 1.0));

        let calls = (2..5).map(|number| operation.run(&repositories, HELD, FIRST + number));
        let mut calls = Box::pin(join_all(calls));
        assert!(poll_immediate(calls.as_mut()).await.is_none());
        assert_eq!(changes_since(), (3.0, 0.0));
        let fifth = operation.run(&repositories, HELD, FIRST + 5);
        tokio::time::timeout(Duration::from_millis(50), fifth)
            .await
            .unwrap_err();
        assert_eq!(changes_since(), (0.0, 0.0), "a dropped call does not wait");

        holder.release().await;
        for called in ends("the waiting calls", calls).await {
            called.unwrap();
        }
        drop(listening);
        let seen = Seen::take(&recorder);
        assert_eq!(changes(&seen, operation), (-3.0, -1.0));
        let labels = [("collection", operation.collection)];
        assert_eq!(seen.count("joined_items_total", &labels), joined);
        let durations: Vec<&DebugValue> = seen.values("taken_over_duration_seconds", &[]).collect();
        match durations[..] {
            // It was in flight while the last call waited.
            [DebugValue::Histogram(durations)] => assert!(durations.len() == 1 && durations[0].0 >= 0.05),
            _ => panic!("{durations:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn waiting_joined_and_dropped_calls_are_counted() {
    for (name, joined) in [("append", 3), ("push", 3), ("add_child", 0)] {
        check(operation(name), joined).await;
    }
}
