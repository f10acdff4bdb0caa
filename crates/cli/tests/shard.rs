//! The command `shard`, and the check of shard keys by `verify`.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::doc;
use serde_json::Value;

use crate::reference::ORDERS;
use crate::router::Router;
use crate::support::*;

const LISTS: [&str; 7] = words("outlier --collection sales --array customers --parent book");
const PARENTS: [&str; 5] = ["embedded", "--collection", "patron", "--children", "addresses"];

fn buckets() -> Vec<&'static str> {
    [&["bucket"], &BUCKETS[..]].concat()
}

fn subset() -> Vec<&'static str> {
    [&["subset"], &REVIEWS[..]].concat()
}

fn orders() -> Vec<&'static str> {
    [&["reference"], &ORDERS[..]].concat()
}

/// Runs the program against the router.
fn routed(router: &Router, db: &TestDatabase, settings: &[&str], arguments: &[&str]) -> Ran {
    let mut program = through(db, &router.uri);
    ran(program.args(settings).args(arguments))
}

/// Returns the names of the commands of a plan that write.
fn writes(planned: &Ran) -> Vec<String> {
    let lines = planned.json().into_iter();
    let writing = lines.filter(|line| line["type"] == "command" && line["writes"] == true);
    // JSON objects have their fields in no order.
    let names = ["createIndexes", "shardCollection", "update"];
    let name = |line: Value| {
        let name = names.iter().find(|name| line["command"].get(name).is_some());
        (*name.unwrap()).to_owned()
    };
    writing.map(name).collect()
}

#[tokio::test]
async fn a_plan_is_printed_on_any_server() {
    testkit::run(async |db| {
        let names = |settings: &[&str]| {
            let planned = ran(on(db).args(settings).args(["shard", "--plan", "--json"])).ok();
            writes(&planned)
        };
        let of_buckets = ["createIndexes", "shardCollection", "createIndexes", "update", "update"];
        assert_eq!(names(&buckets()), of_buckets);
        assert_eq!(names(&PARENTS), ["shardCollection", "update", "update"]);
        let of_two = ["createIndexes", "shardCollection", "shardCollection"];
        assert_eq!(names(&LISTS), [&of_two[..], &["update", "update"]].concat());
        assert_eq!(
            names(&subset()),
            [&of_two[..], &["createIndexes", "update", "update"]].concat()
        );
        let of_orders = [
            "shardCollection",
            "shardCollection",
            "createIndexes",
            "update",
            "update",
        ];
        assert_eq!(names(&orders()), of_orders);
        assert!(all(db, "mongo_patterns").await.is_empty());

        ran(on(db).args(buckets()).args(["shard", "--plan"])).shows([
            ".trades: { customerId: 1 }, or { customerId: \"hashed\" }\n// The reason: every command",
            "// A limit: The buckets of a key are in one chunk",
            "`shard` checks",
            "db.getSiblingDB(\"admin\").runCommand({ hello: 1 })",
            "// writes: shard the collection\ndb.getSiblingDB(\"admin\").runCommand(",
        ]);
        let choices = ran(on(db).args(LISTS).args(["shard", "--plan", "--json"])).json();
        let of_main = choices.iter().find(|line| line["type"] == "shard_key").unwrap();
        assert_eq!(of_main["recommended"], json!({ "_id": 1 }));
    })
    .await;
}

#[tokio::test]
async fn a_replica_set_is_refused() {
    testkit::run(async |db| {
        let shard = |settings: &[&str], arguments: &[&str]| ran(on(db).args(settings).arg("shard").args(arguments));
        for settings in [&buckets()[..], &LISTS, &subset(), &orders(), &PARENTS] {
            shard(settings, &["--yes"]).says(3, "connect to a mongos");
        }
        shard(&buckets(), &[]).says(2, "--yes");
        let names = db.plain_client().database(db.database().name());
        assert!(names.list_collection_names().await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_set_up_and_verified() {
    testkit::run(async |db| {
        let router = Router::start(db).await;
        let arguments = ["shard", "--yes", "--json"];
        let sharded = routed(&router, db, &buckets(), &arguments);
        sharded.begins(0, json!({ "key": { "customerId": 1 } }));
        sharded.ends(0, json!({ "sharded": 1 }));
        let again = routed(&router, db, &buckets(), &arguments).summary();
        assert_eq!(again["sharded_before"], 1, "{again}");
        let hashed = routed(&router, db, &LISTS, &["shard", "--yes", "--hashed"]);
        hashed.ok().shows(["sales: sharded by { _id: \"hashed\" }, now"]);

        routed(&router, db, &buckets(), &["verify"]).ok();
        let plain = db.plain_client().database(db.database().name());
        for collection in ["sales", "product", "review", "orders", "customers", "patron"] {
            let _ = plain.create_collection(collection).await;
        }
        for (settings, name) in [
            (&buckets()[..], "trades"),
            (&LISTS, "sales"),
            (&subset(), "review"),
            (&orders(), "orders"),
            (&PARENTS, "patron"),
        ] {
            let namespace = format!("{}.{name}", db.database().name());
            let entry = doc! { "_id": &namespace, "key": { "zip": 1 }, "unique": false };
            let mut metadata = router.metadata();
            metadata
                .collections
                .retain(|entry| entry.get_str("_id").unwrap() != namespace);
            metadata.collections.push(entry);
            drop(metadata);
            if name == "review" {
                let create = ["indexes", "--create", "--replace-settings"];
                ran(on(db).args(settings).args(create)).ok();
            }
            let found = routed(&router, db, settings, &["verify", "--json"]);
            found.begins(1, json!({ "problem": "UnsuitableShardKey" }));
            found.begins(1, json!({ "collection": name, "key": { "zip": 1 } }));
            routed(&router, db, settings, &["shard", "--yes"]).says(1, "zip");
        }

        router.metadata().failure = Some(("find", 13));
        routed(&router, db, &buckets(), &["verify"]).says(0, "the shard keys are not checked");
    })
    .await;
}
