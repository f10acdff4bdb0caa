//! Requests of the example `service` that take too long: their calls are dropped, and the request can be repeated.

use std::time::{Duration, Instant};

use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use serde_json::json;

use crate::service::process::DATABASE;
use crate::service::support::*;
use support::common::{pause, until};

/// The time for which the server blocks a command, longer than the service waits.
const BLOCKED: Duration = Duration::from_secs(3);

/// Blocks the next of these commands of the service, for this collection if there is one. The follower of the service sends
/// commands too.
async fn block(admin: &Database, commands: &[&str], collection: &str) {
    let mut fault = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": 1 },
        "data": {
            "failCommands": commands,
            "appName": "mongo-patterns-service",
            "blockConnection": true,
            "blockTimeMS": i64::try_from(BLOCKED.as_millis()).unwrap(),
        },
    };
    if !collection.is_empty() {
        let data = fault.get_document_mut("data").unwrap();
        data.insert("namespace", format!("{DATABASE}.{collection}"));
    }
    admin.run_command(fault).await.unwrap();
}

async fn open_transactions(admin: &Database) -> i64 {
    let status: Document = admin.run_command(doc! { "serverStatus": 1 }).await.unwrap();
    let transactions = status.get_document("transactions").unwrap();
    transactions.get_i64("currentOpen").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn a_request_that_takes_too_long_is_dropped_and_can_be_repeated() {
    let mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    let mut program = program(mongod.uri());
    program.env("REQUEST_TIMEOUT", "1");
    let service = Service::spawn(program).await;
    service.wait_for("/health/ready", 200).await;
    let admin = Client::with_uri_str(mongod.uri()).await.unwrap().database("admin");
    let patron = send(service.address, "PUT", "/patrons/joan", &json!({ "name": "Joan" })).await;
    assert_eq!(patron.status, 201);

    let address = json!({ "id": "home", "street": "1 Main Street", "city": "Boston", "state": "MA", "zip": "12345" });
    let review = json!({ "id": "r-1", "author": "Kristina", "text": "Still amazing." });
    let second = json!({ "id": "r-2", "author": "Kristina", "text": "Again." });
    let trade = json!({ "id": "t-1", "kind": "buy", "ticker": "MDB", "qty": 5 });
    let order = json!({ "id": "o-1", "total": 5 });
    let writes: &[&str] = &["update", "findAndModify", "insert"];
    let commit: &[&str] = &["commitTransaction"];
    let requests = [
        ("POST", "/customers/7/trades", &trade, writes, "trades"),
        ("PUT", "/books/2/buyers/jane", &json!({}), writes, "extra_sales"),
        ("POST", "/products/1/reviews", &review, writes, "review"),
        ("POST", "/products/1/reviews", &second, commit, ""),
        ("POST", "/patrons/joan/addresses", &address, writes, "patron"),
        ("POST", "/buyers/1/orders", &order, writes, "orders"),
    ];
    for (method, path, body, commands, collection) in requests {
        block(&admin, commands, collection).await;
        let began = Instant::now();
        let slow = send(service.address, method, path, body).await;
        assert_eq!(slow.status, 503, "{method} {path}: {slow:?}");
        assert!(slow.body.contains("/problems#unknown"), "{slow:?}");
        let is_early = began.elapsed() < BLOCKED;
        assert!(is_early, "{method} {path}: the response came with that of the server");

        // The command that the server still executes may keep the next one waiting.
        let repeated = async {
            loop {
                let answer = send(service.address, method, path, body).await;
                match answer.status {
                    200 | 201 => break answer.status,
                    503 => pause().await,
                    _ => panic!("{method} {path}: {answer:?}"),
                }
            }
        };
        in_time("the request is never stored", repeated).await;
        let again = send(service.address, method, path, body).await;
        assert_eq!(again.status, 200, "{method} {path}: stored before");
    }
    until("an open transaction", async || open_transactions(&admin).await == 0).await;
}
