//! The items of a key as a stream.

use futures::TryStreamExt;
use mongo_patterns_testkit as testkit;

use support::bucket::*;
use support::common::*;

#[tokio::test]
async fn a_stream_has_every_item_once_in_both_directions() {
    testkit::run(async |db| {
        for page_size in [1, 7, 2500] {
            for count in [0, 1, 2500] {
                plain(db).drop().await.unwrap();
                let trades = ready(db, builder(db).page_size(page_size)).await;
                trades.append_many(&123, &trades_of(0..count)).await.unwrap();
                trades.append_many(&12, &trades_of(0..20)).await.unwrap();
                db.recorder().clear();
                let stored = collected(trades.items(&123).stream()).await;
                assert_eq!(stored, trades_of(0..count));
                let finds = db.recorder().names();
                let pages_at_once = (1000 / i64::from(page_size)).max(1);
                let pages = (count + i64::from(page_size) - 1) / i64::from(page_size);
                let expected = usize::try_from(pages / pages_at_once + 1).unwrap();
                assert_eq!(finds, vec!["find"; expected], "{count} items in pages of {page_size}");

                let mut newest = collected(trades.items(&123).newest_first().stream()).await;
                newest.reverse();
                assert_eq!(newest, trades_of(0..count));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_fetches_only_what_is_read() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &trades_of(0..10_000)).await.unwrap();
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
async fn a_stream_continues_while_items_are_appended() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &trades_of(0..1995)).await.unwrap();
        let mut stream = trades.items(&123).stream();
        let mut read = Vec::new();
        for n in 1995..3500 {
            // Some at the ends of its round trips, and the others in batches.
            if n % 100 == 95 {
                trades.append(&123, &spread(n)).await.unwrap();
                trades
                    .append_many(&123, &trades_of(n + 1..3500.min(n + 100)))
                    .await
                    .unwrap();
            }
            read.push(stream.try_next().await.unwrap().unwrap().n);
        }
        read.extend(numbers(&collected(stream).await));
        assert_eq!(read, (0..3500).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_fails_has_returned_the_items_before() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &trades_of(0..1500)).await.unwrap();
        let mut broken = full_bucket(SECOND + 5000);
        broken.insert("count", 11);
        plain(db).insert_one(broken).await.unwrap();
        let (read, error) = until_error(trades.items(&123).stream()).await;
        assert!(read.len() >= 1000);
        assert!(error.is_corrupt());
    })
    .await;
}
