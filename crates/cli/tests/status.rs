//! Tests of the overview of a database.

use mongo_patterns_schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::router::Router;
use crate::support::*;

pub fn status(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("status").args(arguments))
}

/// Returns the problems.
pub fn needs(db: &TestDatabase, code: i32) -> Vec<Value> {
    let status = status(db, &["--json"]);
    assert_eq!(status.code, Some(code), "{status:?}");
    status.lines("attention")
}

/// Runs the commands that the status names for a problem.
pub fn follow(db: &TestDatabase, need: &Value) {
    for command in need["commands"].as_array().unwrap() {
        let arguments = command.as_str().unwrap().strip_prefix("mongo-patterns ").unwrap();
        ran(on(db).args(arguments.split(' '))).ok();
    }
}

/// Returns the texts of the problems.
pub fn texts(needs: &[Value]) -> Vec<&str> {
    needs.iter().map(|need| need["text"].as_str().unwrap()).collect()
}

/// Returns the row of a managed collection.
fn managed(db: &TestDatabase, collection: &str) -> Value {
    let mut rows = status(db, &["--json"]).lines("managed").into_iter();
    rows.rfind(|row| row["collection"] == collection).unwrap()
}

/// Returns whether the last verification has read all findings.
fn all_findings(db: &TestDatabase) -> bool {
    managed(db, "trades")["verified"]["at_least"] == false
}

#[tokio::test]
async fn a_database_without_collections_is_refused() {
    testkit::run(async |db| status(db, &[]).says(2, "there is no database")).await;
}

#[tokio::test]
async fn each_collection_is_shown_with_what_it_needs() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        let shown = status(db, &[]).ok();
        shown.fits_80_columns();
        shown.shows([
            "trades",
            "bucket 10",
            "migration finished",
            "verify never",
            "not managed: flat",
        ]);
        let json = status(db, &["--json"]).ok();
        let managed = json.lines("managed").remove(0);
        let documents = db
            .plain_collection::<Document>("trades")
            .count_documents(doc! {})
            .await
            .unwrap();
        assert_eq!(
            [
                &managed["pattern"],
                &managed["collection"],
                &managed["collections"][0]["documents"]
            ],
            [&json!("bucket"), &json!("trades"), &json!(documents)]
        );
        assert_eq!(managed["settings"]["key"], "customerId");
        assert!(
            managed["collections"][0]["largest_bytes"].as_u64().unwrap() > 100,
            "{managed}"
        );
        json.ends(0, json!({ "managed": 1, "unmanaged": 1, "need_attention": 0 }));

        // A dropped index.
        let trades = db.plain_collection::<Document>("trades");
        let names = trades.list_index_names().await.unwrap();
        let dropped: Vec<&String> = names.iter().filter(|name| *name != "_id_").collect();
        for name in &dropped {
            trades.drop_index(name.as_str()).await.unwrap();
        }
        let found = needs(db, 1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            dropped
                .iter()
                .all(|name| found[0]["text"].as_str().unwrap().contains(name.as_str())),
            "{found:?}"
        );
        let shown = status(db, &[]);
        shown.fits_80_columns();
        shown.shows(["1 MISSING", "what needs attention", "indexes --create"]);
        follow(db, &found[0]);
        assert_eq!(needs(db, 0), Vec::<Value>::new());

        // An entry of an earlier version.
        let records = db.plain_collection::<Document>("mongo_patterns");
        let of_trades = doc! { "_id.kind": "bucket" };
        records
            .update_one(of_trades, doc! { "$unset": { "indexes": 1 } })
            .await
            .unwrap();
        let found = needs(db, 1);
        assert_eq!(
            found[0]["text"], "the entry in the catalog is not complete",
            "{found:?}"
        );
        follow(db, &found[0]);
        assert_eq!(needs(db, 0), Vec::<Value>::new());

        // A stopped migration.
        let of = doc! { "_id": { "kind": "migration", "collection": "trades" } };
        let stopped = doc! { "$unset": { "finished": 1 }, "$set": { "active": DateTime::from_millis(0) } };
        records.update_one(of, stopped).await.unwrap();
        let found = needs(db, 1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]["text"]
                .as_str()
                .unwrap()
                .contains("from flat is unfinished, after 30 items"),
            "{found:?}"
        );
        // The last verification says nothing about a migration that has not ended.
        let findings = doc! { "$set": { "verified": { "findings": 3_i64, "at": DateTime::now() } } };
        update(db, "mongo_patterns", doc! { "_id.kind": "bucket" }, findings).await;
        let unfinished = needs(db, 1);
        assert_eq!(texts(&unfinished), texts(&found));
        follow(db, &found[0]);
        let found = needs(db, 1);
        assert_eq!(found[0]["text"], "the last verify has 3 findings", "{found:?}");
        follow(db, &found[0]);
        assert_eq!(needs(db, 0), Vec::<Value>::new());

        // A follower that stopped, and two patterns that own the same.
        let stopped = doc! {
            "_id": { "kind": "follower", "name": "copies" }, "watched": ["trades"], "updated": DateTime::from_millis(0),
        };
        let other = doc! {
            "_id": { "kind": "outlier", "collection": "trades", "field": "history" }, "settings": {}, "indexes": [],
            "owns": [{ "collection": "trades", "field": "history" }],
        };
        records.insert_many([stopped, other]).await.unwrap();
        let found = needs(db, 1);
        assert_eq!(
            texts(&found),
            [
                "the patterns bucket and outlier both own `trades`",
                "the follower copies has stored no position since 1970-01-01T00:00:00Z"
            ]
        );
        records
            .delete_many(doc! { "_id.kind": { "$in": ["follower", "outlier"] } })
            .await
            .unwrap();

        // A dropped collection.
        trades.drop().await.unwrap();
        let found = needs(db, 1);
        assert!(
            found[0]["text"].as_str().unwrap().contains("does not exist"),
            "{found:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn leases_and_second_collections_are_shown() {
    testkit::run(async |db| {
        let now = DateTime::now();
        let later = DateTime::from_millis(now.timestamp_millis() + 3_600_000);
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        catalog
            .insert_many([
                doc! { "_id": { "kind": "lease", "name": "nightly" }, "since": now, "until": later },
                doc! { "_id": { "kind": "lease", "name": "old" }, "since": now, "until": now },
                doc! { "_id": { "kind": "steps", "name": "default" }, "steps": [{ "name": "email index", "applied": now }] },
            ])
            .await
            .unwrap();
        let product = doc! { "_id": 1, "reviews": [], "reviews_version": 0 };
        db.plain_collection::<Document>("product").insert_one(product).await.unwrap();
        let set_up = ["indexes", "--create"];
        ran(on(db).arg("subset").args(REVIEWS).args(set_up)).ok();
        let shown = status(db, &[]).ok();
        shown.fits_80_columns();
        shown.shows(["lease nightly: held by", "lease old: free", "steps default: 1 applied, the last one, email index"]);
        let managed = status(db, &["--json"]).lines("managed").remove(0);
        let related = &managed["collections"][1];
        assert!(related["namespace"].as_str().unwrap().ends_with(".review"), "{managed}");
        assert_eq!(related["missing_indexes"], json!([]));
    })
    .await;
}

/// The steps of a service, while an instance runs one.
#[tokio::test]
async fn applied_steps_and_a_running_instance_are_shown() {
    testkit::run(async |db: &TestDatabase| {
        let billing = Migrations::new(db.database())
            .list("billing")
            .step("a", async |_| Ok(()));
        billing.run().await.unwrap();
        let steps = status(db, &["--json"]).lines("steps");
        assert_eq!([&steps[0]["list"], &steps[0]["applied"][0]["name"]], ["billing", "a"]);
        assert!(
            steps[0]["applied"][0]["applied"].as_str().unwrap().contains('T'),
            "{steps:?}"
        );
        let (name, uri) = (db.database().name().to_owned(), db.server().uri().to_owned());
        let running = Migrations::new(db.database()).step("b", async move |_| {
            let shown = ran(program()
                .env("MONGODB_URI", uri)
                .args(["--db", &name, "status", "--json"]));
            let leases = shown.lines("lease").into_iter();
            let held: Vec<_> = leases
                .filter(|lease| lease["held"] == true)
                .map(|lease| lease["name"].clone())
                .collect();
            assert_eq!(held, ["steps/default"], "{shown:?}");
            Ok(())
        });
        running.run().await.unwrap();
        status(db, &[]).shows([
            "steps billing: 1 applied, the last one, a,",
            "lease steps/default: free",
        ]);
    })
    .await;
}

#[tokio::test]
async fn the_last_verify_is_kept_and_all_are_verified_on_demand() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        assert_eq!(managed(db, "trades")["verified"], Value::Null);
        bucket(db, &["verify"]).ok();
        let verified = managed(db, "trades")["verified"].clone();
        assert_eq!(verified["findings"], 0, "{verified}");
        update(db, "trades", doc! {}, doc! { "$set": { "count": 3 } }).await;
        assert_eq!(managed(db, "trades")["verified"], verified);
        let before = all(db, "trades").await;
        let shown = status(db, &["--verify", "2"]);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        shown.shows([
            "verify 2+ FINDINGS",
            "at least 2 findings",
            "bucket --collection trades repair",
        ]);
        assert_eq!(
            (managed(db, "trades")["verified"]["findings"].as_u64(), all_findings(db)),
            (Some(2), false)
        );
        status(db, &["--verify", "--json"]);
        assert_eq!(
            (
                managed(db, "trades")["verified"]["findings"].as_u64(),
                all_findings(db),
                all(db, "trades").await
            ),
            (Some(3), true, before)
        );
        // The settings are compared as before, and the outcome stays.
        bucket(db, &["indexes", "--create"]).ok();
        bucket(db, &["indexes", "--create", "--replace-settings"]).ok();
        let found = needs(db, 1);
        assert_eq!(found[0]["text"], "the last verify has 3 findings", "{found:?}");
        follow(db, &found[0]);
        assert_eq!(needs(db, 0), Vec::<Value>::new());
        // A verification that fails is a row, and no end.
        update(
            db,
            "mongo_patterns",
            doc! { "_id.kind": "bucket" },
            doc! { "$set": { "settings.key": "a.b" } },
        )
        .await;
        let failed = status(db, &["--verify", "--json"]).lines("managed").remove(0);
        assert!(failed["verify_error"].as_str().unwrap().contains("--key"), "{failed}");
        let failed = status(db, &["--verify"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        failed.shows(["verify FAILED", "trades: verify failed: "]);
    })
    .await;
}

#[tokio::test]
async fn a_document_near_the_limit_of_the_server_needs_attention() {
    testkit::run(async |db| {
        fill(db, 1, 3).await;
        bucket(db, &["migrate"]).ok();
        update(
            db,
            "trades",
            doc! {},
            doc! { "$set": { "history.0.text": "x".repeat(9_000_000) } },
        )
        .await;
        let found = needs(db, 1);
        assert_eq!(
            found[0]["commands"],
            json!(["mongo-patterns bucket --collection trades analyze"])
        );
        ran(on(db).args(["bucket", "--collection", "trades", "analyze"])).shows(["54% of 16 MiB"]);
    })
    .await;
}

/// Where the driver takes the server for a router of a sharded cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_shown_through_a_router() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        let router = Router::start(db).await;
        let arguments = ["--db", db.database().name(), "status", "--json"];
        let shown = ran(program().env("MONGODB_URI", &router.uri).args(arguments)).ok();
        assert_eq!(shown.lines("managed")[0]["migration"], "finished", "{shown:?}");
    })
    .await;
}
