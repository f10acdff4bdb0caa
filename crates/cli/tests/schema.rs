//! Tests of documents of several versions.

use mongo_patterns_core::Repository;
use mongo_patterns_schema::SchemaRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::status::status;
use crate::support::*;

#[tokio::test]
async fn the_documents_of_each_version_are_counted() {
    testkit::run(async |db: &TestDatabase| {
        let stored = db.collection::<Document>("contacts");
        insert(db, "contacts", [doc! { "v": 2 }, doc! {}, doc! { "v": 1 }]).await;
        let contacts = SchemaRepository::<Document>::builder(stored.clone()).version_field("v");
        contacts.build().unwrap().ensure_indexes().await.unwrap();
        stored.insert_one(doc! { "v": "draft" }).await.unwrap();
        let row = || status(db, &["--json"]).lines("managed").remove(0);
        let counted = |version: i32, documents: i32| json!({ "version": version, "documents": documents });
        assert_eq!(row()["versions"], json!([counted(0, 1), counted(1, 2), counted(2, 1)]));
        status(db, &[]).shows(["no version: 1, version 1: 2, version 2: 1"]);
        // The catalog has the field.
        let verify = ["schema", "verify", "contacts", "--from", "2", "--json"];
        ran(on(db).args(verify)).ends(1, json!({ "findings": 3 }));
        refused(&ran(on(db).args(verify).args(["--version-field", "w"])), "`version`");
        // Without its index, the server would read all documents.
        stored.drop_index("v_1__id_1").await.unwrap();
        assert_eq!(row()["versions"], json!([]));
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
