//! Which shards receive the commands of a call, from the profiles of both.

use mongo_patterns::Repository;
use std::collections::BTreeSet;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::{cluster, direct, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::outlier::Sales;
use crate::cluster::load::subset;
use support::common::spread;
use support::outlier::book;
use support::subset::review_of;

/// The numbers of shards.
type Shards = BTreeSet<usize>;

/// The profiles of the shards.
struct Profiles(Vec<Client>);

impl Profiles {
    async fn set(&self, level: i32) {
        for shard in &self.0 {
            let profile = doc! { "profile": level };
            shard.database("test").run_command(profile).await.unwrap();
        }
    }

    /// Runs a call, and returns the shards that ran a command of it.
    async fn of<T>(&self, call: impl IntoFuture<Output = mongo_patterns::Result<T>>) -> Shards {
        self.set(0).await;
        for shard in &self.0 {
            let profile = shard.database("test").collection::<Document>("system.profile");
            profile.drop().await.unwrap();
        }
        self.set(2).await;
        call.await.unwrap();
        self.set(0).await;
        let ours = doc! { "ns": { "$ne": "test.system.profile" }, "command.profile": { "$exists": false } };
        self.with("system.profile", ours).await
    }

    /// Returns the shards that have such documents.
    async fn with(&self, collection: &str, filter: Document) -> Shards {
        let mut shards = Shards::new();
        for (number, shard) in self.0.iter().enumerate() {
            let documents = shard.database("test").collection::<Document>(collection);
            if documents.count_documents(filter.clone()).await.unwrap() > 0 {
                shards.insert(number);
            }
        }
        shards
    }

    /// Returns the one shard that has such documents.
    async fn with_one(&self, collection: &str, filter: Document) -> Shards {
        let shards = self.with(collection, filter).await;
        assert_eq!(shards.len(), 1, "{collection}");
        shards
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
async fn a_call_reaches_the_shards_of_its_documents() {
    let (cluster, database) = cluster().await;
    shard_all(&database).await;
    let load = Load::new();
    let trades = Ledger::new("trades", false, &load).repository(&database, Level::Default);
    trades.ensure_indexes().await.unwrap();
    let profiles = Profiles(direct(&cluster).await);
    let many: Vec<_> = (0..25).map(spread).collect();
    let mut of_keys = Shards::new();
    for key in 0..8 {
        let reached = profiles.of(trades.append(&key, &spread(1))).await;
        let of_key = profiles.with_one("trades", doc! { "customerId": key }).await;
        assert_eq!(reached, of_key);
        assert_eq!(profiles.of(trades.append_many(&key, &many)).await, of_key);
        assert_eq!(profiles.of(trades.buckets(&key).page()).await, of_key);
        assert_eq!(profiles.of(trades.newest(&key, 5)).await, of_key);
        assert_eq!(profiles.of(trades.counts(&key)).await, of_key);
        // By the prefix of `_id`, as in the manual.
        assert_eq!(profiles.of(trades.page(&key, 1)).await.len(), 2);
        assert_eq!(profiles.of(trades.count_pages(&key)).await.len(), 2);
        assert_eq!(profiles.of(trades.delete_key(&key)).await, of_key);
        of_keys.extend(of_key);
    }
    assert_eq!(of_keys.len(), 2, "each shard has some of the keys");

    let books = Sales::new(false, &load).repository(&database);
    books.ensure_indexes().await.unwrap();
    for id in 0..8 {
        books.insert(&book(id, 0)).await.unwrap();
        let main = profiles.with_one("sales", doc! { "_id": id }).await;
        for n in 0..12 {
            let reached = profiles.of(books.push(id, &format!("customer {n}"))).await;
            let mut both = profiles.with("extra_sales", doc! { "book_id": id }).await;
            both.extend(&main);
            match n {
                ..10 => assert_eq!(reached, main, "element {n}"),
                // It begins an overflow document, in a transaction. The hash of one number is the same in both collections,
                // but their chunks may be on different shards.
                10 => assert_eq!(reached, both),
                _ => assert!(
                    !reached.is_empty() && reached.is_subset(&both),
                    "element {n}: {reached:?}"
                ),
            }
        }
        assert_eq!(profiles.of(books.get(id)).await, main);
    }

    subset::prepare(&database).await;
    let further = (subset::PRODUCTS..8).map(|id| doc! { "_id": id, "name": "Super Widget" });
    let parents = database.collection::<Document>("product");
    parents.insert_many(further).await.unwrap();
    let products = subset::repository(&database);
    // The first write checks the indexes, on any shard.
    products.insert(&review_of(0, 100, 1)).await.unwrap();
    for id in 0..8 {
        let of_parent = profiles.with_one("product", doc! { "_id": id }).await;
        let reached = profiles.of(products.insert(&review_of(id, id, 1))).await;
        let of_children = profiles.with_one("review", doc! { "product_id": id }).await;
        // Two collections, each by its own key.
        assert_eq!(reached, &of_parent | &of_children);
        assert_eq!(profiles.of(products.get(id)).await, of_parent);
        assert_eq!(profiles.of(products.children(id).page()).await, of_children);
    }
}
