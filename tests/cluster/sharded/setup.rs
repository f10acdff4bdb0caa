//! Which shard keys the server accepts after `ensure_indexes`, and with which code it refuses the others.

use mongo_patterns::Repository;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::{cluster, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::outlier::Sales;
use crate::cluster::load::stage::other_client;
use crate::cluster::load::subset;

/// No index supports the shard key, or a unique index does not begin with it.
const INVALID_OPTIONS: i32 = 72;
/// A unique index does not begin with the shard key.
const CANNOT_CREATE_INDEX: i32 = 67;

/// Shards a collection that has its indexes, and drops it before the next shard key.
async fn after_indexes(database: &Database, collection: &str, keys: Vec<(Document, Result<(), i32>)>) {
    for (key, expected) in keys {
        let empty = database.collection::<Document>(collection);
        empty.drop().await.unwrap();
        set_up(database).await;
        let sharded = shard(database, collection, key.clone()).await;
        assert_eq!(sharded, expected, "{collection} by {key}");
    }
}

async fn set_up(database: &Database) {
    let load = Load::new();
    let trades = Ledger::new("trades", false, &load).repository(database, Level::Default);
    trades.ensure_indexes().replace_settings().await.unwrap();
    let books = Sales::new(true, &load).repository(database);
    books.ensure_indexes().replace_settings().await.unwrap();
    let products = subset::repository(database);
    products.ensure_indexes().replace_settings().await.unwrap();
}

/// Each in a database of its own.
#[tokio::test]
async fn the_server_accepts_the_documented_shard_keys_alone() {
    let (cluster, database) = cluster().await;
    the_documented_shard_keys_are_accepted_and_others_refused(database).await;
    let of = |name| other_client(cluster.uri(), name);
    a_range_of_keys_shards_buckets_only_before_the_partial_index(of("range").await).await;
    an_unsuitable_shard_key_refuses_the_unique_index(of("unsuitable").await).await;
}

async fn the_documented_shard_keys_are_accepted_and_others_refused(database: Database) {
    let refused = Err(INVALID_OPTIONS);
    let buckets = vec![
        (doc! { "customerId": "hashed" }, Ok(())),
        (doc! { "_id": 1 }, refused),
        (doc! { "customerId": 1, "_id": 1 }, refused),
    ];
    after_indexes(&database, "trades", buckets).await;
    let overflow = vec![
        (doc! { "book_id": 1 }, Ok(())),
        (doc! { "book_id": "hashed" }, Ok(())),
        (doc! { "_id": 1 }, refused),
        (doc! { "seq": 1 }, refused),
    ];
    after_indexes(&database, "extra_unique_sales", overflow).await;
    let children = vec![
        (doc! { "product_id": 1 }, Ok(())),
        (doc! { "product_id": "hashed" }, Ok(())),
        (doc! { "product_id": 1, "review_id": 1 }, Ok(())),
        (doc! { "_id": 1 }, refused),
        (doc! { "review_id": 1 }, refused),
    ];
    after_indexes(&database, "review", children).await;
    let main = vec![(doc! { "_id": 1 }, Ok(())), (doc! { "_id": "hashed" }, Ok(()))];
    after_indexes(&database, "unique_sales", main.clone()).await;
    after_indexes(&database, "product", main).await;
}

async fn a_range_of_keys_shards_buckets_only_before_the_partial_index(database: Database) {
    let key = doc! { "customerId": 1 };
    set_up(&database).await;
    // The server takes the partial unique index for the supporting one, and refuses it.
    assert_eq!(shard(&database, "trades", key.clone()).await, Err(INVALID_OPTIONS));

    database.collection::<Document>("trades").drop().await.unwrap();
    assert_eq!(shard(&database, "trades", key).await, Ok(()));
    set_up(&database).await;
}

async fn an_unsuitable_shard_key_refuses_the_unique_index(database: Database) {
    shard(&database, "trades", doc! { "_id": 1 }).await.unwrap();
    let trades = Ledger::new("trades", false, &Load::new()).repository(&database, Level::Default);
    let error = trades.ensure_indexes().await.unwrap_err();
    let code = error.as_driver_error().and_then(mongo_patterns_core::error::code);
    assert_eq!(code, Some(CANNOT_CREATE_INDEX), "{error}");
}
