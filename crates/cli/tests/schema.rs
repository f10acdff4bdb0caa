//! Tests of documents of several versions, and of the migrations that a service runs at its start.

use mongo_patterns_core::Repository;
use mongo_patterns_schema::{Migrations, SchemaRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

#[tokio::test]
async fn the_status_lists_applied_steps_and_a_running_instance() {
    testkit::run(async |db: &TestDatabase| {
        let status = |list: &str| ran(on(db).args(["schema", "status", "--json", "--list", list]));
        assert_eq!(status("default").summary()["applied"], 0);

        let billing = Migrations::new(db.database())
            .list("billing")
            .step("a", async |_| Ok(()));
        billing.run().await.unwrap();
        let listed = status("billing");
        listed.begins(0, json!({ "name": "a" }));
        assert!(listed.json()[0]["applied"].as_str().unwrap().contains('T'));
        listed.ends(0, json!({ "applied": 1, "running_since": null }));
        assert_eq!(status("default").summary()["applied"], 0);

        let (name, uri) = (db.database().name().to_owned(), db.server().uri().to_owned());
        let running = Migrations::new(db.database()).step("b", async move |_| {
            let status = ["--db", &name, "schema", "status", "--json"];
            let shown = ran(program().env("MONGODB_URI", uri).args(status));
            assert!(shown.summary()["running_since"].is_string());
            Ok(())
        });
        running.run().await.unwrap();
        ran(on(db).args(["schema", "status"])).shows(["b: applied at 20"]);
    })
    .await;
}

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
