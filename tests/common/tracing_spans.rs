//! Every call is a span that names the operation and contains no user data.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use mongo_patterns_testkit as testkit;
use mongodb::bson::Document;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::common::support::*;

/// Records the spans of this project.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

impl Visit for Recorder {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mongo_patterns")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(format!("span {}", span.metadata().name()));
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn every_call_is_a_span_without_user_data() {
    testkit::run(async |db| {
        type Names = mongo_patterns::bucket::BucketRepository<String, String>;
        let names = Names::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .page_size(1)
            .build()
            .unwrap();
        let recorder = Recorder::default();
        let listening = recorder.listen();
        names.ensure_indexes().await.unwrap();
        for _ in 0..2 {
            names
                .append("secret", &"secret".to_owned())
                .at(at(SECOND))
                .await
                .unwrap();
        }
        names.page("secret", 1).await.unwrap();
        names.pages("secret").await.unwrap();
        names.newest("secret", 1).await.unwrap();
        names.counts("secret").await.unwrap();
        names.count_pages("secret").await.unwrap();
        drop(listening);

        let text = recorder.text();
        let namespace = names.collection().namespace();
        for operation in [
            "ensure_indexes",
            "append",
            "page",
            "pages",
            "newest",
            "counts",
            "count_pages",
        ] {
            let span =
                format!("span mongo_patterns\npattern=\"bucket\"\noperation=\"{operation}\"\nnamespace={namespace}");
            assert!(text.contains(&span), "{operation}: {text}");
        }
        assert!(text.contains("attempts=1") && text.contains("attempts=2"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    })
    .await;
}
