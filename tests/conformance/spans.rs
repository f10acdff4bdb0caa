//! Every call is a span that names the operation and contains no user data.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::Document;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use support::common::*;

/// Records the spans of this project.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn listen(&self) -> DefaultGuard {
        subscribe(tracing_subscriber::registry().with(self.clone()))
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

impl<S: Subscriber> Layer<S> for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("mongo_patterns")
    }

    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.0.lock().unwrap().push(format!("span {}", span.metadata().name()));
        span.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
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
        names.page("secret", 0).await.unwrap_err();
        let fault = FailPoint::on(&["find"]).error_code(96).enable(db).await;
        names.newest("secret", 1).await.unwrap_err();
        fault.disable().await;
        names.buckets("secret").page().await.unwrap();
        names.newest("secret", 1).await.unwrap();
        names.counts("secret").await.unwrap();
        names.count_pages("secret").await.unwrap();
        drop(listening);

        let text = recorder.text();
        let database = db.database().name();
        for operation in [
            "ensure_indexes",
            "append",
            "page",
            "buckets",
            "newest",
            "counts",
            "count_pages",
        ] {
            let fields = [
                "span mongo_patterns".to_owned(),
                format!("otel.name={operation} trades"),
                "otel.kind=\"client\"".to_owned(),
                "db.system.name=\"mongodb\"".to_owned(),
                format!("db.namespace={database:?}"),
                "db.collection.name=\"trades\"".to_owned(),
                format!("db.operation.name={operation:?}"),
                "mongo_patterns.pattern=\"bucket\"".to_owned(),
            ];
            assert!(text.contains(&fields.join("\n")), "{operation}: {text}");
        }
        for field in [
            "mongo_patterns.attempts=1",
            "mongo_patterns.attempts=2",
            "otel.status_code=\"ERROR\"\nerror.type=\"invalid-argument\"",
            "error.type=\"driver\"\ndb.response.status_code=96",
        ] {
            assert!(text.contains(field), "{field}: {text}");
        }
        assert!(!text.contains("secret"), "{text}");
    })
    .await;
}
