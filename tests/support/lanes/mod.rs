//! Documents that another client holds in a transaction, and calls in flight.

pub mod operations;

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::mongodb::{Client, ClientSession};
use mongo_patterns_testkit::{RecordedCommand, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

pub use crate::common::{STUCK, ends, until};
pub use crate::lanes::operations::*;

/// The document that another client holds.
pub const HELD: i32 = 4711;
/// Documents that no other client holds.
pub const FREE: [i32; 2] = [2, 3];
/// How many items each document has before the first call.
const ITEMS: i32 = 60;

/// Another client, which holds a document in a transaction.
#[derive(Debug)]
pub struct Holder(ClientSession);

impl Holder {
    pub async fn hold(db: &TestDatabase, operation: &Operation, document: i32) -> Self {
        let client = Client::with_options(db.server().client_options().await.unwrap()).unwrap();
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let collection = client
            .database(db.database().name())
            .collection::<Document>(operation.collection);
        let filter = doc! { operation.id_field: document };
        let held = collection.find_one_and_update(filter, doc! { "$set": { "held": true } });
        let held = held.session(&mut session).await.unwrap();
        assert!(held.is_some(), "{}: no document", operation.name);
        Self(session)
    }

    /// Ends the transaction, which changes nothing.
    pub async fn release(mut self) {
        self.0.abort_transaction().await.unwrap();
    }
}

/// Stores the documents of an operation, and runs it once for each free document, which checks the indexes. Returns
/// repositories of the recorded client.
pub async fn prepare(db: &TestDatabase, operation: &Operation) -> Repositories {
    let plain = Repositories::new(&db.plain_client().database(db.database().name()));
    for document in [FREE[0], FREE[1], HELD] {
        store(db, &plain, operation, document).await;
    }
    let repositories = Repositories::new(db.database());
    for document in FREE {
        operation.run(&repositories, document, FIRST).await.unwrap();
    }
    db.recorder().clear();
    repositories
}

async fn store(db: &TestDatabase, of: &Repositories, operation: &Operation, document: i32) {
    match operation.collection {
        "trades" => {
            of.trades.ensure_indexes().await.unwrap();
            let items: Vec<Document> = (0..ITEMS).map(trade).collect();
            of.trades.append_many(&document, &items).await.unwrap();
        }
        "sales" => {
            of.books.ensure_indexes().await.unwrap();
            of.books.insert(&doc! { "_id": document }).await.unwrap();
        }
        "product" => {
            of.products.ensure_indexes().await.unwrap();
            let products = db.plain_collection::<Document>("product");
            products.insert_one(doc! { "_id": document }).await.unwrap();
            if operation.name != "insert" {
                of.products.insert(&review(document, 0)).await.unwrap();
            }
        }
        "currentPolicies" => {
            of.policies.ensure_indexes().await.unwrap();
            let policy = doc! { "policyId": document, "itemsInsured": [] };
            of.policies.insert(&policy).await.unwrap();
        }
        "patron" => drop(of.patrons.insert(&doc! { "_id": document }).await.unwrap()),
        "customers" | "orders" => {
            of.orders.ensure_indexes().await.unwrap();
            let customers = db.plain_collection::<Document>("customers");
            customers
                .insert_one(doc! { "_id": document, "name": "Ann" })
                .await
                .unwrap();
            let order = doc! { "_id": document, "customer": { "_id": document } };
            of.orders.insert(&order).await.unwrap();
        }
        "contacts" => {
            of.contacts.ensure_indexes().await.unwrap();
            let version = if operation.name == "update of a version" { 2 } else { 1 };
            let contacts = db.plain_collection::<Document>("contacts");
            let contact = doc! { "_id": document, "schemaVersion": version, "calls": [] };
            contacts.insert_one(contact).await.unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Returns the numbers of the calls that are stored in a document.
pub async fn stored(db: &TestDatabase, operation: &Operation, document: i32) -> Vec<i32> {
    let plain = |name| db.plain_collection::<Document>(name);
    let (collection, id_field, array) = match operation.name {
        "append" => ("trades", "customerId", "history"),
        "push" => ("sales", "_id", "customers"),
        "insert" => ("review", "product_id", ""),
        "update" => ("currentPolicies", "policyId", "itemsInsured"),
        "add_child" => ("patron", "_id", "addresses"),
        "update of a version" | "update of an older version" => ("contacts", "_id", "calls"),
        other => panic!("{other} replaces a value"),
    };
    let found = plain(collection).find(doc! { id_field: document }).await.unwrap();
    let found: Vec<Document> = found.try_collect().await.unwrap();
    let items = found.iter().flat_map(|found| match array {
        "" => vec![Bson::Document(found.clone())],
        array => found.get_array(array).cloned().unwrap_or_default(),
    });
    let number = |item: Bson| match item {
        Bson::Int32(n) => n,
        Bson::String(user) => user.trim_start_matches("user").parse().unwrap(),
        Bson::Document(item) => match item.get_i32("review_id") {
            Ok(id) => id - review_id(document, 0),
            Err(_) => item.get_i32("n").or_else(|_| item.get_i32("id")).unwrap(),
        },
        other => panic!("{other}"),
    };
    let mut numbers: Vec<i32> = items.map(number).filter(|n| *n >= FIRST).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the session and the number of a transaction or a retryable write.
fn write_of(command: &Document) -> Option<(&Bson, i64)> {
    let session = command.get_document("lsid").ok()?.get("id")?;
    Some((session, command.get_i64("txnNumber").ok()?))
}

/// Returns whether a command has the id of a document.
fn has_id(value: &Bson, document: i32) -> bool {
    match value {
        Bson::Int32(id) => *id == document,
        Bson::Int64(id) => *id == i64::from(document),
        Bson::Array(values) => values.iter().any(|value| has_id(value, document)),
        Bson::Document(values) => values.values().any(|value| has_id(value, document)),
        _ => false,
    }
}

/// Returns the commands for a document.
pub fn commands_for(db: &TestDatabase, document: i32) -> Vec<RecordedCommand> {
    let mut commands = db.recorder().commands();
    commands.retain(|command| has_id(&Bson::Document(command.essence()), document));
    commands
}

/// Returns the names of the commands that were sent after the first ones, without those of calls for one document.
pub fn sent_besides(db: &TestDatabase, document: i32, first: usize) -> Vec<String> {
    let of_document = commands_for(db, document);
    let is_of_document = |sent: &RecordedCommand| {
        let write = write_of(&sent.command);
        write.is_some() && of_document.iter().any(|other| write_of(&other.command) == write)
    };
    let since = db.recorder().commands().split_off(first);
    let since = since.into_iter().filter(|sent| !is_of_document(sent));
    since.map(|sent| sent.name).collect()
}

/// Returns the number of commands for a document that have no reply yet: each has a connection.
pub fn in_flight(db: &TestDatabase, document: i32) -> usize {
    let commands = commands_for(db, document);
    let in_flight = commands.iter().filter(|sent| sent.reply.is_none() && !sent.failed);
    in_flight.count()
}

/// Drops a call for the held document while its command is in flight.
pub async fn drop_in_flight<T: std::fmt::Debug>(db: &TestDatabase, call: impl Future<Output = T>) {
    tokio::select! {
        called = call => panic!("{called:?}"),
        () = until("the command", async || in_flight(db, HELD) > 0) => {}
    }
}

/// Returns the operations of the test's client on the server, and its idle transactions and connections.
pub async fn operations_on_server(db: &TestDatabase) -> Vec<Document> {
    operations_of(db, db.app_name()).await
}

async fn operations_of(db: &TestDatabase, app_name: &str) -> Vec<Document> {
    let all = doc! { "$currentOp": { "allUsers": true, "idleSessions": true, "idleConnections": true } };
    let of_test = doc! { "$match": { "appName": app_name } };
    current_operations(db, [all, of_test]).await
}

/// Returns whose transactions are open on the server, since how many microseconds, and their last command.
pub async fn open_transactions(db: &TestDatabase) -> Vec<String> {
    let all = doc! { "$currentOp": { "allUsers": true, "idleSessions": true } };
    let open = doc! { "$match": { "transaction": { "$exists": true } } };
    let in_short = |operation: &Document| {
        let open = operation.get_document("transaction").unwrap().get("timeOpenMicros");
        let command = operation
            .get_document("command")
            .ok()
            .and_then(|command| command.keys().next());
        format!("{:?} {open:?} {command:?}", operation.get_str("appName"))
    };
    let open = current_operations(db, [all, open]).await;
    open.iter().map(in_short).collect()
}

/// Returns the results of an aggregation of operations.
pub async fn current_operations(db: &TestDatabase, pipeline: [Document; 2]) -> Vec<Document> {
    let pipeline = pipeline.to_vec();
    let command = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": { "batchSize": 10_000 } };
    let admin = db.plain_client().database("admin");
    let found = admin.run_command(command).await.unwrap();
    let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let found = found.iter().filter_map(Bson::as_document);
    found.cloned().collect()
}

/// Returns the writes of a document that the server executes or that are in its open transactions: each as its session and
/// number. The server does not list them at one moment: a write can be there with the next one, or twice.
async fn seen_on_server(db: &TestDatabase, document: i32) -> BTreeSet<String> {
    let operations = operations_on_server(db).await;
    let commands = commands_for(db, document);
    let write_for = |operation: &Document| {
        let transaction = operation.get_document("transaction");
        let transaction = transaction.and_then(|transaction| transaction.get_document("parameters"));
        let is_active = operation.get_bool("active").unwrap_or(false);
        if !is_active && transaction.is_err() {
            return None;
        }
        let command = operation.get_document("command");
        let number = transaction.and_then(|parameters| parameters.get_i64("txnNumber"));
        let number = number.or_else(|_| command.and_then(|command| command.get_i64("txnNumber")));
        let session = operation.get_document("lsid").ok().and_then(|lsid| lsid.get("id"));
        let write = session.zip(number.ok());
        let is_for = write.is_some() && commands.iter().any(|sent| write_of(&sent.command) == write);
        is_for.then(|| format!("{write:?}"))
    };
    operations.iter().filter_map(write_for).collect()
}

/// Returns how many writes of a document the server has at one moment: those that it lists twice.
pub async fn on_server_for(db: &TestDatabase, document: i32) -> usize {
    let first = seen_on_server(db, document).await;
    match first.len() {
        0 | 1 => first.len(),
        _ => first.intersection(&seen_on_server(db, document).await).count(),
    }
}

/// Returns how many connections the test's client has.
pub async fn connections(db: &TestDatabase) -> usize {
    let operations = operations_on_server(db).await;
    let mut connections: Vec<i64> = operations
        .iter()
        .filter_map(|operation| match operation.get("connectionId") {
            Some(Bson::Int32(id)) => Some(i64::from(*id)),
            Some(Bson::Int64(id)) => Some(*id),
            _ => None,
        })
        .collect();
    connections.sort_unstable();
    connections.dedup();
    connections.len()
}

/// Waits until the server has executed what the clients of [`ending_app_name`] had sent, and ends their transactions. The
/// server does so after 60 seconds, and other clients wait for it. Returns how many they were.
pub async fn end_transactions_of_ended(db: &TestDatabase) -> usize {
    let app_name = ending_app_name(db.database().name());
    let operations = async || operations_of(db, &app_name).await;
    let is_session = |operation: &Document| operation.get_str("type").is_ok_and(|kind| kind == "idleSession");
    until("the close of the connections", async || {
        operations().await.iter().all(is_session)
    })
    .await;
    let open = operations().await.into_iter();
    let open = open.filter(|operation| operation.contains_key("transaction"));
    let sessions: Vec<Bson> = open.filter_map(|operation| operation.get("lsid").cloned()).collect();
    let open = sessions.len();
    if open > 0 {
        // An empty list is all sessions.
        let admin = db.plain_client().database("admin");
        admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
    }
    open
}

/// Returns the active operations of all clients whose command has the id of a document.
pub async fn active_for(db: &TestDatabase, document: i32) -> Vec<Document> {
    let all = doc! { "$currentOp": { "allUsers": true } };
    let namespace = format!("{}.", db.database().name());
    let of_test =
        doc! { "$match": { "active": true, "$expr": { "$eq": [{ "$indexOfBytes": ["$ns", namespace] }, 0] } } };
    let mut active = current_operations(db, [all, of_test]).await;
    active.retain(|operation| {
        operation
            .get("command")
            .is_some_and(|command| has_id(command, document))
    });
    active
}
