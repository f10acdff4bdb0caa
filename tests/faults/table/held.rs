//! Every public operation, dropped several times while another client holds all documents of its pattern.
//!
//! - A call of another repository of the same client needs its normal commands, and ends while the documents are held.
//! - The server has one operation for a document at most, and the pool has no more connections than its bound.
//! - After the holder ends, the stored data is what the operation [promises](Promise) for one dropped future.

use std::time::Duration;

use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use super::case::{Case, Undisturbed};
use super::operation::Promise;
use support::embedded::Patrons;
use support::lanes::{connections, current_operations, ends};

/// How many calls are dropped, one after another. Of an operation that is not safe to retry, one is: a call that does not wait
/// for the holder takes effect.
const CALLS: usize = 3;
/// The connections of the driver's default pool, and those that monitor the server.
const CONNECTIONS: usize = 10 + 2;
const OTHERS: &str = "others";

impl Case<'_> {
    /// Drops the operation after this time, while its documents are held. Returns whether a call was dropped.
    pub(super) async fn drop_while_held(&self, undisturbed: &Undisturbed, time: Duration) -> bool {
        let (model, other) = self.begin().await;
        let context = format!("{}, dropped after {time:?} while it is held", self.operation.name());
        let mut holder = hold(self.db, self.suite.collections).await;
        let (mut dropped, mut done) = (0, 0);
        let is_retried = self.operation.promise != Promise::PrefixOnce;
        for _ in 0..if is_retried { CALLS } else { 1 } {
            match tokio::time::timeout(time, model.run(self.number)).await {
                Err(_) => dropped += 1,
                Ok(Ok(_)) => done += 1,
                Ok(Err(_)) => {}
            }
            self.check_another_call(&context).await;
        }
        if self.operation.promise != Promise::Steps {
            let operations = operations_of_documents(self.db).await;
            let mut once = operations.clone();
            once.dedup();
            assert_eq!(operations, once, "{context}: the operations on the server");
        }
        let connections = connections(self.db).await;
        assert!(connections <= CONNECTIONS, "{context}: {connections} connections");
        holder.abort_transaction().await.unwrap();
        self.check_no_transactions(&context).await;
        self.wait_until_settled(&*other).await;
        // A call that ended did not wait for the held documents.
        let is_held = dropped > 0 && done == 0;
        if is_held {
            self.check_after_drop(undisturbed, (&*model, &*other), &context).await;
        }
        is_held
    }

    /// Checks that a call for a document that no other client holds sends its command, and gets the reply.
    async fn check_another_call(&self, context: &str) {
        let others = Patrons::builder(self.db.collection::<Document>(OTHERS));
        let others = others.children_field("children").build().unwrap();
        let sent = self.db.recorder().round_trips();
        let document = doc! { "_id": ObjectId::new() };
        let insert = ends(context, async { others.insert(&document).await }).await;
        assert!(insert.is_ok(), "{context}: {insert:?}");
        let mut commands = self.db.recorder().commands().split_off(sent);
        commands.retain(|sent| sent.command.get_str(&sent.name).is_ok_and(|name| name == OTHERS));
        let names: Vec<&str> = commands.iter().map(|sent| sent.name.as_str()).collect();
        assert_eq!(names, ["insert"], "{context}");
    }
}

/// Holds all documents of these collections in a transaction, which changes nothing.
async fn hold(db: &TestDatabase, collections: &[&str]) -> ClientSession {
    let mut session = db.plain_client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    for name in collections {
        let collection = db.plain_collection::<Document>(name);
        let held = collection.update_many(doc! {}, doc! { "$set": { "held": true } });
        held.session(&mut session).await.unwrap();
    }
    session
}

/// Returns the collections and filters of the operations of the test's client, sorted.
async fn operations_of_documents(db: &TestDatabase) -> Vec<String> {
    let all = doc! { "$currentOp": { "allUsers": true } };
    let of_test = doc! { "$match": { "active": true, "appName": db.app_name() } };
    let operations = current_operations(db, [all, of_test]).await;
    let filter = |operation: &Document| {
        let command = operation.get_document("command").ok()?;
        let filter = command.get("q").or_else(|| command.get("query"));
        let namespace = operation.get_str("ns").ok()?;
        filter.map(|filter: &Bson| format!("{namespace} {filter}"))
    };
    let mut operations: Vec<String> = operations.iter().filter_map(filter).collect();
    operations.sort_unstable();
    operations
}
