//! `ensure_sharded` and `verify_shard_keys` on a real cluster.

use futures::future::try_join_all;
use mongo_patterns::ErrorKind;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::{cluster, direct, namespace, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::embedded::Addresses;
use crate::cluster::load::outlier::Sales;
use crate::cluster::load::subset;
use crate::common::support::{Trades, spread};

fn trades(database: &Database) -> Trades {
    Ledger::new("trades", true, &Load::new()).repository(database, Level::Default)
}

/// Returns the number of documents on each shard.
async fn on_each(shards: &[Client], collection: &str) -> Vec<u64> {
    let mut counts = Vec::new();
    for shard in shards {
        let documents = shard.database("test").collection::<Document>(collection);
        counts.push(documents.count_documents(doc! {}).await.unwrap());
    }
    counts
}

#[tokio::test]
async fn each_pattern_is_set_up_once() {
    let (_cluster, database) = cluster().await;
    let load = Load::new();
    let trades = trades(&database);
    let books = Sales::new(true, &load).repository(&database);
    let patrons = Addresses::new(&load).repository(&database);
    let products = subset::repository(&database);
    let first = [
        trades.ensure_sharded().await.unwrap(),
        books.ensure_sharded().await.unwrap(),
        patrons.ensure_sharded().await.unwrap(),
        products.ensure_sharded().await.unwrap(),
    ];
    let second = [
        trades.ensure_sharded().await.unwrap(),
        books.ensure_sharded().await.unwrap(),
        patrons.ensure_sharded().await.unwrap(),
        products.ensure_sharded().await.unwrap(),
    ];
    for (first, second) in first.iter().zip(&second) {
        assert!(
            first.collections.iter().all(|collection| collection.sharded),
            "{first:?}"
        );
        assert!(
            second.collections.iter().all(|collection| !collection.sharded),
            "{second:?}"
        );
        assert!(second.indexes.created.is_empty(), "{second:?}");
    }
    let choices = [
        trades.shard_keys(),
        books.shard_keys(),
        patrons.shard_keys(),
        products.shard_keys(),
    ];
    for (choices, ensured) in choices.iter().zip(&first) {
        let keys = |(choice, collection): (&_, &_)| {
            let choice: &mongo_patterns_core::sharding::ShardKeyChoice = choice;
            let collection: &mongo_patterns_core::sharding::ShardedCollection = collection;
            choice.recommended == collection.key
        };
        assert!(choices.iter().zip(&ensured.collections).all(keys));
    }
    assert!(trades.verify_shard_keys().await.unwrap().is_empty());
    assert!(books.verify_shard_keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn concurrent_calls_set_up_one_collection() {
    let (_cluster, database) = cluster().await;
    let repositories: Vec<Trades> = (0..8).map(|_| trades(&database)).collect();
    let calls = repositories.iter().map(|trades| trades.ensure_sharded().into_future());
    try_join_all(calls).await.unwrap();
    assert!(repositories[0].verify_shard_keys().await.unwrap().is_empty());
    repositories[0].append(&1, &spread(1)).await.unwrap();
}

#[tokio::test]
async fn a_collection_with_documents_is_sharded_and_stays_as_it_is() {
    let (_cluster, database) = cluster().await;
    let trades = trades(&database);
    trades.ensure_indexes().await.unwrap();
    for n in 0..25 {
        trades.append(&(n % 2), &spread(n.into())).await.unwrap();
    }
    assert!(trades.ensure_sharded().await.unwrap().collections[0].sharded);
    assert_eq!(
        trades.counts(&0).await.unwrap().items + trades.counts(&1).await.unwrap().items,
        25
    );
    trades.append(&1, &spread(25)).await.unwrap();
}

#[tokio::test]
async fn hashed_keys_distribute_the_documents() {
    let (cluster, database) = cluster().await;
    let shards = direct(&cluster).await;
    subset::prepare(&database).await;
    let products = database.collection::<Document>("product");
    products.drop().await.unwrap();
    let repository = subset::repository(&database);
    repository.ensure_sharded().hashed().await.unwrap();
    products
        .insert_many((0..100).map(|id| doc! { "_id": id }))
        .await
        .unwrap();
    assert!(on_each(&shards, "product").await.iter().all(|count| *count > 0));
}

#[tokio::test]
async fn an_unsuitable_key_is_refused_and_named() {
    let (_cluster, database) = cluster().await;
    shard(&database, "trades", doc! { "_id": 1 }).await.unwrap();
    let trades = trades(&database);
    let error = trades.ensure_sharded().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsuitableShardKey, "{error}");
    let named = trades.verify_shard_keys().await.unwrap();
    assert_eq!(named[0].namespace, namespace(&database, "trades"));
    assert_eq!(named[0].key, doc! { "_id": 1 });
    let names = database
        .collection::<Document>("trades")
        .list_index_names()
        .await
        .unwrap();
    assert_eq!(names, ["_id_"]);
}
