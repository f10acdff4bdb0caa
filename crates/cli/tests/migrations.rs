//! Tests of the records of migrations.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::status::{follow, needs, status};
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

/// The command that the status names for each migration that has stopped, with what its record has.
#[tokio::test]
async fn a_stopped_migration_resumes_by_the_command_that_the_status_names() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate", "--where", r#"{"n": {"$gte": 0}}"#]).ok();
        bucket(db, &["--flat", "back", "migrate", "--back"]).ok();
        insert(db, "flat2", (0..30).map(|n| doc! { "cid": n % 3, "date": SECOND + n })).await;
        index(db, "flat2", doc! { "cid": 1 }).await;
        let odd = ["--collection", "odd", "--flat", "flat2", "--flat-key", "cid", "--time-format", "epoch-seconds"];
        bucket(db, &[&odd[..], &["--keep-ids", "migrate"]].concat()).ok();
        let reviews = (1..5).map(|n| doc! { "review_id": n, "date": n }).collect::<Vec<_>>();
        insert(db, "product", [doc! { "_id": 1, "reviews": reviews }]).await;
        ran(on(db).arg("subset").args(REVIEWS).args(["migrate", "--from", "embedded"])).ok();
        insert(db, "customers", [doc! { "_id": 1, "name": "Ann" }]).await;
        insert(db, "orders", (0..4).map(|n| doc! { "_id": n, "customerId": 1 })).await;
        let orders = ["--collection", "orders", "--source-collection", "customers", "--reference", "customer"];
        let from = ["--copy", "name", "migrate", "--from-field", "customer=customerId", "--skip-invalid", "skipped"];
        ran(on(db).arg("reference").args(orders).args(from)).ok();
        ran(on(db).args(["reference", "--collection", "orders", "verify"])).ok();

        let stopped = doc! { "$unset": { "finished": 1 }, "$set": { "active": DateTime::from_millis(0) } };
        update(db, "mongo_patterns", doc! { "_id.kind": "migration" }, stopped).await;
        let found = needs(db, 1);
        let commands = found.iter().map(|need| need["commands"][0].as_str().unwrap());
        assert_eq!(
            commands.collect::<Vec<_>>(),
            [
                "mongo-patterns bucket --collection trades --flat back migrate --back",
                "mongo-patterns bucket --collection odd --flat flat2 --flat-key cid --time-format epoch-seconds --keep-ids migrate",
                "mongo-patterns reference --collection orders --reference customer migrate --from-field customer=customerId --skip-invalid skipped",
                "mongo-patterns subset --collection product --subset reviews migrate --from embedded",
                "mongo-patterns bucket --collection trades --flat flat migrate",
            ]
        );
        assert!(found[4]["text"].as_str().unwrap().ends_with("resume it, with its --where"), "{found:?}");
        found[..4].iter().for_each(|need| follow(db, need));
        assert_eq!(needs(db, 1).len(), 1);
    })
    .await;
}
