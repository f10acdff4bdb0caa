//! `ensure_sharded` and `verify_shard_keys` on a real cluster.

use futures::future::try_join_all;
use mongo_patterns::sharding::EnsuredSharding;
use mongo_patterns::{ErrorKind, Repository};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::{cluster, direct, namespace, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::stage::other_client;
use crate::cluster::load::subset;
use support::common::{Trades, spread};
use support::repositories::Repositories;

fn trades(database: &Database) -> Trades {
    Ledger::new("trades", true, &Load::new()).repository(database, Level::Default)
}

/// Each in a database of its own.
#[tokio::test]
async fn collections_are_sharded_as_recommended() {
    let (cluster, database) = cluster().await;
    each_pattern_is_set_up_once(database).await;
    let of = |name| other_client(cluster.uri(), name);
    concurrent_calls_set_up_one_collection(of("concurrent").await).await;
    a_collection_with_documents_is_sharded_and_stays_as_it_is(of("filled").await).await;
    hashed_keys_distribute_the_documents(&direct(&cluster).await, of("hashed").await).await;
    an_unsuitable_key_is_refused_and_named(of("unsuitable").await).await;
}

async fn each_pattern_is_set_up_once(database: Database) {
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
        let recommended = repository.shard_keys().into_iter().map(|choice| choice.recommended);
        let keys = ensured.collections.iter().map(|one| one.key.clone());
        assert_eq!(keys.collect::<Vec<Document>>(), recommended.collect::<Vec<_>>());
        assert_eq!(repository.verify_shard_keys().await.unwrap(), []);
    }
}

async fn concurrent_calls_set_up_one_collection(database: Database) {
    let repositories: Vec<Trades> = (0..8).map(|_| trades(&database)).collect();
    let calls = repositories.iter().map(|trades| trades.ensure_sharded().into_future());
    try_join_all(calls).await.unwrap();
    assert!(repositories[0].verify_shard_keys().await.unwrap().is_empty());
    repositories[0].append(&1, &spread(1)).await.unwrap();
}

async fn a_collection_with_documents_is_sharded_and_stays_as_it_is(database: Database) {
    let trades = trades(&database);
    trades.ensure_indexes().await.unwrap();
    for n in 0..25 {
        trades.append(&(n % 2), &spread(n.into())).await.unwrap();
    }
    assert!(trades.ensure_sharded().await.unwrap().collections[0].sharded);
    let [even, odd] = [trades.counts(&0).await.unwrap(), trades.counts(&1).await.unwrap()];
    assert_eq!(even.items + odd.items, 25);
    trades.append(&1, &spread(25)).await.unwrap();
}

async fn hashed_keys_distribute_the_documents(shards: &[Client], database: Database) {
    subset::prepare(&database).await;
    let products = database.collection::<Document>("product");
    products.drop().await.unwrap();
    let repository = subset::repository(&database);
    repository.ensure_sharded().hashed().await.unwrap();
    let hundred = (0..100).map(|id| doc! { "_id": id });
    products.insert_many(hundred).await.unwrap();
    for shard in shards {
        let of_shard = shard.database(database.name()).collection::<Document>("product");
        assert!(of_shard.count_documents(doc! {}).await.unwrap() > 0);
    }
}

async fn an_unsuitable_key_is_refused_and_named(database: Database) {
    shard(&database, "trades", doc! { "_id": 1 }).await.unwrap();
    let trades = trades(&database);
    let error = trades.ensure_sharded().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsuitableShardKey, "{error}");
    let named = trades.verify_shard_keys().await.unwrap();
    assert_eq!(named[0].namespace, namespace(&database, "trades"));
    assert_eq!(named[0].key, doc! { "_id": 1 });
    let stored = database.collection::<Document>("trades");
    assert_eq!(stored.list_index_names().await.unwrap(), ["_id_"]);
}
