//! Runs that are stopped while the server executes their command.

#![cfg(unix)]

use std::process::{Command, Stdio};

use futures::TryStreamExt;
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::Client;
use mongodb::bson::{DateTime, Document, doc};

use crate::support::*;

/// Starts a migration by one command, and stops the program when the server executes it. Returns the code, and what it
/// printed.
async fn stop_in_one_command(mut program: Command, signal: &str, client: &Client) -> (Option<i32>, String) {
    let child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the migration", async || merges(client).await > 0).await;
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The number of migrations from a flat collection that the server runs.
async fn merges(client: &Client) -> usize {
    let stages = [doc! { "$currentOp": { "allUsers": true } }];
    let operations = client.database("admin").aggregate(stages).await.unwrap();
    let operations: Vec<Document> = operations.try_collect().await.unwrap();
    let is_merge = |operation: &&Document| {
        operation.get_str("ns").is_ok_and(|namespace| namespace == "shop.flat")
            && operation.to_string().contains("$merge")
    };
    operations.iter().filter(is_merge).count()
}

/// Lets the server hang in a migration until it is ended, however slow the machine is.
async fn hang(client: &Client, mode: &str) {
    let hang = doc! {
        "configureFailPoint": "hangWhileBuildingDocumentSourceMergeBatch",
        "mode": mode,
        "data": { "shouldCheckForInterrupt": true },
    };
    client.database("admin").run_command(hang).await.unwrap();
}

/// A server with `root`, who has all privileges, and `writer`, who has nothing but `readWrite` on `shop`.
async fn server() -> (Mongod, Client) {
    let options = MongodOptions::new().standalone().argument("--auth");
    let mongod = Mongod::start(options).await.unwrap();
    let admin = Client::with_uri_str(mongod.uri()).await.unwrap().database("admin");
    let root = doc! { "createUser": "root", "pwd": "r00t", "roles": ["root"] };
    admin.run_command(root).await.unwrap();
    let root = mongod.uri().replace("//", "//root:r00t@");
    let root = Client::with_uri_str(root).await.unwrap();
    let role = doc! { "role": "readWrite", "db": "shop" };
    let writer = doc! { "createUser": "writer", "pwd": "wr1ter", "roles": [role] };
    root.database("admin").run_command(writer).await.unwrap();
    (mongod, root)
}

/// Without an index on the key, one command migrates everything. A user may end their own operations.
#[tokio::test]
async fn a_signal_ends_the_operation_on_the_server_or_the_program_reports_it() {
    const UNAUTHORIZED: i32 = 13;
    let (mongod, root) = server().await;
    let (admin, shop) = (root.database("admin"), root.database("shop"));
    let time = DateTime::from_millis(SECOND * 1000);
    let item = |n: i64| doc! { "_id": n, "customerId": n % 200, "date": time };
    insert_in(&shop, "flat", (0..2000).map(item)).await;
    let migration = |uri: &str| {
        let mut program = program();
        program.env("MONGODB_URI", uri).env("MONGODB_PASSWORD", "wr1ter");
        program.args(["--db", "shop", "--username", "writer", "bucket"]);
        program.args(BUCKETS).args(["migrate", "--no-index"]);
        program
    };
    hang(&root, "alwaysOn").await;
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (stopped, errors) = stop_in_one_command(migration(mongod.uri()), signal, &root).await;
        assert_eq!(stopped, Some(code), "{errors}");
        assert!(
            errors.contains("run the command again") && !errors.contains("may still run"),
            "{errors}"
        );
        assert_eq!(merges(&root).await, 0, "{errors}");
        assert!(!errors.contains("wr1ter"), "{errors}");
    }

    // The server refuses `killOp` as it does without the privilege.
    let refuse = doc! { "failCommands": ["killOp"], "errorCode": UNAUTHORIZED, "appName": "refused" };
    let refuse = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": refuse };
    admin.run_command(refuse).await.unwrap();
    let refused = migration(&format!("{}&appName=refused", mongod.uri()));
    let (code, errors) = stop_in_one_command(refused, "-INT", &root).await;
    assert_eq!(code, Some(130), "{errors}");
    for text in [
        "may still run",
        "`inprog` and `killop`",
        "$currentOp",
        "db.killOp(OPID)",
        "run the command again",
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
    until("the end of the operation", async || merges(&root).await == 0).await;

    hang(&root, "off").await;
    ran(migration(mongod.uri()).arg("--json")).ends(0, json!({ "items": 2000 }));
}
