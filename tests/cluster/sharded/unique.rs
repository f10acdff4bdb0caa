//! The same item, element and child from 64 writers while chunks move: each is stored once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use mongo_patterns::Repository;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::ShardedCluster;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::{cluster, namespace, shard};
use crate::cluster::load::bucket::{Ledger, Level};
use crate::cluster::load::calls::Load;
use crate::cluster::load::outlier::Sales;
use crate::cluster::load::subset;
use support::common::spread;
use support::outlier::book;
use support::subset::review_of;

const WRITERS: i64 = 64;
const ROUNDS: i64 = 20;

/// Moves the chunk of a key back and forth until the writers have ended. Returns how often it moved.
async fn move_until(cluster: &ShardedCluster, database: &Database, chunk: (&str, Document), ended: &AtomicBool) -> u32 {
    let mut moves = 0;
    while !ended.load(Ordering::Relaxed) {
        let namespace = namespace(database, chunk.0);
        let moved = cluster
            .move_chunk(&namespace, chunk.1.clone(), moves as usize % 2)
            .await;
        moves += u32::from(moved.is_ok());
    }
    moves
}

/// Runs the same call by all writers at once, in each round, while the chunk moves.
async fn race<F: Future<Output = bool> + Send + 'static>(
    cluster: &ShardedCluster,
    database: &Database,
    chunk: (&str, Document),
    call: impl Fn(i64) -> F,
) {
    let ended = Arc::new(AtomicBool::new(false));
    let writers = async {
        for round in 0..ROUNDS {
            let writers = (0..WRITERS).map(|_| tokio::spawn(call(round)));
            let stored = join_all(writers).await.into_iter();
            let stored = stored.filter(|stored| *stored.as_ref().unwrap());
            assert_eq!(stored.count(), 1, "{}: round {round}", chunk.0);
        }
        ended.store(true, Ordering::Relaxed);
    };
    let (moves, ()) = tokio::join!(move_until(cluster, database, chunk.clone(), &ended), writers);
    assert!(moves > 0, "{}: the chunk did not move", chunk.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_elements_and_children_with_ids_are_stored_once_while_chunks_move() {
    let (cluster, database) = cluster().await;
    let collections = [
        ("orders", doc! { "customerId": 1 }),
        ("unique_sales", doc! { "_id": 1 }),
        ("extra_unique_sales", doc! { "book_id": 1 }),
        ("product", doc! { "_id": 1 }),
        ("review", doc! { "product_id": 1 }),
    ];
    for (collection, key) in collections {
        shard(&database, collection, key).await.unwrap();
    }
    let load = Load::new();

    let trades = Ledger::new("orders", true, &load).repository(&database, Level::Default);
    trades.ensure_indexes().await.unwrap();
    race(&cluster, &database, ("orders", doc! { "customerId": 1 }), |round| {
        let trades = trades.clone();
        async move { !trades.append(&1, &spread(round)).await.unwrap().already_there }
    })
    .await;
    assert_eq!(trades.counts(&1).await.unwrap().items, ROUNDS as u64);

    let books = Sales::new(true, &load).repository(&database);
    books.ensure_indexes().await.unwrap();
    books.insert(&book(1, 0)).await.unwrap();
    // The overflow documents move too, as the array is full after ten.
    for moving in [("unique_sales", "_id"), ("extra_unique_sales", "book_id")] {
        race(&cluster, &database, (moving.0, doc! { moving.1: 1 }), |round| {
            let books = books.clone();
            let element = format!("{} {round}", moving.0);
            async move { books.push_unique(1, &element).await.unwrap() != Pushed::AlreadyThere }
        })
        .await;
    }
    assert_eq!(books.elements(1).await.unwrap().len() as i64, 2 * ROUNDS);

    subset::prepare(&database).await;
    let products = subset::repository(&database);
    race(&cluster, &database, ("review", doc! { "product_id": 1 }), |round| {
        let products = products.clone();
        let review = review_of(1, round as i32, round);
        async move { products.insert(&review).await.is_ok() }
    })
    .await;
    let reviews = database.collection::<Document>("review");
    let stored = reviews.count_documents(doc! { "product_id": 1 }).await.unwrap();
    assert_eq!(stored as i64, ROUNDS);
    subset::assert_correct(&database).await;
}
