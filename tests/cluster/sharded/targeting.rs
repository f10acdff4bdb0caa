//! Which shards receive the commands of a call, from the profiles of both.

use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::{cluster, direct, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::outlier::Sales;
use crate::cluster::load::subset;
use crate::common::support::spread;
use crate::outlier::support::book;
use crate::subset::support::review_of;

/// The profiles of the shards.
struct Profiles(Vec<Client>);

impl Profiles {
    async fn set(&self, level: i32) {
        for shard in &self.0 {
            shard
                .database("test")
                .run_command(doc! { "profile": level })
                .await
                .unwrap();
        }
    }

    /// Runs a call, and returns how many shards ran a command of it.
    async fn of<T>(&self, call: impl IntoFuture<Output = mongo_patterns::Result<T>>) -> usize {
        self.set(0).await;
        for shard in &self.0 {
            let profile = shard.database("test").collection::<Document>("system.profile");
            profile.drop().await.unwrap();
        }
        self.set(2).await;
        call.await.unwrap();
        self.set(0).await;
        let mut reached = 0;
        for shard in &self.0 {
            let profile = shard.database("test").collection::<Document>("system.profile");
            let ours = doc! { "ns": { "$ne": "test.system.profile" }, "command.profile": { "$exists": false } };
            reached += usize::from(profile.count_documents(ours).await.unwrap() > 0);
        }
        reached
    }
}

async fn shard_all(database: &Database) {
    let collections = [
        ("trades", "customerId"),
        ("sales", "_id"),
        ("extra_sales", "book_id"),
        ("product", "_id"),
        ("review", "product_id"),
    ];
    for (collection, field) in collections {
        // A hashed key has chunks on both shards from the start.
        shard(database, collection, doc! { field: "hashed" }).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_for_one_key_reaches_one_shard() {
    let (cluster, database) = cluster().await;
    shard_all(&database).await;
    let load = Load::new();
    let trades = Ledger::new("trades", false, &load).repository(&database, Level::Default);
    trades.ensure_indexes().await.unwrap();
    let profiles = Profiles(direct(&cluster).await);
    let many: Vec<_> = (0..25).map(spread).collect();
    for key in 0..8 {
        assert_eq!(profiles.of(trades.append(&key, &spread(1))).await, 1);
        assert_eq!(profiles.of(trades.append_many(&key, &many)).await, 1);
        assert_eq!(profiles.of(trades.pages(&key)).await, 1);
        assert_eq!(profiles.of(trades.newest(&key, 5)).await, 1);
        assert_eq!(profiles.of(trades.counts(&key)).await, 1);
        // By the prefix of `_id`, as in the manual.
        assert_eq!(profiles.of(trades.page(&key, 1)).await, 2);
        assert_eq!(profiles.of(trades.count_pages(&key)).await, 2);
        assert_eq!(profiles.of(trades.delete_key(&key)).await, 1);
    }

    let books = Sales::new(false, &load).repository(&database);
    books.ensure_indexes().await.unwrap();
    for id in 0..8 {
        books.insert(&book(id, 0)).await.unwrap();
        for n in 0..12 {
            let reached = profiles.of(books.push(id, &format!("customer {n}"))).await;
            // The eleventh element begins an overflow document, in a transaction. The hash of one number is the same
            // in both collections, but their chunks may be on different shards.
            assert!(
                reached == 1 || (n >= 10 && reached == 2),
                "element {n}: {reached} shards"
            );
        }
        assert!(profiles.of(books.get(id)).await == 1);
    }

    subset::prepare(&database).await;
    let products = subset::repository(&database);
    for id in 0..8 {
        assert_eq!(profiles.of(products.get(id)).await, 1);
        assert_eq!(profiles.of(products.children(id)).await, 1);
        // Two collections, each by its own key.
        assert!(profiles.of(products.insert(&review_of(id, id, 1))).await <= 2);
    }
}
