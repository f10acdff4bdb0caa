//! A failover can roll back what a default read returned, but not what a read with the read concern `majority`
//! returned.

use std::time::Duration;

use mongo_patterns_testkit::ReplicaSet;
use mongodb::bson::{DateTime, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};

use crate::cluster::load::bucket::{Ledger, Level};
use support::common::{Trade, Trades};

/// A key that the load does not write.
const KEY: u32 = 999_999_999;

/// Returns the nodes, each by a client of its own.
async fn nodes(set: &ReplicaSet) -> Vec<Client> {
    let uri = set.uri();
    let hosts = uri.trim_start_matches("mongodb://").split('/').next().unwrap();
    let mut nodes = Vec::new();
    for host in hosts.split(',') {
        let direct = format!("mongodb://{host}/?directConnection=true&serverSelectionTimeoutMS=500");
        nodes.push(Client::with_uri_str(direct).await.unwrap());
    }
    nodes
}

/// Stops or resumes the replication of the secondaries.
async fn replicate(secondaries: &[Client], mode: &str) {
    for node in secondaries {
        let command = doc! { "configureFailPoint": "stopReplProducer", "mode": mode };
        node.database("admin").run_command(command).await.unwrap();
    }
}

async fn shown(trades: &Trades) -> Vec<i64> {
    let items = trades.newest(&KEY, 100).await.unwrap();
    items.iter().map(|item| item.n).collect()
}

/// Waits until a condition holds, and asks for it without a pause.
async fn until(condition: &str, holds: impl AsyncFn() -> bool) {
    let waits = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let waits = tokio::time::timeout(Duration::from_secs(60), waits).await;
    waits.unwrap_or_else(|_| panic!("not after a minute: {condition}"));
}

/// Kills the primary with an item that no other node has.
pub async fn check(set: &mut ReplicaSet, ledger: &Ledger, database: &Database) {
    let by_default = ledger.repository(database, Level::Default);
    let by_majority = ledger.repository(database, Level::Majority);
    // A dropped command runs to its end, which must not be a retry on the next primary.
    let mut once = ClientOptions::parse(set.uri()).await.unwrap();
    once.retry_writes = Some(false);
    let once = Client::with_options(once).unwrap().database(database.name());
    let written_once = ledger.repository(&once, Level::Default);
    let mut secondaries = nodes(set).await;
    let primary = secondaries.remove(set.primary().await.unwrap());
    replicate(&secondaries, "alwaysOn").await;
    let mut acknowledged = Vec::new();
    let pending = loop {
        let n = acknowledged.len() as i64;
        let trades = written_once.clone();
        let mut append = tokio::spawn(async move {
            let date = DateTime::now();
            trades.append(&KEY, &Trade { n, date }).await
        });
        let is_shown = async || shown(&by_default).await.contains(&n);
        until("a read returns the item", is_shown).await;
        // Requests of the secondaries that were sent before still get data.
        match tokio::time::timeout(Duration::from_millis(300), &mut append).await {
            Ok(appended) => drop(appended.unwrap().unwrap()),
            Err(_) => {
                append.abort();
                break n;
            }
        }
        acknowledged.insert(0, n);
    };
    assert_eq!(shown(&by_default).await[0], pending);
    assert_eq!(shown(&by_majority).await, acknowledged);
    let resume = async {
        let admin = primary.database("admin");
        let has_ended = async || admin.run_command(doc! { "hello": 1 }).await.is_err();
        until("the primary has ended", has_ended).await;
        replicate(&secondaries, "off").await;
    };
    let (killed, ()) = tokio::join!(set.kill_primary(), resume);
    assert_eq!(shown(&by_default).await, acknowledged, "it is rolled back");
    set.restart(killed.unwrap()).await.unwrap();
    for reader in [by_default, by_majority] {
        assert_eq!(shown(&reader).await, acknowledged);
    }
}
