//! Tests of the records of migrations.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::status::status;
use crate::support::*;

fn migrations(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("migrations").args(arguments))
}

/// Returns the listed migration into a collection.
fn listed(db: &TestDatabase, collection: &str) -> Option<Value> {
    let mut lines = status(db, &["--json"]).lines("migration").into_iter();
    lines.find(|line| line["collection"] == collection)
}

#[tokio::test]
async fn records_are_listed_and_deleted_after_a_confirmation() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        for collection in ["trades", "others"] {
            bucket(db, &["--collection", collection, "migrate"]).ok();
        }
        let record = listed(db, "trades").unwrap();
        let state = [&record["migrated"], &record["state"], &record["settings"]["source"]];
        assert_eq!(state, [&json!(30), &json!("finished"), &json!("flat")], "{record}");
        assert!(record["finished"].is_string(), "{record}");
        bucket(db, &["--flat", "back", "migrate", "--back"]).ok();
        status(db, &[]).shows(["back: bucket migration from trades: finished at"]);

        let unknown = migrations(db, &["forget", "nosuch", "--yes"]);
        assert_eq!(unknown.code, Some(2), "{unknown:?}");
        migrations(db, &["forget", "trades"]).says(2, "--yes");
        assert!(listed(db, "trades").is_some());
        let before = (all(db, "trades").await, all(db, "flat").await);
        migrations(db, &["forget", "trades", "--yes", "--json"]).ends(0, json!({ "deleted": 1 }));
        assert!(listed(db, "trades").is_none() && listed(db, "others").is_some());
        assert_eq!((all(db, "trades").await, all(db, "flat").await), before);
        let again = bucket(db, &["migrate"]);
        assert_eq!(again.code, Some(1), "{again:?}");
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_record_of_a_running_migration_is_not_deleted() {
    testkit::run(async |db| {
        let mut child = paused_migration(db).await;
        let records = db.plain_collection::<Document>("mongo_patterns");
        let of = doc! { "_id": { "kind": "migration", "collection": "trades" } };
        // Otherwise the result would depend on the time that the test takes.
        let at = |millis: i64| doc! { "$set": { "active": DateTime::from_millis(millis) } };
        let future = DateTime::now().timestamp_millis() + 3_600_000;
        records.update_one(of.clone(), at(future)).await.unwrap();
        let record = listed(db, "trades").unwrap();
        assert_eq!(
            [&record["state"], &record["finished"]],
            [&json!("running"), &Value::Null],
            "{record}"
        );
        migrations(db, &["forget", "trades", "--yes"]).says(3, "stop it first");

        assert_eq!(interrupt(&mut child), Some(130));
        records.update_one(of, at(0)).await.unwrap();
        assert_eq!(listed(db, "trades").unwrap()["state"], "stopped");
        migrations(db, &["forget", "trades", "--yes"]).ok();
        assert!(listed(db, "trades").is_none());
    })
    .await;
}
