//! The example `service` as a process, on a server of its own that is killed and restarted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt;
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::service::support::*;
use support::common::pause;
use support::random::random;

const TASKS: u64 = 8;
const ROUNDS: u64 = 16;
/// A trade, a buyer, a review and an address in each round.
const KINDS: u64 = 4;
pub(crate) const DATABASE: &str = "mongo_patterns_service";

async fn server() -> (Mongod, Database) {
    let mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    let client = Client::with_uri_str(mongod.uri()).await.unwrap();
    let database = client.database(DATABASE);
    (mongod, database)
}

/// What the writers observed.
#[derive(Debug, Default)]
struct Seen {
    /// Requests without a response, or with 503.
    refused: watch::Sender<u64>,
    /// Repeated requests that were stored before.
    recognized: AtomicU64,
}

/// Sends a request until it is acknowledged, as a client with ids can.
async fn store(service: SocketAddr, (method, path, body): (&str, &str, &Value), seen: &Seen) -> u16 {
    loop {
        match try_send(service, method, path, body).await {
            Ok(answer) if [200, 201].contains(&answer.status) => return answer.status,
            Ok(answer) if answer.status == 503 => {
                assert_eq!(answer.header("retry-after"), Some("1"));
                assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            }
            Ok(other) => panic!("{method} {path}: {other:?}"),
            Err(_) => {}
        }
        seen.refused.send_modify(|count| *count += 1);
        pause().await;
    }
}

/// Returns the requests of a round of a task. Each stores something else.
fn requests(task: u64, round: u64) -> [(&'static str, String, Value); KINDS as usize] {
    let id = format!("task{task}-{round}");
    let address = json!({ "id": id, "street": "1 Main Street", "city": "Boston", "state": "MA", "zip": "12345" });
    [
        (
            "POST",
            format!("/customers/{}/trades", task % 2),
            json!({ "id": id, "kind": "buy", "ticker": "MDB", "qty": 5 }),
        ),
        ("PUT", format!("/books/2/buyers/{id}"), json!({})),
        (
            "POST",
            "/products/1/reviews".to_owned(),
            json!({ "id": id, "author": "Kristina", "text": "Still amazing." }),
        ),
        (
            "POST",
            format!("/patrons/patron{task}-{}/addresses", round % 5),
            address,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn nothing_acknowledged_is_lost_or_duplicated_when_the_server_is_killed() {
    let (mut mongod, database) = server().await;
    let service = Service::start(mongod.uri()).await;
    let address = service.address;
    for (task, patron) in (0..TASKS).flat_map(|task| (0..5).map(move |patron| (task, patron))) {
        let path = format!("/patrons/patron{task}-{patron}");
        let created = send(address, "PUT", &path, &json!({ "name": "Jane" })).await;
        assert_eq!(created.status, 201, "{created:?}");
    }

    let (acknowledged, seen) = (watch::Sender::new(0_u64), Arc::new(Seen::default()));
    let writers: Vec<_> = (0..TASKS)
        .map(|task| {
            let (acknowledged, seen) = (acknowledged.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let mut random = random(task);
                for (method, path, body) in (0..ROUNDS).flat_map(|round| requests(task, round)) {
                    store(address, (method, &path, &body), &seen).await;
                    acknowledged.send_modify(|count| *count += 1);
                    // A client that did not receive the response sends the request again.
                    if random.u8(..5) == 0 {
                        let again = store(address, (method, &path, &body), &seen).await;
                        assert_eq!(again, 200, "{method} {path} was stored before");
                        seen.recognized.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();

    let mut count = acknowledged.subscribe();
    let some = count.wait_for(|count| *count >= TASKS * ROUNDS);
    in_time("the writers make no progress", some).await.unwrap();
    mongod.kill().await.unwrap();
    service.wait_for("/health/ready", 503).await;
    let health = get(address, "/health").await;
    let is_live = json!({ "live": true, "ready": false });
    assert_eq!((health.status, health.json()), (503, is_live));
    assert_eq!(get(address, "/health/live").await.status, 204);
    let mut refused = seen.refused.subscribe();
    let enough = *refused.borrow() + TASKS;
    let refusals = refused.wait_for(|count| *count >= enough);
    in_time("no request is refused without a server", refusals)
        .await
        .unwrap();
    let acknowledged_before = *acknowledged.borrow();
    assert!(
        acknowledged_before < TASKS * ROUNDS * KINDS,
        "the writers do not finish"
    );

    mongod.restart().await.unwrap();
    for writer in writers {
        in_time("the service does not respond again", writer).await.unwrap();
    }
    service.wait_for("/health", 200).await;
    assert_eq!(*acknowledged.borrow(), TASKS * ROUNDS * KINDS);
    assert!(seen.recognized.load(Ordering::Relaxed) > 0);
    stored_once(&database).await;
}

/// Checks that all acknowledged writes are stored exactly once, and nothing else.
async fn stored_once(database: &Database) {
    for (collection, array, id) in [
        ("trades", "history", Some("tradeId")),
        ("sales", "customers_purchased", None),
        ("extra_sales", "customers_purchased_extra", None),
        ("patron", "addresses", Some("id")),
    ] {
        let path = id.map_or_else(|| format!("${array}"), |id| format!("${array}.{id}"));
        let pipeline = [
            doc! { "$unwind": format!("${array}") },
            doc! { "$project": { "_id": 0, "id": path } },
        ];
        let stored = database.collection::<Document>(collection);
        let found = stored.aggregate(pipeline).await.unwrap();
        let found: Vec<Document> = found.try_collect().await.unwrap();
        check_ids(collection, &found);
    }
    let reviews = database.collection::<Document>("review");
    let newest = doc! { "published_date": -1, "review_id": -1 };
    let fields = doc! { "_id": 0, "id": "$review_id" };
    let found = reviews.find(doc! { "product_id": 1 }).sort(newest).projection(fields);
    let found: Vec<Document> = found.await.unwrap().try_collect().await.unwrap();
    check_ids("review", &found);
    let products = database.collection::<Document>("product");
    let product = products.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
    let subset = product.get_array("reviews").unwrap().iter();
    let subset = subset.map(|review| review.as_document().unwrap().get_str("review_id").unwrap());
    let newest = found.iter().take(10).map(|review| review.get_str("id").unwrap());
    assert!(subset.eq(newest), "the product has its newest reviews");
}

/// Checks that no id is stored twice, and that all ids of the writers are stored if they belong to this collection.
fn check_ids(collection: &str, found: &[Document]) {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let ids = found.iter().map(|found| found.get_str("id").unwrap());
    for id in ids.filter(|id| id.starts_with("task")) {
        *times.entry(id).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{collection}: {times:?}");
    // The book was a bestseller before.
    let wanted = if collection == "sales" { 0 } else { TASKS * ROUNDS };
    assert_eq!(times.len() as u64, wanted, "{collection}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_shutdown_answers_the_requests_in_flight() {
    let uri = uri().await;
    let database = Client::with_uri_str(&uri).await.unwrap().default_database().unwrap();
    let mut service = Service::start(&uri).await;
    let address = service.address;

    // A transaction locks the customer's open bucket, so that the request waits on the server.
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let open = doc! { "customerId": 456, "count": { "$lt": 10 } };
    let held = database.collection::<Document>("trades");
    let held = held.update_one(open, doc! { "$set": { "held": true } });
    assert_eq!(held.session(&mut session).await.unwrap().modified_count, 1);
    let trade = json!({ "id": "late", "kind": "buy", "ticker": "MDB", "qty": 5 });
    let request = tokio::spawn(async move { send(address, "POST", "/customers/456/trades", &trade).await });
    let of_request =
        doc! { "currentOp": true, "ns": format!("{}.trades", database.name()), "active": true, "op": "update" };
    let admin = database.client().database("admin");
    let is_under_way = async {
        let mut found = 0;
        while found == 0 {
            let operations = admin.run_command(of_request.clone()).await.unwrap();
            found = operations.get_array("inprog").unwrap().len();
        }
    };
    in_time("the request is not on the server", is_under_way).await;

    service.terminate().await;
    let is_closed = async {
        while TcpStream::connect(address).await.is_ok() {
            pause().await;
        }
    };
    in_time("the service still accepts connections", is_closed).await;
    assert!(!request.is_finished(), "the request is in flight");
    session.abort_transaction().await.unwrap();
    let answer = request.await.unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(service.ended().await.success());
    let late = doc! { "customerId": 456, "history.tradeId": "late" };
    let trades = database.collection::<Document>("trades");
    assert_eq!(trades.count_documents(late).await.unwrap(), 1);
}
