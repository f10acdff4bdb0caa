//! Runs that are stopped and resumed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

const CHUNK: [&str; 3] = ["migrate", "--chunk", "200"];

fn start(db: &TestDatabase, collection: &str) -> Child {
    let mut program = on(db);
    program
        .arg("bucket")
        .args(BUCKETS)
        .args(["--collection", collection])
        .args(CHUNK);
    program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_migration_stops_at_ctrl_c_and_resumes() {
    testkit::run(async |db| {
        fill(db, 200, 20_000).await;
        let mut child = start(db, "trades");
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // The first line comes before the first chunk.
        while line.is_empty() || line.contains(": 0 of") {
            line.clear();
            errors.read_line(&mut line).unwrap();
            assert!(line.contains("of 20,000 items"), "{line}");
        }
        interrupt(&child);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        let rest: Vec<String> = errors.lines().map(Result::unwrap).collect();
        assert!(
            rest.last().is_some_and(|line| line.contains("again to resume")),
            "{rest:?}"
        );
        let buckets = db
            .plain_collection::<Document>("trades")
            .estimated_document_count()
            .await
            .unwrap();
        assert!(
            buckets < 2000,
            "the migration was stopped, but all {buckets} buckets exist"
        );
        let migrated = bucket(db, &["migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["resumed"]),
            (Some(0), &true.into()),
            "{migrated:?}"
        );
        assert_eq!(migrated.summary()["items"], 20_000);
    })
    .await;
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Without the index, one command migrates everything. It ends on the server too.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_the_operation_on_the_server() {
    testkit::run(async |db| {
        fill(db, 2000, 60_000).await;
        db.plain_collection::<Document>("flat").drop_indexes().await.unwrap();
        for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
            db.plain_collection::<Document>("trades").drop().await.unwrap();
            let mut program = on(db);
            program.arg("bucket").args(BUCKETS).args(["migrate", "--no-index"]);
            let child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            until("the migration", async || running(db).await > 0).await;
            let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(kill.unwrap().success());
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{errors}");
            assert!(errors.contains("again to resume"), "{errors}");
            assert_eq!(running(db).await, 0, "{errors}");
            let trades = db.plain_collection::<Document>("trades");
            let buckets = trades.count_documents(doc! {}).await.unwrap();
            assert!(
                buckets < 6000,
                "the migration was stopped, but all {buckets} buckets exist"
            );
        }
        let migrated = bucket(db, &["migrate", "--no-index", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["items"]),
            (Some(0), &60_000.into()),
            "{migrated:?}"
        );
    })
    .await;
}

/// The number of migrations from the database's flat collection that the server runs.
#[cfg(unix)]
async fn running(db: &TestDatabase) -> usize {
    let admin = db.plain_client().database("admin");
    let namespace = format!("{}.flat", db.database().name());
    let stages = [
        doc! { "$currentOp": { "allUsers": true } },
        doc! { "$match": { "ns": namespace } },
    ];
    let operations = admin.aggregate(stages).await.unwrap();
    let operations: Vec<Document> = operations.try_collect().await.unwrap();
    operations
        .iter()
        .filter(|operation| operation.to_string().contains("$merge"))
        .count()
}

/// Starts a migration by one command, and stops the program when the server executes it. Returns the code, and what it
/// printed.
#[cfg(unix)]
async fn stop_in_one_command(program: &mut Command, client: &mongodb::Client) -> (Option<i32>, String) {
    let child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the migration", async || merges(client, ".flat").await > 0).await;
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The number of migrations from collections of this name that the server runs.
#[cfg(unix)]
async fn merges(client: &mongodb::Client, of: &str) -> usize {
    let stages = [doc! { "$currentOp": { "allUsers": true } }];
    let operations = client.database("admin").aggregate(stages).await.unwrap();
    let operations: Vec<Document> = operations.try_collect().await.unwrap();
    let is_merge = |operation: &&Document| {
        operation.get_str("ns").is_ok_and(|namespace| namespace.ends_with(of))
            && operation.to_string().contains("$merge")
    };
    operations.iter().filter(is_merge).count()
}

/// Stores items, and lets the server hang in a migration of them until it is ended, however slow the machine is.
#[cfg(unix)]
async fn fill_and_hang(client: &mongodb::Client) {
    let flat = client.database("shop").collection::<Document>("flat");
    let time = mongodb::bson::DateTime::from_millis(SECOND * 1000);
    let item = |n: i64| doc! { "_id": n, "customerId": n % 2000, "date": time };
    flat.insert_many((0..2000).map(item)).await.unwrap();
    let hang = doc! {
        "configureFailPoint": "hangWhileBuildingDocumentSourceMergeBatch",
        "mode": "alwaysOn",
        "data": { "shouldCheckForInterrupt": true },
    };
    client.database("admin").run_command(hang).await.unwrap();
}

/// A user with nothing but `readWrite` on one database may end their own operations.
#[cfg(unix)]
#[tokio::test]
async fn a_user_with_low_privileges_ends_their_operation() {
    use mongo_patterns_testkit::{Mongod, MongodOptions};
    use mongodb::Client;

    let mongod = Mongod::start(MongodOptions::new().standalone().argument("--auth"))
        .await
        .unwrap();
    let admin = Client::with_uri_str(mongod.uri()).await.unwrap().database("admin");
    let root = doc! { "createUser": "root", "pwd": "r00t", "roles": ["root"] };
    admin.run_command(root).await.unwrap();
    let root = Client::with_uri_str(mongod.uri().replace("//", "//root:r00t@"))
        .await
        .unwrap();
    let role = doc! { "role": "readWrite", "db": "shop" };
    let writer = doc! { "createUser": "writer", "pwd": "wr1ter", "roles": [role] };
    root.database("admin").run_command(writer).await.unwrap();
    fill_and_hang(&root).await;

    let mut program = program();
    program
        .env("MONGODB_URI", mongod.uri())
        .env("MONGODB_PASSWORD", "wr1ter")
        .args(["--db", "shop", "--username", "writer", "bucket"])
        .args(BUCKETS)
        .args(["migrate", "--no-index"]);
    let (code, errors) = stop_in_one_command(&mut program, &root).await;
    assert_eq!(code, Some(130), "{errors}");
    assert!(
        errors.contains("again to resume") && !errors.contains("may still run"),
        "{errors}"
    );
    assert_eq!(merges(&root, "shop.flat").await, 0);
    assert!(!errors.contains("wr1ter"), "{errors}");
}

/// The server refuses `killOp` as it does without the privilege.
#[cfg(unix)]
#[tokio::test]
async fn an_operation_that_cannot_be_ended_is_reported() {
    use mongo_patterns_testkit::{Mongod, MongodOptions};

    const UNAUTHORIZED: i32 = 13;
    let mongod = Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let client = mongodb::Client::with_uri_str(mongod.uri()).await.unwrap();
    let admin = client.database("admin");
    fill_and_hang(&client).await;
    let refuse = doc! { "failCommands": ["killOp"], "errorCode": UNAUTHORIZED, "appName": "refused" };
    let refuse = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": refuse };
    admin.run_command(refuse).await.unwrap();
    let mut program = program();
    program
        .env("MONGODB_URI", format!("{}&appName=refused", mongod.uri()))
        .args(["--db", "shop", "bucket"])
        .args(BUCKETS)
        .args(["migrate", "--no-index"]);
    let (code, errors) = stop_in_one_command(&mut program, &client).await;
    assert_eq!(code, Some(130), "{errors}");
    for text in [
        "may still run",
        "`inprog` and `killop`",
        "$currentOp",
        "db.killOp(OPID)",
        "again to resume",
    ] {
        assert!(errors.contains(text), "{text}: {errors}");
    }
    // The printed query finds the operation, which is ended here as the message tells.
    let id = errors.split("\"clientMetadata.driver.version\": /").nth(1).unwrap();
    let id = id.split('$').next().unwrap();
    let stages = [
        doc! { "$currentOp": { "allUsers": true } },
        doc! { "$match": { "active": true, "clientMetadata.driver.version": { "$regex": format!("{id}$") } } },
    ];
    let operations = admin.aggregate(stages).await.unwrap();
    let operations: Vec<Document> = operations.try_collect().await.unwrap();
    for operation in operations {
        let kill = doc! { "killOp": 1, "op": operation.get("opid") };
        admin.run_command(kill).await.unwrap();
    }
    until("the end of the operation", async || {
        merges(&client, "shop.flat").await == 0
    })
    .await;
}
