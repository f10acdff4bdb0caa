//! Settings, servers and records that a run refuses, with nothing run.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit};
use mongodb::bson::{Bson, Document, doc};

use support::schema::steps::*;

#[tokio::test]
async fn wrong_settings_send_nothing() {
    testkit::run(async |db| {
        db.recorder().clear();
        let of = |names: &[&'static str]| list(db.database(), names);
        for (migrations, step) in [(of(&["a", ""]), None), (of(&["a", "b", "a"]), Some("a"))] {
            let status = migrations.status().await.unwrap_err();
            assert_eq!((status.kind(), status.step()), (ErrorKind::Configuration, step));
            assert_error(&migrations.run().await.unwrap_err(), ErrorKind::Configuration, step);
        }
        assert_eq!(db.recorder().round_trips(), 0);
        let times = [0, 99, 86_401_000].map(Duration::from_millis);
        for time in times.into_iter().chain([Duration::MAX]) {
            let error = of(&["a"]).time_to_live(time).run().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        }
        assert!(traces(db).await.is_empty() && record(db).await.is_none());
        // The debug text has the names alone.
        let text = format!("{:?}", of(&["a"]));
        assert_eq!(text, r#"Migrations { list: "default", steps: ["a"], .. }"#);
    })
    .await;
}

#[tokio::test]
async fn a_damaged_record_is_named() {
    testkit::run(async |db| {
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let id = doc! { "kind": "steps", "name": "default" };
        let damaged: [Bson; 4] = [
            Bson::Null,
            "a".into(),
            vec![Bson::from("a")].into(),
            vec![doc! { "name": 1, "applied": 2 }].into(),
        ];
        for steps in damaged {
            let record = doc! { "_id": &id, "fence": 1_i64, "steps": steps };
            let replace = catalog.replace_one(doc! { "_id": &id }, record);
            replace.upsert(true).await.unwrap();
            let error = list(db.database(), &["a"]).run().await.unwrap_err();
            assert_error(&error, ErrorKind::Corrupt, None);
            assert_eq!(error.document_id(), Some(&id.clone().into()));
            assert_eq!(error.field(), Some("steps"));
        }
        assert!(traces(db).await.is_empty());
    })
    .await;
}
