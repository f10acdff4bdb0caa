//! The warning for repositories that are built again and again over one collection.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use mongo_patterns_testkit as testkit;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use support::common::subscribe;
use support::lanes::*;

/// The most repositories of one collection without a warning.
const MANY: usize = 16;

/// Records the warnings of this project.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Takes the fields of the warnings since the last call, of which the message is one.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mongo_patterns") && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0.join(" "));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Each pattern has one repository for its collections, of which the first one counts.
#[tokio::test]
async fn many_repositories_of_one_collection_are_warned_of_once() {
    testkit::run(async |db| {
        let warnings = Warnings::default();
        let _listening = subscribe(warnings.clone());
        let build = || Repositories::new(db.database());
        let mut alive: Vec<Repositories> = (0..MANY).map(|_| build()).collect();
        assert_eq!(warnings.take(), [""; 0]);
        alive.push(build());
        let mut warned = warnings.take();
        warned.sort_unstable();
        let expected = "contacts currentPolicies customers patron product sales trades".split(' ');
        assert_eq!(warned.len(), expected.clone().count(), "{warned:?}");
        for (warned, collection) in warned.iter().zip(expected) {
            let namespace = format!("{}.{collection}", db.database().name());
            assert!(warned.contains(&namespace), "{warned}");
            assert!(warned.contains("Build one, and clone it"), "{warned}");
        }
        alive.extend((0..MANY).map(|_| build()));
        drop(alive);
        let again: Vec<Repositories> = (0..2 * MANY).map(|_| build()).collect();
        assert_eq!(again.len(), 2 * MANY);
        assert_eq!(warnings.take(), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn clones_and_repositories_that_are_dropped_are_no_reason_for_a_warning() {
    testkit::run(async |db| {
        let warnings = Warnings::default();
        let _listening = subscribe(warnings.clone());
        let one = Repositories::new(db.database());
        let clones: Vec<Repositories> = (0..100).map(|_| one.clone()).collect();
        for _ in 0..100 {
            drop(Repositories::new(db.database()));
        }
        assert_eq!((clones.len(), warnings.take()), (100, Vec::new()));
    })
    .await;
}
