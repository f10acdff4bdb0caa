//! The items of a key as a stream.

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use crate::common::support::*;

fn all_trades(count: i64) -> Vec<Trade> {
    (0..count).map(spread).collect()
}

#[tokio::test]
async fn a_stream_has_every_item_once_in_both_directions() {
    testkit::run(async |db| {
        for page_size in [1, 7, 10, 2500] {
            for count in [0, 1, 10, 2500] {
                db.plain_collection::<mongodb::bson::Document>("trades")
                    .drop()
                    .await
                    .unwrap();
                let trades = ready(db, builder(db).page_size(page_size)).await;
                trades.append_many(&123, &all_trades(count)).await.unwrap();
                trades.append_many(&12, &all_trades(20)).await.unwrap();
                db.recorder().clear();
                let stored: Vec<Trade> = trades.items(&123).stream().try_collect().await.unwrap();
                assert_eq!(stored, all_trades(count));
                let finds = db.recorder().names();
                let pages_at_once = (1000 / i64::from(page_size)).max(1);
                let pages = (count + i64::from(page_size) - 1) / i64::from(page_size);
                let expected = usize::try_from(pages / pages_at_once + 1).unwrap();
                assert_eq!(finds, vec!["find"; expected], "{count} items in pages of {page_size}");

                let mut newest: Vec<Trade> = trades.items(&123).newest_first().stream().try_collect().await.unwrap();
                newest.reverse();
                assert_eq!(newest, all_trades(count));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_fetches_only_what_is_read() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &all_trades(10_000)).await.unwrap();
        db.recorder().clear();
        let mut stream = trades.items(&123).stream();
        assert_eq!(db.recorder().round_trips(), 0);
        for n in 0..1000 {
            assert_eq!(stream.try_next().await.unwrap(), Some(spread(n)));
        }
        assert_eq!(db.recorder().names(), ["find"]);
        stream.try_next().await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "find"]);
        drop(stream);
        assert_eq!(db.recorder().round_trips(), 2, "and no cursor is left to kill");
    })
    .await;
}

/// Appends between its round trips add to the end, or to a page that was read already. No item is returned twice.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_stream_continues_while_items_are_appended() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &all_trades(1995)).await.unwrap();
        let mut stream = trades.items(&123).stream();
        let mut read = Vec::new();
        for n in 1995..3500 {
            trades.append(&123, &spread(n)).await.unwrap();
            read.push(stream.try_next().await.unwrap().unwrap().n);
        }
        let rest: Vec<Trade> = stream.try_collect().await.unwrap();
        read.extend(rest.iter().map(|trade| trade.n));
        assert_eq!(read, (0..3500).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_stream_in_a_transaction_and_one_that_fails() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        trades
            .append_many(&123, &all_trades(25))
            .session(&mut session)
            .await
            .unwrap();
        let seen: Vec<Trade> = trades
            .items(&123)
            .session(&mut session)
            .stream()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(seen, all_trades(25));
        session.abort_transaction().await.unwrap();
        assert_eq!(trades.items(&123).stream().count().await, 0);

        trades.append_many(&123, &all_trades(1500)).await.unwrap();
        let mut broken = full_bucket(SECOND + 5000);
        broken.insert("count", 11);
        plain(db).insert_one(broken).await.unwrap();
        let results: Vec<_> = trades.items(&123).stream().collect().await;
        let (last, items) = results.split_last().unwrap();
        assert!(items.iter().all(Result::is_ok) && items.len() >= 1000);
        assert!(last.as_ref().unwrap_err().is_corrupt());
        plain(db).delete_many(doc! {}).await.unwrap();

        let strings = BucketRepository::<String, i32>::builder(trades.collection().clone())
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        let error = strings.items(&"k".repeat(2000)).stream().try_next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidKey);
    })
    .await;
}
