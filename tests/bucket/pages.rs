//! Pages by number and by cursor, and the newest items.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{Bucket, PageToken};
use mongo_patterns::list::Page;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, doc};

use support::bucket::*;
use support::common::*;

/// 35 trades on four pages.
async fn four_pages(db: &TestDatabase) -> Trades {
    let trades = trades(db).await;
    for (key, items) in [(123, 0..35), (12, 1000..1004), (1234, 2000..2004)] {
        trades.append_many(&key, &trades_of(items)).await.unwrap();
    }
    db.recorder().clear();
    trades
}

/// The number of the first item of each bucket.
fn firsts(page: &Page<Bucket<u32, Trade>, PageToken>) -> Vec<i64> {
    page.items.iter().map(|page| page.items[0].n).collect()
}

#[tokio::test]
async fn pages_are_numbered_from_one_and_read_from_the_nearer_end() {
    testkit::run(async |db| {
        let trades = four_pages(db).await;
        for number in 1..=4 {
            let page = trades.page(&123, number).await.unwrap().unwrap();
            let first = 10 * (i64::try_from(number).unwrap() - 1);
            assert_eq!(page.key, 123);
            assert_eq!(page.id, format!("123_{}", SECOND + first));
            assert_eq!(page.items, trades_of(first..35.min(first + 10)));
        }
        for number in [5, 10, u64::from(u32::MAX)] {
            assert_eq!(trades.page(&123, number).await.unwrap(), None);
        }
        assert_eq!(trades.page(&99, 1).await.unwrap(), None);
        assert_eq!(db.recorder().names(), vec!["find"; 8]);
        for number in [0, u64::MAX] {
            assert_refused(trades.page(&123, number).await, ErrorKind::InvalidArgument);
        }
        assert_eq!(db.recorder().round_trips(), 8, "and nothing was sent");

        // Of a known number of pages, it is read from the nearer end.
        let find = |order: i32, skip: i64| (order, (skip > 0).then_some(skip));
        let reads = [find(1, 0), find(1, 1), find(-1, 1), find(-1, 0)];
        for (number, read) in (1..=4).zip(reads) {
            let page = trades.page(&123, number).await.unwrap();
            db.recorder().clear();
            assert_eq!(trades.page(&123, number).of(4).await.unwrap(), page, "{number}");
            let sent = db.recorder().commands().pop().unwrap().command;
            let order = sent.get_document("sort").unwrap().get_i32("_id").unwrap();
            assert_eq!((order, sent.get_i64("skip").ok()), read, "{number}");
        }
        // The number is out of date: two pages fewer, and one page more.
        let fourth = trades.page(&123, 4).await.unwrap();
        for (number, of, expected) in [(4, 2, &fourth), (5, 4, &None), (3, 3, &fourth), (9, 9, &fourth)] {
            assert_eq!(
                trades.page(&123, number).of(of).await.unwrap(),
                *expected,
                "{number} of {of}"
            );
        }
        assert_refused(trades.page(&123, 0).of(u64::MAX).await, ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn a_page_of_buckets_has_tokens_in_both_directions_and_orders() {
    testkit::run(async |db| {
        let trades = four_pages(db).await;
        let second = trades.page(&123, 2).await.unwrap().unwrap().token().clone();
        db.recorder().clear();
        let buckets = || trades.buckets(&123);

        let page = buckets().after(second.clone()).limit(5).page().await.unwrap();
        assert_eq!((firsts(&page), &page.next), (vec![20, 30], &None));
        assert_eq!(page.previous, Some(page.items[0].token().clone()));
        assert_eq!(page.last_token, Some(page.items[1].token().clone()));

        let page = buckets().before(second.clone()).limit(5).page().await.unwrap();
        assert_eq!((firsts(&page), &page.previous), (vec![0], &None));
        assert_eq!(page.next, Some(page.items[0].token().clone()));

        let older = buckets().newest_first().after(second.clone()).limit(2);
        let page = older.page().await.unwrap();
        assert_eq!((firsts(&page), page.next), (vec![0], None));

        let newer = buckets().newest_first().before(second).limit(2);
        let page = newer.page().await.unwrap();
        assert_eq!(firsts(&page), [30, 20]);
        assert_eq!(page.next, Some(page.items[1].token().clone()));

        let page = buckets().newest_first().limit(3).page().await.unwrap();
        assert_eq!(firsts(&page), [30, 20, 10]);
        assert_eq!(page.items[0].items[0].n, 30, "items stay in the order of arrival");
        assert_eq!(db.recorder().names(), vec!["find"; 5]);

        // The buckets end exactly at the limit, so the next page is empty, and the one before it has the last ones.
        for newest_first in [false, true] {
            let asked = || {
                if newest_first {
                    buckets().newest_first()
                } else {
                    buckets()
                }
            };
            let all = asked().limit(4).page().await.unwrap();
            assert_eq!(all.previous, None);
            let none = asked().after(all.next).page().await.unwrap();
            assert_eq!((&none.items, &none.next), (&vec![], &None));
            let back = asked().before(none.previous).limit(3).page().await.unwrap();
            assert_eq!(back.items, all.items[1..]);
            assert!(back.previous.is_some());
            let start = asked().before(all.first_token).page().await.unwrap();
            assert_eq!((&start.items, &start.previous), (&vec![], &None));
            assert_eq!(asked().after(start.next).page().await.unwrap().items, all.items);
        }
        assert_refused(buckets().limit(0).page().await, ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn a_page_of_one_bucket_examines_one_document_at_any_position() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let buckets = (0..200).map(|n| full_bucket(SECOND + n));
        plain(db).insert_many(buckets).await.unwrap();
        let far: PageToken = format!("{}", SECOND + 180).parse().unwrap();
        let near: PageToken = format!("{SECOND}").parse().unwrap();
        let one = || trades.buckets(&123).limit(1);
        for token in [near, far] {
            one().after(token.clone()).page().await.unwrap();
            let examined = explain_last(db).await;
            assert_eq!((examined.keys, examined.documents), (1, 1), "{examined:?}");
            let tail = token.to_string();
            let bounds = format!("(\"123_{tail}\", \"123`\")");
            assert_eq!(examined.bounds.get_array("_id").unwrap(), &[Bson::String(bounds)]);
            one().newest_first().after(token).page().await.unwrap();
            let examined = explain_last(db).await;
            assert!(examined.documents <= 1, "{examined:?}");
            let bounds = format!("(\"123_{tail}\", \"123_\"]");
            assert_eq!(examined.bounds.get_array("_id").unwrap(), &[Bson::String(bounds)]);
        }
        trades.page(&123, 181).await.unwrap().unwrap();
        let examined = explain_last(db).await;
        assert_eq!((examined.keys, examined.documents), (181, 1), "{examined:?}");
        trades.page(&123, 181).of(200).await.unwrap().unwrap();
        let examined = explain_last(db).await;
        assert_eq!((examined.keys, examined.documents), (20, 1), "{examined:?}");
    })
    .await;
}

#[tokio::test]
async fn the_newest_items_are_returned_in_one_round_trip() {
    testkit::run(async |db| {
        let trades = four_pages(db).await;
        for wanted in [1_u32, 5, 6, 15, 16, 35, 36] {
            db.recorder().clear();
            let newest = trades.newest(&123, wanted).await.unwrap();
            let expected: Vec<Trade> = (0..35).rev().take(wanted as usize).map(spread).collect();
            assert_eq!(newest, expected, "{wanted}");
            assert_eq!(db.recorder().names(), ["find"], "{wanted}");
            let reply = db.recorder().commands().pop().unwrap().reply.unwrap();
            let buckets = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
            assert!(buckets.len() <= (wanted as usize - 1).div_ceil(10) + 1);
            if wanted < 10 {
                for bucket in buckets {
                    let items = bucket.as_document().unwrap().get_array("history").unwrap();
                    assert!(items.len() <= wanted as usize, "no more items are sent than requested");
                }
            }
        }
        assert_eq!(trades.newest(&99, 5).await.unwrap(), []);
        assert_refused(trades.newest(&123, 0).await, ErrorKind::InvalidArgument);

        // Buckets of other programs that are half full, or empty.
        let buckets = (0..20_i64).map(|n| {
            let items = (0..n % 3).map(|i| doc! { "n": n * 10 + i, "date": at(SECOND) }.into());
            let items: Vec<Bson> = items.collect();
            let count = i32::try_from(items.len()).unwrap();
            doc! { "_id": format!("124_{}", SECOND + n), "customerId": 124, "count": count, "history": items }
        });
        plain(db).drop_indexes().await.unwrap();
        plain(db).insert_many(buckets).await.unwrap();
        let newest = trades.newest(&124, 9).await.unwrap();
        assert_eq!(numbers(&newest), [190, 171, 170, 160, 141, 140, 130, 111, 110]);
        assert_eq!(trades.newest(&124, 100).await.unwrap().len(), 19);
    })
    .await;
}

#[tokio::test]
async fn the_largest_numbers_of_pages_are_right() {
    testkit::run(async |db| {
        let trades = four_pages(db).await;
        let largest = i64::MAX as u64;
        for number in [largest - 1, largest, largest + 1, u64::MAX - 1, u64::MAX] {
            db.recorder().clear();
            for page in [trades.page(&123, number), trades.page(&123, number).of(u64::MAX)] {
                match page.await {
                    Ok(page) => assert!(page.is_none() && number <= largest, "{number}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{number}: {error:?}");
                        assert!(number > largest && db.recorder().round_trips() == 0, "{number}");
                    }
                }
            }
            // A router adds the page to those that it skips.
            for sent in db.recorder().commands() {
                let skip = sent.command.get_i64("skip").unwrap();
                assert!(skip.checked_add(1).is_some(), "{number}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn counts_are_exact_and_one_round_trip() {
    testkit::run(async |db| {
        let trades = four_pages(db).await;
        for (key, items, pages) in [(123, 35, 4), (99, 0, 0)] {
            db.recorder().clear();
            let counts = trades.counts(&key).await.unwrap();
            assert_eq!((counts.items, counts.pages), (items, pages));
            assert_eq!(trades.count_pages(&key).await.unwrap(), pages);
            assert_eq!(db.recorder().round_trips(), 2);
        }
        // Also for pages of other programs that are not full, or overfull.
        for (second, items) in [(0, 3_usize), (1, 25), (2, 10)] {
            let mut bucket = full_bucket(SECOND + second);
            bucket.extend(doc! { "_id": format!("7_{}", SECOND + second), "customerId": 7 });
            bucket.insert("count", i32::try_from(items).unwrap());
            bucket.insert("history", vec![doc! { "n": 1, "date": at(SECOND) }; items]);
            plain(db).insert_one(bucket).await.unwrap();
        }
        let counts = trades.counts(&7).await.unwrap();
        assert_eq!((counts.items, counts.pages), (38, 3));
    })
    .await;
}
