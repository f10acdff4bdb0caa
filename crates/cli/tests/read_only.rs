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
    let root = doc! { "createUser": "root", "pwd": "r00t", "roles": ["root"] };
    admin.run_command(root).await.unwrap();
    let root = mongod.uri().replace("//", "//root:r00t@");
    let mut options = ClientOptions::parse(root).await.unwrap();
    options.app_name = Some("test".to_owned());
    let client = Client::with_options(options).unwrap();
    let read = doc! { "role": "read", "db": "shop" };
    let reader = doc! { "createUser": "reader", "pwd": "s3cret", "roles": [read] };
    client.database("admin").run_command(reader).await.unwrap();
    (mongod, folder, client.database("shop"))
}

async fn fill_shop(shop: &Database) {
    let time = DateTime::from_millis(SECOND * 1000);
    let flat = (0..30).map(|n| doc! { "_id": n, "customerId": n % 3, "date": time });
    insert_in(shop, "flat", flat).await;
    let by_key = IndexModel::builder().keys(doc! { "customerId": 1 }).build();
    shop.collection::<Document>("flat").create_index(by_key).await.unwrap();
    let bucket = doc! { "_id": format!("1_{SECOND}"), "customerId": 1, "count": 7, "history": [{ "date": time }] };
    insert_in(shop, "old", [bucket]).await;
    let book = doc! { "_id": 1, "customers": (0..60).collect::<Vec<i32>>() };
    insert_in(shop, "sales", [book]).await;
    insert_in(shop, "patron", [doc! { "_id": 1 }]).await;
    let product = doc! { "_id": 1, "reviews": [{ "review_id": 1, "date": 1 }, { "review_id": 2, "date": 2 }] };
    for collection in ["product", "unmigrated"] {
        insert_in(shop, collection, [&product]).await;
    }
    let policy =
        |revision: i32| doc! { "policyId": 1, "revision": revision, "time": DateTime::from_millis(revision.into()) };
    let mut changed = policy(2);
    changed.insert("name", "Ann");
    insert_in(shop, "policies", [changed]).await;
    insert_in(shop, "policy_revisions", [policy(1), policy(2)]).await;
    insert_in(shop, "customers", [1, 2].map(|id| doc! { "_id": id, "name": "Ann" })).await;
    let orders = (0..4).map(|n| doc! { "_id": n, "customer": { "_id": n, "name": "Ann", "v": 0 } });
    insert_in(shop, "orders", orders).await;
    let bare = (0..4).map(|n| doc! { "_id": n, "customer": n % 2 + 1 });
    insert_in(shop, "old_orders", bare).await;
    let reviews = (1..9).map(|n| doc! { "product_id": n % 2, "review_id": n, "date": n });
    insert_in(shop, "review", reviews).await;
}

#[tokio::test]
async fn read_only_commands_send_no_write() {
    let (mongod, _folder, shop) = server().await;
    fill_shop(&shop).await;
    let root = mongod.uri().replace("//", "//root:r00t@");
    let words = |line: &'static str| -> Vec<&'static str> { line.split(' ').collect() };
    let policies = words("--collection policies --revisions-collection policy_revisions --id policyId");
    for (pattern, settings) in [("subset", &REVIEWS[..]), ("history", &policies), ("reference", &ORDERS)] {
        let mut indexes = program();
        indexes.env("MONGODB_URI", &root).args(["--db", "shop", pattern]);
        ran(indexes.args(settings).args(["indexes", "--create"])).ok();
    }
    shop.run_command(doc! { "profile": 2 }).await.unwrap();
    let uri = mongod
        .uri()
        .replace("//", "//reader:s3cret@")
        .replace("/?", "/shop?authSource=admin&");
    let run = |arguments: &[&str]| ran(program().env("MONGODB_URI", &uri).args(arguments));
    let old = words("--collection old --key customerId --items history --time date --flat flat");
    let migrated = words("--collection trades --key customerId --items history --time date --flat flat");
    let lists = ["--collection", "sales", "--array", "customers"];
    let parents = words("--collection patron --children c --source flat --reference customerId");
    let mut unmigrated = REVIEWS;
    (unmigrated[1], unmigrated[3]) = ("unmigrated", "not_yet");
    let mut old_orders = ORDERS;
    old_orders[1] = "old_orders";
    let runs: Vec<(&str, &[&str], &'static str, i32)> = vec![
        ("bucket", &old, "verify", 1),
        ("bucket", &old, "repair --dry-run", 1),
        ("bucket", &old, "indexes", 1),
        ("bucket", &old, "analyze", 0),
        ("bucket", &old, "analyze --sample 5", 0),
        ("bucket", &old, "shard --plan", 0),
        ("outlier", &lists, "shard --plan", 0),
        ("subset", &REVIEWS, "shard --plan", 0),
        ("embedded", &parents, "shard --plan --hashed", 0),
        ("outlier", &lists, "analyze", 0),
        ("outlier", &lists, "plan", 0),
        ("outlier", &lists, "migrate --dry-run", 0),
        ("outlier", &lists, "verify", 1),
        ("outlier", &lists, "repair --dry-run", 1),
        ("outlier", &lists, "indexes", 1),
        ("subset", &REVIEWS, "analyze", 0),
        ("subset", &REVIEWS, "analyze --sample 5", 0),
        ("subset", &REVIEWS, "plan --from collection", 0),
        ("subset", &REVIEWS, "plan --from settings --order date", 0),
        ("subset", &REVIEWS, "migrate --from collection --dry-run", 0),
        ("subset", &unmigrated, "analyze", 0),
        ("subset", &unmigrated, "plan --from embedded", 0),
        ("subset", &unmigrated, "migrate --from embedded --dry-run", 0),
        ("subset", &REVIEWS, "verify", 1),
        ("subset", &REVIEWS, "repair --dry-run", 1),
        ("subset", &REVIEWS, "indexes", 0),
        ("embedded", &parents, "verify", 1),
        ("embedded", &parents, "repair --dry-run", 1),
        ("embedded", &parents, "indexes", 0),
        ("embedded", &parents, "analyze", 0),
        ("history", &policies, "analyze", 0),
        ("history", &policies, "verify", 1),
        ("history", &policies, "repair --dry-run", 1),
        ("history", &policies, "indexes", 0),
        ("history", &policies, "shard --plan", 0),
        ("history", &policies, "plan", 0),
        ("history", &policies, "migrate --dry-run", 0),
        ("history", &policies, "log 1", 0),
        ("history", &policies, "show 1@1", 0),
        ("history", &policies, "diff 1 1 2", 0),
        ("history", &policies, "prune 1 --keep-last 1 --dry-run", 0),
        ("reference", &ORDERS, "analyze", 0),
        ("reference", &ORDERS, "analyze --sample 5", 0),
        ("reference", &ORDERS, "verify", 1),
        ("reference", &ORDERS, "repair --dry-run", 1),
        ("reference", &ORDERS, "repair --dry-run --on-missing clear", 1),
        ("reference", &ORDERS, "indexes", 0),
        ("reference", &ORDERS, "shard --plan", 0),
        ("init", &[], "orders --out -", 0),
        ("init", &[], "review --out -", 0),
        ("init", &[], "unmigrated --out -", 0),
        ("init", &[], "flat --out -", 0),
        ("bucket", &migrated, "plan", 0),
        ("bucket", &migrated, "migrate --dry-run", 0),
        ("reference", &old_orders, "plan", 0),
        ("reference", &old_orders, "migrate --dry-run", 0),
        ("status", &[], "--json", 1),
        ("status", &[], "--verify", 1),
        ("embedded", &parents, "plan", 0),
        ("embedded", &parents, "migrate --dry-run", 0),
    ];
    for (pattern, settings, verb, code) in runs {
        let arguments = [&[pattern][..], settings, &words(verb)].concat();
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?} {ran:?}");
        assert!(!ran.err.contains("s3cret") && !ran.out.contains("s3cret"));
    }
    only_reads(&shop).await;
    let verified = doc! { "verified": { "$exists": true } };
    let catalog = shop.collection::<Document>("mongo_patterns");
    assert_eq!(catalog.count_documents(verified).await.unwrap(), 0);

    let refused = run(&[&["reference"][..], &ORDERS, &words("repair --on-missing keep")].concat());
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let create = words("bucket --collection old --key customerId --items history indexes --create");
    run(&create).says(3, "readWrite");
    let wrong = uri.replace("s3cret", "wr0ng");
    for command in [
        "init flat",
        "status",
        "bucket --collection trades verify",
        "outlier --collection sales verify",
    ] {
        let wrong = ran(program().env("MONGODB_URI", &wrong).args(words(command)));
        assert!(!wrong.err.contains("wr0ng"), "{wrong:?}");
        wrong.says(3, "authentication failed");
    }
}

/// Without a privilege on the catalog nothing is guessed.
#[tokio::test]
async fn a_refused_command_is_named() {
    let (mongod, _folder, shop) = server().await;
    fill_shop(&shop).await;
    let admin = shop.client().database("admin");
    let resource = |collection: &str| doc! { "db": "shop", "collection": collection };
    let of_old = doc! { "resource": resource("old"), "actions": ["find", "listIndexes"] };
    let role = doc! { "createRole": "narrow", "privileges": [of_old], "roles": [] };
    admin.run_command(role).await.unwrap();
    let user = doc! { "createUser": "narrow", "pwd": "s3cret", "roles": ["narrow"] };
    admin.run_command(user).await.unwrap();
    let uri = mongod.uri().replace("//", "//narrow:s3cret@");
    let run = |line: &'static str| {
        ran(program()
            .env("MONGODB_URI", &uri)
            .args(["--db", "shop"])
            .args(line.split(' ')))
    };
    let verify = "bucket --collection old --key customerId --items history --time date verify";
    let commands = [
        verify,
        "init old --out -",
        "archive --collection old --archive a --age b verify",
    ];
    for (action, collection, refused) in [
        ("find", "mongo_patterns", "`find` on shop.mongo_patterns: "),
        ("listCollections", "", "`listCollections` on shop: "),
    ] {
        for command in commands {
            run(command).says(3, refused);
        }
        let more = doc! { "resource": resource(collection), "actions": [action] };
        let grant = doc! { "grantPrivilegesToRole": "narrow", "privileges": [more] };
        admin.run_command(grant).await.unwrap();
    }
    let verified = run(verify);
    assert_eq!(verified.code, Some(1), "{verified:?}");
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
        let reads: [&str; 10] = words(
            "find getMore aggregate count listIndexes listCollections collStats distinct killCursors endSessions",
        );
        assert!(reads.contains(&name), "{command}");
        let stages = command.get_array("pipeline").into_iter().flatten();
        for stage in stages.filter_map(Bson::as_document) {
            let writes = stage.contains_key("$merge") || stage.contains_key("$out");
            assert!(!writes, "{command}");
        }
    }
}
