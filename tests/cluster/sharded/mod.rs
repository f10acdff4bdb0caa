//! A sharded cluster of two shards: set-up, targeting, chunks that move under load, killed shards and a killed mongos,
//! uniqueness, orphaned documents. `cargo xtask cluster` runs these tests, which need a mongos.

mod ensure;
mod load;
mod orphans;
mod setup;
mod targeting;
mod unique;

use mongo_patterns_testkit::ShardedCluster;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database, Namespace};

use crate::cluster::load::stage::other_client;

async fn cluster() -> (ShardedCluster, Database) {
    let cluster = ShardedCluster::start(2).await.unwrap();
    let database = other_client(cluster.uri(), "test").await;
    (cluster, database)
}

fn namespace(database: &Database, collection: &str) -> Namespace {
    Namespace::new(database.name(), collection)
}

/// Shards a collection. Returns the code of the server's error.
async fn shard(database: &Database, collection: &str, key: Document) -> Result<(), i32> {
    let admin = database.client().database("admin");
    let shard = doc! { "shardCollection": namespace(database, collection).to_string(), "key": key };
    let sharded = admin.run_command(shard).await.map(drop);
    sharded.map_err(|error| mongo_patterns_core::error::code(&error).unwrap())
}

/// Returns a client of each shard alone.
async fn direct(cluster: &ShardedCluster) -> Vec<Client> {
    let mut clients = Vec::new();
    for shard in cluster.shards() {
        let uri = format!("{}&directConnection=true", shard.uri());
        clients.push(Client::with_uri_str(uri).await.unwrap());
    }
    clients
}
