//! The documented behaviour of dropped futures that the table of drops does not cover.

use std::fmt::Debug;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use support::bucket::damage::{bucket, named, plant, with};
use support::common::*;
use support::outlier::{Books, book, builder as books_builder, ready as books_ready};
use support::subset::{embedded, products, review, wrong};

/// Reads all items of a stream, and drops the future of each item at each point at which it waits. Returns the number
/// of dropped futures too.
async fn read_by_dropped_futures<T>(mut stream: impl Stream<Item = Result<T, Error>> + Unpin) -> (Vec<T>, usize) {
    let (mut items, mut dropped) = (Vec::new(), 0);
    loop {
        match stream.next().now_or_never() {
            Some(Some(item)) => items.push(item.unwrap()),
            Some(None) => return (items, dropped),
            None => {
                dropped += 1;
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn check_stream<T: Debug + PartialEq>(
    stream: impl Stream<Item = Result<T, Error>> + Unpin,
    expected: impl Stream<Item = Result<T, Error>>,
) {
    let expected: Vec<T> = expected.try_collect().await.unwrap();
    let (items, dropped) = read_by_dropped_futures(stream).await;
    assert_eq!(items, expected);
    assert!(!items.is_empty() && dropped > 0, "{dropped} dropped, {items:?}");
}

#[tokio::test]
async fn a_stream_resumes_after_the_future_of_an_item_is_dropped() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for key in 1..4 {
            let items: Vec<Trade> = (0..25).map(spread).collect();
            trades.append_many(&key, &items).await.unwrap();
        }
        check_stream(trades.items(&1).stream(), trades.items(&1).stream()).await;
        check_stream(trades.keys().stream(), trades.keys().stream()).await;

        let books: Books = books_ready(db, books_builder(db).threshold(3).max_overflow_elements(4)).await;
        books.insert(&book(1, 30)).await.unwrap();
        check_stream(books.elements(1).stream(), books.elements(1).stream()).await;
    })
    .await;
}

/// The transaction of the caller continues, because the stream keeps the command on its way.
#[tokio::test]
async fn the_callers_transaction_survives_the_dropped_future_of_an_item() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items: Vec<Trade> = (0..25).map(spread).collect();
        trades.append_many(&1, &items).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        trades.append(&1, &spread(25)).session(&mut session).await.unwrap();
        let stream = trades.items(&1).session(&mut session).stream();
        let (items, dropped) = read_by_dropped_futures(stream).await;
        assert_eq!((items.len(), dropped > 0), (26, true));
        session.commit_transaction().await.unwrap();
        assert_eq!(trades.counts(&1).await.unwrap().items, 26);
    })
    .await;
}

#[tokio::test]
async fn a_repair_resumes_after_the_futures_of_its_items_are_dropped() {
    testkit::run(async |db| {
        let keys = ["A", "B", "C"];
        plant(db, keys.map(|key| with(bucket(key, 0..3), "count", 7))).await;
        let named = named(db).build().unwrap();
        confirm_settings(named.ensure_indexes()).await;
        let (repaired, dropped) = read_by_dropped_futures(named.repair().stream()).await;
        assert_eq!((repaired.len(), dropped > 0), (3, true));
        assert!(support::bucket::damage::findings(&named).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_write_is_stored_after_the_first_poll_of_its_future() {
    testkit::run(async |db| {
        let trades: Trades = ready(db, builder(db).item_id_field("n")).await;
        // The first write checks that the index exists.
        trades.append(&2, &spread(2)).await.unwrap();
        drop(trades.append(&1, &spread(0)).into_future());
        assert!(trades.append(&1, &spread(1)).into_future().now_or_never().is_none());
        let again = trades.append(&1, &spread(1)).await.unwrap();
        assert!(again.already_there);
        assert_eq!(trades.counts(&1).await.unwrap().items, 1);

        let books: Books = books_ready(db, books_builder(db)).await;
        books.insert(&book(1, 0)).await.unwrap();
        drop(books.push(1, "user00").into_future());
        assert!(books.push(1, "user01").into_future().now_or_never().is_none());
        books.push(1, "user02").await.unwrap();
        assert_eq!(books.elements(1).await.unwrap(), ["user01", "user02"]);
    })
    .await;
}

#[tokio::test]
async fn a_retried_batch_stores_no_child_twice() {
    testkit::run(async |db| {
        let products = products(db).await;
        let children: Vec<_> = (0..3).map(review).collect();
        products.insert_many(&children[..2]).await.unwrap();
        let again = products.insert_many(&children).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(embedded(db).await, [1, 0]);
        let mut missing = Vec::new();
        for child in children {
            if products.child(1, child.review_id).await.unwrap().is_none() {
                missing.push(child);
            }
        }
        assert_eq!(missing, [review(2)]);
        products.insert_many(&missing).await.unwrap();
        assert_eq!(embedded(db).await, [2, 1, 0]);
        let plain = |name| db.plain_collection::<Document>(name);
        assert_eq!(wrong(&plain("product"), &plain("review"), 10).await, []);
    })
    .await;
}

/// A dropped delete leaves overflow documents that no main document refers to.
#[tokio::test]
async fn a_retried_delete_deletes_the_overflow_documents_that_are_left() {
    testkit::run(async |db| {
        let books: Books = books_ready(db, books_builder(db).threshold(3).max_overflow_elements(4)).await;
        books.insert(&book(1, 30)).await.unwrap();
        let plain = |name| db.plain_collection::<Document>(name);
        plain("sales").delete_one(doc! { "_id": 1 }).await.unwrap();
        let findings: Vec<_> = books.verify().stream().try_collect().await.unwrap();
        assert!(!findings.is_empty());
        let deleted = books.delete(1).await.unwrap();
        assert!(deleted.found && deleted.documents > 0, "{deleted:?}");
        assert_eq!(all(&plain("extra_sales")).await, Vec::<Document>::new());
    })
    .await;
}
