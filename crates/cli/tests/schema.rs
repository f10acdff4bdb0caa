//! Tests of documents of several versions.

use mongo_patterns_core::Repository;
use mongo_patterns_schema::SchemaRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

#[tokio::test]
async fn the_documents_of_each_version_are_counted() {
    testkit::run(async |db: &TestDatabase| {
        let stored = db.collection::<Document>("contacts");
        let contacts = [doc! { "v": 2 }, doc! {}, doc! { "v": 1 }, doc! { "v": "draft" }];
        insert(db, "contacts", contacts).await;
        let versions = || ran(on(db).args(["schema", "versions", "contacts", "--version-field", "v", "--json"]));
        refused(&versions(), "contacts has no schema versions");
        stored.delete_one(doc! { "v": "draft" }).await.unwrap();
        let contacts = SchemaRepository::<Document>::builder(stored.clone()).version_field("v");
        contacts.build().unwrap().ensure_indexes().await.unwrap();
        stored.insert_one(doc! { "v": "draft" }).await.unwrap();
        // The catalog has the field.
        ran(on(db).args(["schema", "versions", "contacts"]))
            .ok()
            .shows(["version 2"]);
        let wrong = ran(on(db).args(["schema", "verify", "contacts", "--version-field", "w"]));
        refused(&wrong, "`version`");
        let counted = versions();
        let rows: Vec<_> = counted
            .json()
            .iter()
            .map(|row| (row["version"].as_u64(), row["documents"].as_u64()))
            .collect();
        assert_eq!(rows[..3], [(Some(1), Some(2)), (Some(2), Some(1)), (None, Some(1))]);
        assert_eq!(counted.summary()["documents"], 4);
    })
    .await;
}

#[tokio::test]
async fn documents_are_converted_by_steps_on_the_server() {
    testkit::run(async |db: &TestDatabase| {
        let stored = db.collection::<Document>("contacts");
        insert(db, "contacts", (0..5).map(|n| doc! { "_id": n, "title": "Ann" })).await;
        let steps = [
            "--step",
            r#"[{"$set": {"name": "$title"}}, {"$unset": "title"}]"#,
            "--step",
            r#"[{"$set": {"length": {"$strLenBytes": "$name"}}}]"#,
        ];
        let schema = |verb: &str, options: &[&str]| {
            let arguments = ["schema", verb, "contacts", "--json"];
            ran(on(db).args(arguments).args(steps).args(options))
        };
        refused(&schema("migrate", &[]), "indexes --create");
        schema("indexes", &["--create"]);
        schema("migrate", &["--dry-run"]).ends(0, json!({ "documents": 5 }));
        schema("plan", &[]).shows(["$strLenBytes"]);
        assert_eq!(stored.count_documents(doc! { "title": "Ann" }).await.unwrap(), 5);
        let migrated = schema("migrate", &["--chunk", "2", "--rate", "1000"]);
        assert_eq!(migrated.summary()["documents"], 5, "{migrated:?}");
        let converted = doc! { "name": "Ann", "length": 3, "schemaVersion": 3, "title": { "$exists": false } };
        assert_eq!(stored.count_documents(converted).await.unwrap(), 5);
        schema("verify", &[]).ok();
        stored.insert_one(doc! { "schemaVersion": 4 }).await.unwrap();
        schema("verify", &[]).begins(1, json!({ "problem": "NewerVersion" }));
        // Errors do not quote the steps.
        for wrong in [
            r#"{"$set": {"s3cret": 1}}"#,
            r#"["s3cret"]"#,
            "s3cret",
            r#"[{"$match": {"s3cret": 1}}]"#,
        ] {
            let wrong = ran(on(db).args(["schema", "plan", "contacts", "--step", wrong]));
            assert!(wrong.code != Some(0) && !wrong.err.contains("s3cret"), "{wrong:?}");
        }
        let missing = ran(on(db).args(["schema", "verify", "nothing"]));
        refused(&missing, "there is no collection");
    })
    .await;
}
