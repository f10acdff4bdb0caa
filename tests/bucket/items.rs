//! The items of a key as a stream, and polling for those that are appended later.

use futures::TryStreamExt;
use mongo_patterns::bucket::ItemToken;
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
        trades.append_many(&123, &trades_of(0..2_500)).await.unwrap();
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

        // A stream that fails has returned the items before.
        let mut broken = full_bucket(SECOND + 5000);
        broken.insert("count", 11);
        plain(db).insert_one(broken).await.unwrap();
        let (read, error) = until_error(trades.items(&123).stream()).await;
        assert!(read.len() >= 2000 && error.is_corrupt(), "{} {error:?}", read.len());
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
async fn a_poller_gets_each_item_once_and_in_order() {
    testkit::run(async |db| {
        for (page_size, limit) in [(3, 4), (10, 100), (1, 1)] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(page_size)).await;
            let mut seen: Option<ItemToken> = None;
            let mut polled = Vec::new();
            let mut appended = 0;
            for more in [0, 1, 2, 0, 3, 10, 0, 0, 1, 30, 5] {
                for n in appended..appended + more {
                    trades.append(&123, &spread(n)).await.unwrap();
                }
                appended += more;
                loop {
                    db.recorder().clear();
                    let items = trades.items(&123).after(seen.clone()).limit(limit);
                    let page = items.page().await.unwrap();
                    assert!(db.recorder().round_trips() <= 2);
                    // The position is the same where there are more.
                    assert!(page.next.is_none() || page.next == page.last_token);
                    assert_eq!(page.last_token.is_none(), polled.is_empty() && page.items.is_empty());
                    // A program stores the token as text.
                    seen = page.last_token.map(|token| token.to_string().parse().unwrap());
                    if page.items.is_empty() {
                        break;
                    }
                    polled.extend(numbers(&page.items));
                }
                assert_eq!(polled, (0..appended).collect::<Vec<_>>());
            }
        }
    })
    .await;
}

/// If the last pages have no items of the range, the position stays that of the last item.
#[tokio::test]
async fn a_poller_of_a_range_gets_its_items() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(3)).await;
        let of_range = || trades.items(&123).from(at(SECOND + 4)).until(at(SECOND + 8));
        let mut seen = None;
        let mut polled = Vec::new();
        for n in [0, 1, 2, 3, 4, 5, 9, 10, 6, 11, 12, 7, 13] {
            let time = at(SECOND + 20 + polled.len() as i64);
            trades.append(&123, &spread(n)).at(time).await.unwrap();
            let page = of_range().after(seen.clone()).page().await.unwrap();
            polled.extend(numbers(&page.items));
            seen = page.last_token;
        }
        assert_eq!(polled, [4, 5, 6, 7]);
        let all: Vec<Trade> = collected(of_range().stream()).await;
        assert_eq!(numbers(&all), polled);
    })
    .await;
}

/// The case in which the documentation says that a poller misses items.
#[tokio::test]
async fn a_poller_misses_items_that_open_a_page_before_its_position() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(3)).await;
        let first = trades_of(10..13);
        trades.append_many(&123, &first).await.unwrap();
        let seen = trades.items(&123).page().await.unwrap().last_token;
        trades.append(&123, &spread(1)).await.unwrap();
        trades.append(&123, &spread(2)).await.unwrap();
        let page = trades.items(&123).after(seen.clone()).page().await.unwrap();
        assert_eq!(numbers(&page.items), [0; 0]);
        assert!(page.last_token.is_some());
    })
    .await;
}

/// Newest first and backwards, it is the position at the end of the page too.
#[tokio::test]
async fn the_end_of_a_slice_is_a_position_in_each_direction() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(3)).await;
        let items = trades_of(0..8);
        trades.append_many(&123, &items).await.unwrap();
        let newest = trades.items(&123).newest_first().limit(20).page().await.unwrap();
        assert_eq!((newest.items.len(), &newest.next), (8, &None));
        let older = trades.items(&123).newest_first().after(newest.last_token.clone());
        let older = older.page().await.unwrap();
        assert_eq!((older.items, older.last_token), (vec![], newest.last_token));

        let all = trades.items(&123).limit(20).page().await.unwrap();
        let last = trades.items(&123).limit(2).before(all.last_token.clone());
        let last = last.page().await.unwrap();
        assert_eq!((numbers(&last.items), &last.last_token), (vec![6, 7], &all.last_token));
        let after = trades.items(&123).after(last.last_token).page().await.unwrap();
        assert_eq!(after.items, []);
    })
    .await;
}
