//! Documents that a moved chunk left behind on its former shard: no call sees them.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongodb::bson::{Document, doc};

use super::{cluster, direct, namespace, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use support::common::{all, spread};

const ITEMS: i64 = 95;

#[tokio::test]
async fn no_call_sees_orphaned_buckets() {
    let (cluster, database) = cluster().await;
    shard(&database, "trades", doc! { "customerId": 1 }).await.unwrap();
    let trades = Ledger::new("trades", false, &Load::new()).repository(&database, Level::Default);
    trades.ensure_indexes().await.unwrap();
    for n in 0..ITEMS {
        trades.append(&1, &spread(n)).await.unwrap();
    }
    let shards = direct(&cluster).await;
    for shard in &shards {
        let pause = doc! { "configureFailPoint": "suspendRangeDeletion", "mode": "alwaysOn" };
        shard.database("admin").run_command(pause).await.unwrap();
    }
    let key = doc! { "customerId": 1 };
    for to in [1, 0, 1] {
        // The chunk may be there already.
        let namespace = namespace(&database, "trades");
        let _ = cluster.move_chunk(&namespace, key.clone(), to).await;
    }
    let mut stored = 0;
    for shard in &shards {
        let buckets = shard.database("test").collection::<Document>("trades");
        stored += all(&buckets).await.len();
    }
    assert!(stored > 10, "no shard has orphaned documents");

    assert_eq!(trades.counts(&1).await.unwrap().items, ITEMS as u64);
    assert_eq!(trades.buckets(&1).limit(100).page().await.unwrap().items.len(), 10);
    assert_eq!(trades.newest(&1, 1000).await.unwrap().len() as i64, ITEMS);
    let keys: Vec<u32> = trades.keys().stream().try_collect().await.unwrap();
    assert_eq!(keys, [1]);
    let findings: Vec<_> = trades.verify().stream().try_collect().await.unwrap();
    assert_eq!(findings, []);
}
