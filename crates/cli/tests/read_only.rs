//! A user with the role `read` can run every command that only reads, and no such command sends a write.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use futures::TryStreamExt;
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database, IndexModel};
use tempfile::TempDir;

use crate::reference::ORDERS;
use crate::support::*;

/// A server with `root`, who has all privileges, and `reader`, who can read `shop`.
async fn server() -> (Mongod, TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "bW9uZ28tcGF0dGVybnM=").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    // The members of a replica set with users authenticate by a key file.
    let key = format!("--keyFile={}", key.display());
    let mongod = Mongod::start(MongodOptions::new().argument(key)).await.unwrap();
    let admin = Client::with_uri_str(mongod.uri()).await.unwrap().database("admin");
    admin
        .run_command(doc! { "createUser": "root", "pwd": "r00t", "roles": ["root"] })
        .await
        .unwrap();
    let mut options = ClientOptions::parse(mongod.uri().replace("//", "//root:r00t@"))
        .await
        .unwrap();
    options.app_name = Some("test".to_owned());
    let client = Client::with_options(options).unwrap();
    let read = doc! { "role": "read", "db": "shop" };
    let reader = doc! { "createUser": "reader", "pwd": "s3cret", "roles": [read] };
    client.database("admin").run_command(reader).await.unwrap();
    (mongod, folder, client.database("shop"))
}

async fn fill_shop(shop: &Database) {
    let time = DateTime::from_millis(SECOND * 1000);
    let flat = shop.collection::<Document>("flat");
    flat.insert_many((0..30).map(|n| doc! { "_id": n, "customerId": n % 3, "date": time }))
        .await
        .unwrap();
    flat.create_index(IndexModel::builder().keys(doc! { "customerId": 1 }).build())
        .await
        .unwrap();
    let bucket = doc! { "_id": format!("1_{SECOND}"), "customerId": 1, "count": 7, "history": [{ "date": time }] };
    shop.collection::<Document>("old").insert_one(bucket).await.unwrap();
    let sales = shop.collection::<Document>("sales");
    sales
        .insert_one(doc! { "_id": 1, "customers": (0..60).collect::<Vec<i32>>() })
        .await
        .unwrap();
    shop.collection::<Document>("patron")
        .insert_one(doc! { "_id": 1 })
        .await
        .unwrap();
    let product = doc! { "_id": 1, "reviews": [{ "review_id": 1, "date": 1 }, { "review_id": 2, "date": 2 }] };
    for collection in ["product", "unmigrated"] {
        let products = shop.collection::<Document>(collection);
        products.insert_one(product.clone()).await.unwrap();
    }
    let policy =
        |revision: i32| doc! { "policyId": 1, "revision": revision, "time": DateTime::from_millis(revision.into()) };
    let mut changed = policy(2);
    changed.insert("name", "Ann");
    shop.collection::<Document>("policies")
        .insert_one(changed)
        .await
        .unwrap();
    let revisions = shop.collection::<Document>("policy_revisions");
    revisions.insert_many([policy(1), policy(2)]).await.unwrap();
    let customers = shop.collection::<Document>("customers");
    customers
        .insert_many([1, 2].map(|id| doc! { "_id": id, "name": "Ann" }))
        .await
        .unwrap();
    let orders = (0..4).map(|n| doc! { "_id": n, "customer": { "_id": n, "name": "Ann", "v": 0 } });
    shop.collection::<Document>("orders").insert_many(orders).await.unwrap();
    let bare = (0..4).map(|n| doc! { "_id": n, "customer": n % 2 + 1 });
    shop.collection::<Document>("old_orders")
        .insert_many(bare)
        .await
        .unwrap();
    let reviews = (1..9).map(|n| doc! { "product_id": n % 2, "review_id": n, "date": n });
    shop.collection::<Document>("review")
        .insert_many(reviews)
        .await
        .unwrap();
}

#[tokio::test]
async fn read_only_commands_send_no_write() {
    let (mongod, _folder, shop) = server().await;
    fill_shop(&shop).await;
    let root = mongod.uri().replace("//", "//root:r00t@");
    let policies = [
        "--collection",
        "policies",
        "--revisions-collection",
        "policy_revisions",
        "--id",
        "policyId",
    ];
    for (pattern, settings) in [("subset", &REVIEWS[..]), ("history", &policies), ("reference", &ORDERS)] {
        let mut indexes = program();
        indexes.env("MONGODB_URI", &root).args(["--db", "shop", pattern]);
        assert_eq!(ran(indexes.args(settings).args(["indexes", "--create"])).code, Some(0));
    }
    shop.run_command(doc! { "profile": 2 }).await.unwrap();
    let uri = mongod
        .uri()
        .replace("//", "//reader:s3cret@")
        .replace("/?", "/shop?authSource=admin&");
    let run = |arguments: &[&str]| ran(program().env("MONGODB_URI", &uri).args(arguments));
    let old = [
        "--collection",
        "old",
        "--key",
        "customerId",
        "--items",
        "history",
        "--time",
        "date",
        "--flat",
        "flat",
    ];
    let migrated = [
        "--collection",
        "trades",
        "--key",
        "customerId",
        "--items",
        "history",
        "--time",
        "date",
        "--flat",
        "flat",
    ];
    let lists = ["--collection", "sales", "--array", "customers"];
    let parents = [
        "--collection",
        "patron",
        "--children",
        "c",
        "--source",
        "flat",
        "--reference",
        "customerId",
    ];
    let mut unmigrated = REVIEWS;
    (unmigrated[1], unmigrated[3]) = ("unmigrated", "not_yet");
    let mut old_orders = ORDERS;
    old_orders[1] = "old_orders";
    let mut runs: Vec<(&str, &[&str], Vec<&str>, i32)> = vec![
        ("bucket", &old, vec!["verify"], 1),
        ("bucket", &old, vec!["repair", "--dry-run"], 1),
        ("bucket", &old, vec!["indexes"], 1),
        ("bucket", &old, vec!["analyze"], 0),
        ("bucket", &old, vec!["analyze", "--sample", "5"], 0),
        ("bucket", &old, vec!["shard", "--plan"], 0),
        ("outlier", &lists, vec!["shard", "--plan"], 0),
        ("subset", &REVIEWS, vec!["shard", "--plan"], 0),
        ("embedded", &parents, vec!["shard", "--plan", "--hashed"], 0),
        ("outlier", &lists, vec!["analyze"], 0),
        ("outlier", &lists, vec!["plan"], 0),
        ("outlier", &lists, vec!["migrate", "--dry-run"], 0),
        ("outlier", &lists, vec!["verify"], 1),
        ("outlier", &lists, vec!["repair", "--dry-run"], 1),
        ("outlier", &lists, vec!["indexes"], 1),
        ("subset", &REVIEWS, vec!["analyze"], 0),
        ("subset", &REVIEWS, vec!["analyze", "--sample", "5"], 0),
        ("subset", &REVIEWS, vec!["plan", "--from", "collection"], 0),
        (
            "subset",
            &REVIEWS,
            vec!["plan", "--from", "settings", "--old-order", "date"],
            0,
        ),
        (
            "subset",
            &REVIEWS,
            vec!["migrate", "--from", "collection", "--dry-run"],
            0,
        ),
        ("subset", &unmigrated, vec!["analyze"], 0),
        ("subset", &unmigrated, vec!["plan", "--from", "embedded"], 0),
        (
            "subset",
            &unmigrated,
            vec!["migrate", "--from", "embedded", "--dry-run"],
            0,
        ),
        ("subset", &REVIEWS, vec!["verify"], 1),
        ("subset", &REVIEWS, vec!["repair", "--dry-run"], 1),
        ("subset", &REVIEWS, vec!["indexes"], 0),
        ("embedded", &parents, vec!["verify"], 1),
        ("embedded", &parents, vec!["repair", "--dry-run"], 1),
        ("embedded", &parents, vec!["indexes"], 0),
        ("embedded", &parents, vec!["analyze"], 0),
        ("embedded", &parents, vec!["--source", "back", "plan", "--back"], 0),
        (
            "embedded",
            &parents,
            vec!["--source", "back", "migrate", "--back", "--dry-run"],
            0,
        ),
        ("history", &policies, vec!["analyze"], 0),
        ("history", &policies, vec!["verify"], 1),
        ("history", &policies, vec!["repair", "--dry-run"], 1),
        ("history", &policies, vec!["indexes"], 0),
        ("history", &policies, vec!["shard", "--plan"], 0),
        ("history", &policies, vec!["plan"], 0),
        ("history", &policies, vec!["migrate", "--dry-run"], 0),
        ("history", &policies, vec!["log", "1"], 0),
        ("history", &policies, vec!["show", "1@1"], 0),
        ("history", &policies, vec!["diff", "1", "1", "2"], 0),
        ("reference", &ORDERS, vec!["analyze"], 0),
        ("reference", &ORDERS, vec!["analyze", "--sample", "5"], 0),
        ("reference", &ORDERS, vec!["verify"], 1),
        ("reference", &ORDERS, vec!["repair", "--dry-run"], 1),
        (
            "reference",
            &ORDERS,
            vec!["repair", "--dry-run", "--on-missing", "clear"],
            1,
        ),
        ("reference", &ORDERS, vec!["indexes"], 0),
        ("reference", &ORDERS, vec!["shard", "--plan"], 0),
        ("init", &[], vec!["orders", "--out", "-"], 0),
        ("init", &[], vec!["review", "--out", "-"], 0),
        ("init", &[], vec!["unmigrated", "--out", "-"], 0),
        ("init", &[], vec!["flat", "--out", "-"], 0),
    ];
    runs.push(("bucket", &migrated, vec!["plan"], 0));
    runs.push(("bucket", &migrated, vec!["migrate", "--dry-run"], 0));
    runs.push(("reference", &old_orders, vec!["plan"], 0));
    runs.push(("reference", &old_orders, vec!["migrate", "--dry-run"], 0));
    let back = vec!["plan", "--back", "--drop-deleted"];
    runs.push(("reference", &ORDERS, back, 0));
    runs.push(("embedded", &parents, vec!["plan"], 0));
    runs.push(("embedded", &parents, vec!["migrate", "--dry-run"], 0));
    for (pattern, settings, verb, code) in runs {
        let arguments: Vec<&str> = [pattern]
            .into_iter()
            .chain(settings.iter().copied())
            .chain(verb)
            .collect();
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?} {ran:?}");
        assert!(!ran.err.contains("s3cret") && !ran.out.contains("s3cret"));
    }
    only_reads(&shop).await;

    let arguments: Vec<&str> = ["reference"]
        .into_iter()
        .chain(ORDERS)
        .chain(["repair", "--on-missing", "keep"])
        .collect();
    let refused = run(&arguments);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let refused = run(&[
        "bucket",
        "--collection",
        "old",
        "--key",
        "customerId",
        "--items",
        "history",
        "indexes",
        "--create",
    ]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("readWrite"), "{}", refused.err);
    let wrong = ran(program()
        .env("MONGODB_URI", uri.replace("s3cret", "wr0ng"))
        .args(["init", "flat"]));
    assert!(wrong.code == Some(3) && !wrong.err.contains("wr0ng"), "{wrong:?}");
}

/// Checks the commands of the program in the server's profiler, which records every command on the database.
async fn only_reads(shop: &Database) {
    let recorded = shop.collection::<Document>("system.profile");
    let of_program = recorded.find(doc! { "appName": "mongo-patterns" }).await.unwrap();
    let recorded: Vec<Document> = of_program.try_collect().await.unwrap();
    assert!(recorded.len() > 60, "{}", recorded.len());
    for recorded in recorded {
        let command = recorded.get_document("command").unwrap();
        let name = command.keys().next().unwrap().as_str();
        let reads = [
            "find",
            "getMore",
            "aggregate",
            "count",
            "listIndexes",
            "listCollections",
            "collStats",
            "distinct",
            "killCursors",
            "endSessions",
        ];
        assert!(reads.contains(&name), "{command}");
        let stages = command
            .get_array("pipeline")
            .into_iter()
            .flatten()
            .filter_map(Bson::as_document);
        for stage in stages {
            assert!(
                !stage.contains_key("$merge") && !stage.contains_key("$out"),
                "{command}"
            );
        }
    }
}
