//! The load of all patterns while chunks move, shards die and the mongos dies. Transactions span both shards. The migrations
//! are between collections that are not sharded.

use mongo_patterns_testkit::ShardedCluster;
use mongodb::Database;
use mongodb::bson::doc;

use super::{cluster, namespace, shard};
use crate::cluster::load::calls::Load;
use crate::cluster::load::stage::{Stage, other_client, quiet};

/// The collections of the load, with the shard keys that the documentation recommends.
const COLLECTIONS: [(&str, &str); 13] = [
    ("trades", "customerId"),
    ("orders", "customerId"),
    ("sales", "_id"),
    ("extra_sales", "book_id"),
    ("unique_sales", "_id"),
    ("extra_unique_sales", "book_id"),
    ("patron", "_id"),
    ("currentPolicies", "policyId"),
    ("policyRevisions", "policyId"),
    ("shopOrders", "_id"),
    ("shopCustomers", "_id"),
    ("product", "_id"),
    ("review", "product_id"),
];
/// How many calls succeed between two faults.
const HEALTHY: u64 = 60;
const ROUNDS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_stored_once_whatever_happens_to_chunks_shards_and_mongos() {
    let (mut cluster, database) = cluster().await;
    let past = other_client(cluster.uri(), "past").await;
    for (collection, field) in COLLECTIONS {
        shard(&database, collection, doc! { field: "hashed" }).await.unwrap();
    }
    // The follower reads products and reviews of a database of its own.
    for (collection, field) in &COLLECTIONS[11..] {
        shard(&past, collection, doc! { *field: "hashed" }).await.unwrap();
    }
    let stage = Stage::start(cluster.uri()).await;
    for round in 0..ROUNDS {
        stage.load.progress(HEALTHY).await;
        let moved = move_chunks(&cluster, &database, round).await;
        assert!(moved > 0, "no chunk was moved in round {round}");
        fail(&mut cluster, &stage.load, round).await;
    }
    stage.load.progress(HEALTHY).await;
    let counts = stage.load.counts();
    let (stored, _) = stage.judge(async |_, database| quiet(database).await).await;
    println!("{counts:#?}\n{stored:#?}");
    for (kind, counts) in &counts {
        assert!(counts.done > 0, "{kind}: {counts:?}");
    }
    assert!(stored.migrations.0 > 0);
    assert_ne!(stored.followed, Some(0));
}

/// Moves a chunk of each collection to the other shard. Returns how many moved: a chunk with a transaction that is
/// prepared does not move at once.
async fn move_chunks(cluster: &ShardedCluster, database: &Database, round: usize) -> usize {
    let mut moved = 0;
    for (number, (collection, field)) in COLLECTIONS.into_iter().enumerate() {
        let key = doc! { field: number as i64 };
        let to = (round + number) % 2;
        let done = cluster.move_chunk(&namespace(database, collection), key, to).await;
        moved += usize::from(done.is_ok());
    }
    moved
}

async fn fail(cluster: &mut ShardedCluster, load: &Load, round: usize) {
    match round % 4 {
        1 | 2 => {
            let shard = round % 4 - 1;
            cluster.kill_shard(shard).await.unwrap();
            cluster.restart_shard(shard).await.unwrap();
        }
        3 => {
            cluster.kill_mongos().await.unwrap();
            cluster.restart_mongos().await.unwrap();
        }
        _ => load.progress(HEALTHY).await,
    }
}
