//! Polling for the items of a key that are appended later.

use mongo_patterns::bucket::{IdPolicy, ItemToken};
use mongo_patterns_testkit as testkit;

use support::bucket::*;
use support::common::*;

#[tokio::test]
async fn a_poller_gets_each_item_once_and_in_order() {
    testkit::run(async |db| {
        for (policy, page_size, limit) in [
            (IdPolicy::Monotonic, 3, 4),
            (IdPolicy::ItemTime, 10, 100),
            (IdPolicy::ItemTime, 1, 1),
        ] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(page_size).id_policy(policy)).await;
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

/// The cases in which the documentation says that a poller misses items.
#[tokio::test]
async fn a_poller_misses_items_that_open_a_page_before_its_position() {
    testkit::run(async |db| {
        for (policy, expected) in [(IdPolicy::ItemTime, vec![]), (IdPolicy::Monotonic, vec![1, 2])] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(3).id_policy(policy)).await;
            let first = trades_of(10..13);
            trades.append_many(&123, &first).await.unwrap();
            let seen = trades.items(&123).page().await.unwrap().last_token;
            trades.append(&123, &spread(1)).await.unwrap();
            trades.append(&123, &spread(2)).await.unwrap();
            let page = trades.items(&123).after(seen.clone()).page().await.unwrap();
            assert_eq!(numbers(&page.items), expected, "{policy:?}");
            assert!(page.last_token.is_some(), "{policy:?}");
        }
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
        let last = trades.items(&123).limit(2).page().before(all.last_token.clone());
        let last = last.await.unwrap();
        assert_eq!((numbers(&last.items), &last.last_token), (vec![6, 7], &all.last_token));
        let after = trades.items(&123).after(last.last_token).page().await.unwrap();
        assert_eq!(after.items, []);
    })
    .await;
}
