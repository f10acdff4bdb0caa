//! `ensure_sharded` and `verify_shard_keys` on a real cluster.

use futures::future::try_join_all;
use mongo_patterns::sharding::EnsuredSharding;
use mongo_patterns::{ErrorKind, Repository};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::{cluster, direct, namespace, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::subset;
use crate::common::repositories::Repositories;
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
    let repositories = Repositories::new(&database);
    let mut first = Vec::new();
    for ensure in repositories.ensure_sharded() {
        first.push(ensure.await.unwrap());
    }
    for (ensure, first) in repositories.ensure_sharded().into_iter().zip(&first) {
        let second = ensure.await.unwrap();
        let sharded = |ensured: &EnsuredSharding| ensured.collections.iter().map(|one| one.sharded).collect::<Vec<_>>();
        assert!(sharded(first).iter().all(|is_new| *is_new), "{first:?}");
        assert!(sharded(&second).iter().all(|is_new| !is_new), "{second:?}");
        assert!(second.indexes.created.is_empty(), "{second:?}");
    }
    for (repository, ensured) in repositories.all().into_iter().zip(&first) {
        let recommended: Vec<Document> = repository
            .shard_keys()
            .into_iter()
            .map(|choice| choice.recommended)
            .collect();
        let keys: Vec<Document> = ensured.collections.iter().map(|one| one.key.clone()).collect();
        assert_eq!(keys, recommended);
    }
    for repository in repositories.all() {
        assert_eq!(repository.verify_shard_keys().await.unwrap(), []);
    }
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
