//! Updates of many documents through a router, while chunks move: no shard updates a document that moves at this moment, and
//! the reply does not show it. No router is part of the tests: a [`Router`] of them loses such updates.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::reference::{OnReferences, Reference};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_core::send::IsRouter;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Database};

use support::common::all;
use support::reference as orders;
use support::reference::rename;
use support::router::Router;
use support::{history, subset};

/// Returns how many updates of many documents were sent since the last call.
fn updates_of_many(router: &Router) -> usize {
    let commands = router.recorder.commands();
    router.recorder.clear();
    let is_of_many = |update: &Document| update.get_bool("multi").unwrap_or(false);
    let updates = commands
        .iter()
        .filter_map(|sent| sent.command.get_array("updates").ok());
    let updates = updates.flatten().filter_map(|update| update.as_document());
    updates.filter(|update| is_of_many(update)).count()
}

fn lose(router: &Router, updates: usize) {
    router.metadata().lost_updates = updates;
    router.recorder.clear();
}

/// Returns buckets of two trades, with the sum of their quantities or without it.
fn trades_of(database: &Database, with_sum: bool) -> BucketRepository<u32, Document> {
    let builder = BucketRepository::<u32, Document>::builder(database.collection::<Document>("trades"));
    let builder = builder.key_field("customerId").items_field("history").page_size(2);
    let builder = if with_sum { builder.sum("qty") } else { builder };
    builder.build().unwrap()
}

#[tokio::test]
async fn the_copies_of_a_source_are_current_when_its_update_returns() {
    testkit::run(async |db| {
        let router = Router::seen_by_the_driver(db).await;
        let with_products = Reference::new("products").copied_fields(["name"]).array();
        let repository = orders::builder(&router.database()).add_reference(with_products);
        let repository = repository.build().unwrap();
        repository.ensure_indexes().await.unwrap();
        orders::add_customers(db, 1..=2).await;
        for id in 1..=3 {
            let order = doc! { "_id": id, "customer": { "_id": 1 }, "products": [{ "_id": 1 }, { "_id": 2 }] };
            repository.insert(&order).await.unwrap();
        }
        for lost in 0..4 {
            let name = format!("Ann {lost}");
            lose(&router, lost);
            repository.update_source(1, rename(&name)).await.unwrap();
            // One for each reference.
            assert_eq!(updates_of_many(&router), 2 + lost);
            let current = doc! { "customer.name": &name, "products.0.name": &name, "products.1.name": "Ann" };
            assert_eq!(orders::stored(db).count_documents(current).await.unwrap(), 3, "{lost}");
            assert_eq!(orders::findings(&repository).await, []);
        }
        // One that died before it updated the copies.
        let changed = doc! { "$set": { "name": "Bea" }, "$inc": { "v": 1_i64 } };
        orders::customers(db)
            .update_one(doc! { "_id": 1 }, changed)
            .await
            .unwrap();
        lose(&router, 3);
        repository.refresh_copies(1).await.unwrap();
        assert_eq!(orders::findings(&repository).await, []);
        lose(&router, 1);
        let deleted = repository.delete_source(2).on_references(OnReferences::Clear);
        deleted.await.unwrap();
        let dangling = doc! { "products._id": 2 };
        assert_eq!(orders::stored(db).count_documents(dangling).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_update_that_is_never_complete_ends_as_contention() {
    testkit::run(async |db| {
        let router = Router::seen_by_the_driver(db).await;
        let trades = trades_of(&router.database(), false);
        trades.ensure_indexes().await.unwrap();
        trades.append(&1, &doc! { "qty": 3 }).await.unwrap();
        let summed = trades_of(&router.database(), true);
        lose(&router, usize::MAX);
        let error = summed.refresh_figures().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
        assert!(error.to_string().contains("again and again"), "{error}");
        let sent = updates_of_many(&router);
        assert!((2..=100).contains(&sent), "{sent}");
        lose(&router, 0);
        assert_eq!(summed.refresh_figures().await.unwrap().documents, 1);
    })
    .await;
}

#[tokio::test]
async fn every_document_is_migrated_and_every_subset_and_figure_rebuilt() {
    testkit::run(async |db| {
        let router = Router::seen_by_the_driver(db).await;
        let database = router.database();

        let policies = |ids: std::ops::RangeInclusive<i32>| ids.map(history::policy).collect::<Vec<_>>();
        history::current(db).insert_many(policies(1..=5)).await.unwrap();
        let repository = history::builder(&database).build().unwrap();
        lose(&router, 2);
        let migrated = repository.migrate_existing().await.unwrap();
        assert_eq!(migrated.documents, 5);
        assert_eq!(history::findings(&repository).await, []);

        let plain = trades_of(&database, false);
        plain.ensure_indexes().await.unwrap();
        plain.append_many(&1, &vec![doc! { "qty": 3 }; 5]).await.unwrap();
        let summed = trades_of(&database, true);
        for lost in [2, 0] {
            lose(&router, lost);
            let refreshed = summed.refresh_figures().await.unwrap();
            assert_eq!(updates_of_many(&router), 1 + lost);
            assert_eq!(refreshed.documents, if lost > 0 { 3 } else { 0 });
        }
        assert_eq!(summed.verify().stream().try_collect::<Vec<_>>().await.unwrap().len(), 0);

        let products = subset::builder::<Document, Document>(&database).build().unwrap();
        products.ensure_indexes().await.unwrap();
        let review = doc! { "review_id": 1, "published_date": DateTime::from_millis(0) };
        let unmanaged = (1..=3).map(|id| doc! { "_id": id, "reviews": [&review] });
        subset::product(db).insert_many(unmanaged).await.unwrap();
        lose(&router, 2);
        products.refresh_all().discard_embedded().await.unwrap();
        let empty = |product: &Document| product.get_array("reviews").unwrap().is_empty();
        assert!(all(&subset::product(db)).await.iter().all(empty));
    })
    .await;
}

/// A read by the router before an update would be a further command of each update of a source.
#[tokio::test]
async fn the_driver_knows_a_router_and_nothing_is_sent() {
    testkit::run(async |db| {
        let router = Router::seen_by_the_driver(db).await;
        for (of_router, expected) in [(true, true), (false, false)] {
            let trades: Collection<RawDocumentBuf> = match of_router {
                true => router.database().collection("trades"),
                false => db.collection("trades"),
            };
            db.recorder().clear();
            router.recorder.clear();
            assert_eq!(is_router(&trades).await, expected);
            assert_eq!((db.recorder().names().len(), router.recorder.names().len()), (0, 0));
        }
    })
    .await;
}

async fn is_router(collection: &Collection<RawDocumentBuf>) -> bool {
    let is_router = IsRouter::default();
    let first = is_router.of(collection).await.unwrap();
    assert_eq!(is_router.clone().of(collection).await.unwrap(), first);
    first
}
