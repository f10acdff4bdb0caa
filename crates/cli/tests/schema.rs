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
        assert_eq!(listed.json()[0]["name"], "a");
        assert!(listed.json()[0]["applied"].as_str().unwrap().contains('T'));
        assert_eq!(listed.summary()["applied"], 1);
        assert!(listed.summary()["running_since"].is_null());
        assert_eq!(status("default").summary()["applied"], 0);

        let (name, uri) = (db.database().name().to_owned(), db.server().uri().to_owned());
        let running = Migrations::new(db.database()).step("b", async move |_| {
            let status = ["--db", &name, "schema", "status", "--json"];
            let shown = ran(program().env("MONGODB_URI", uri).args(status));
            assert!(shown.summary()["running_since"].is_string());
            Ok(())
        });
        running.run().await.unwrap();
        let text = ran(on(db).args(["schema", "status"]));
        assert!(text.out.contains("b: applied at 20"), "{text:?}");
    })
    .await;
}

#[tokio::test]
async fn the_documents_of_each_version_are_counted() {
    testkit::run(async |db: &TestDatabase| {
        let stored = db.collection::<Document>("contacts");
        stored
            .insert_many([doc! { "v": 2 }, doc! {}, doc! { "v": 1 }, doc! { "v": "draft" }])
            .await
            .unwrap();
        let versions = || ran(on(db).args(["schema", "versions", "contacts", "--version-field", "v", "--json"]));
        refused(&versions(), "index");
        stored.delete_one(doc! { "v": "draft" }).await.unwrap();
        let contacts = SchemaRepository::<Document>::builder(stored.clone()).version_field("v");
        contacts.build().unwrap().ensure_indexes().await.unwrap();
        stored.insert_one(doc! { "v": "draft" }).await.unwrap();
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
