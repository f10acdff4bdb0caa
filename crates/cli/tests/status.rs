//! Tests of the overview of a database.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::support::*;

fn status(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("status").args(arguments))
}

/// Returns the problems.
fn needs(db: &TestDatabase, code: i32) -> Vec<Value> {
    let status = status(db, &["--json"]);
    assert_eq!(status.code, Some(code), "{status:?}");
    status.lines("attention")
}

/// Runs the command that the status names.
fn follow(db: &TestDatabase, need: &Value) {
    let remedy = need["remedy"].as_str().unwrap();
    let arguments: Vec<&str> = remedy.strip_prefix("mongo-patterns ").unwrap().split(' ').collect();
    ran(on(db).args(arguments)).ok();
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
        shown.shows(["trades", "bucket", "finished", "not managed: flat"]);
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
        shown.shows(["1 missing", "what needs attention", "indexes --create"]);
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
        let texts: Vec<&str> = found.iter().map(|need| need["text"].as_str().unwrap()).collect();
        assert_eq!(
            texts,
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
async fn steps_leases_and_second_collections_are_shown() {
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
        shown.shows(["lease nightly: held since", "lease old: free", "steps default: 1 applied, the last one, email index"]);
        let managed = status(db, &["--json"]).lines("managed").remove(0);
        let related = &managed["collections"][1];
        assert!(related["namespace"].as_str().unwrap().ends_with(".review"), "{managed}");
        assert_eq!(related["missing_indexes"], json!([]));
    })
    .await;
}

/// In the server's profiler, which records every command on the database.
#[tokio::test]
async fn a_collection_takes_at_most_four_commands() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        db.plain_client()
            .database(db.database().name())
            .run_command(doc! { "profile": 2 })
            .await
            .unwrap();
        status(db, &[]).ok();
        let profile = db.plain_collection::<Document>("system.profile");
        let namespace = format!("{}.trades", db.database().name());
        let of_trades = doc! { "appName": "mongo-patterns", "ns": namespace };
        let sent = profile.count_documents(of_trades).await.unwrap();
        assert!((1..=4).contains(&sent), "{sent}");
    })
    .await;
}
