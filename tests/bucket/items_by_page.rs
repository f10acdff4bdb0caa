//! Pages of items of any size over buckets of any size: tokens, growth, cost and invalid input.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::action::Items;
use mongo_patterns::bucket::{BucketRepository, ItemToken};
use mongo_patterns::list::Page;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document};
use serde::{Deserialize, Serialize};

use support::bucket::*;
use support::common::*;

const HOUR: i64 = 3600;

/// Stores a thousand full pages, one in two hours.
async fn thousand_pages(db: &TestDatabase) -> Trades {
    let trades = trades(db).await;
    let pages = (0..1000).map(|page| full_bucket(SECOND + page * 2 * HOUR));
    plain(db).insert_many(pages).await.unwrap();
    trades
}

async fn examined(db: &TestDatabase) -> (usize, i64) {
    let commands = db.recorder().commands();
    let mut documents = 0;
    for command in &commands {
        documents += explain(db, command).await.documents;
    }
    db.recorder().clear();
    (commands.len(), documents)
}

#[tokio::test]
async fn pages_of_items_follow_each_other_in_both_directions() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items = trades_of(0..57);
        trades.append_many(&123, &items).await.unwrap();
        trades.append_many(&12, &[spread(1000)]).await.unwrap();
        for limit in [1, 7, 10, 56, 57, 58] {
            for newest_first in [false, true] {
                let asked = || {
                    let items = trades.items(&123).limit(limit);
                    if newest_first { items.newest_first() } else { items }
                };
                db.recorder().clear();
                let mut slices: Vec<Page<Trade, ItemToken>> = vec![asked().page().await.unwrap()];
                while let Some(next) = slices.last().unwrap().next.clone() {
                    slices.push(asked().after(next).page().await.unwrap());
                }
                let sizes: Vec<usize> = slices.iter().map(|slice| slice.items.len()).collect();
                assert!(
                    sizes.iter().rev().skip(1).all(|size| *size == limit as usize),
                    "{sizes:?}"
                );
                assert_eq!(db.recorder().names(), vec!["find"; slices.len()], "one round trip each");
                // The same pages, backwards.
                db.recorder().clear();
                assert_eq!(slices[0].previous, None);
                let mut previous = slices.last().unwrap().previous.clone();
                for slice in slices.iter().rev().skip(1) {
                    let back = asked().before(previous).page().await.unwrap();
                    assert_eq!(back.items, slice.items);
                    let on = asked().after(back.next).page().await.unwrap();
                    assert_eq!(asked().after(slice.next.clone()).page().await.unwrap(), on);
                    previous = back.previous;
                }
                assert_eq!(previous, None);
                // One round trip each, and one more where a position at the end of a page leads to an open one.
                let (calls, sent) = (3 * (slices.len() - 1), db.recorder().round_trips());
                assert!((calls..=calls + 1).contains(&sent), "{sent} for {calls} calls");
                let mut read: Vec<Trade> = slices.into_iter().flat_map(|slice| slice.items).collect();
                if newest_first {
                    read.reverse();
                }
                assert_eq!(read, items);
            }
        }
        let default = trades.items(&123).page().await.unwrap();
        assert_eq!((default.items.len(), default.next), (57, None));
        assert_eq!(default.first_token.unwrap().to_string(), format!("{SECOND}.0"));
        assert_eq!(default.last_token.unwrap().to_string(), format!("{}.7", SECOND + 50));
        let none = trades.items(&99).page().await.unwrap();
        assert_eq!((none.items, none.next, none.previous), (vec![], None, None));
        // The skipped items are before the page.
        let skipped = trades.items(&123).skip(13).limit(5).page().await.unwrap();
        let back = trades.items(&123).limit(5).before(skipped.previous);
        let back = back.page().await.unwrap();
        assert_eq!(numbers(&back.items), [8, 9, 10, 11, 12]);
        let further = trades.items(&123).skip(2).limit(5).before(back.previous);
        let further = further.page().await.unwrap();
        assert_eq!(numbers(&further.items), [1, 2, 3, 4, 5]);
        let on = trades.items(&123).limit(2).after(further.next).page().await.unwrap();
        assert_eq!(numbers(&on.items), [6, 7]);
    })
    .await;
}

/// A range of time is the same in both directions, and concurrently appended items are on their side of the position.
#[tokio::test]
async fn pages_of_a_range_are_consistent_backwards_while_the_history_grows() {
    testkit::run(async |db| {
        for newest_first in [false, true] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db)).await;
            let items = trades_of(0..45);
            trades.append_many(&123, &items).await.unwrap();
            let asked = || {
                let items = trades
                    .items(&123)
                    .from(at(SECOND + 7).to_system_time())
                    .until(at(SECOND + 40).to_system_time())
                    .limit(6);
                if newest_first { items.newest_first() } else { items }
            };
            let mut slices = vec![asked().page().await.unwrap()];
            while let Some(next) = slices.last().unwrap().next.clone() {
                slices.push(asked().after(next).page().await.unwrap());
            }
            let read: usize = slices.iter().map(|slice| slice.items.len()).sum();
            assert_eq!(read, 33);
            let mut previous = slices.last().unwrap().previous.clone();
            for (n, slice) in (45..).zip(slices.iter().rev().skip(1)) {
                trades.append(&123, &spread(n)).await.unwrap();
                let back = asked().before(previous).page().await.unwrap();
                assert_eq!(back.items, slice.items, "newest first: {newest_first}");
                previous = back.previous;
            }
            assert_eq!(previous, None);
        }
    })
    .await;
}

/// Items that are appended between two pages are not returned twice, and no existing item is missed.
#[tokio::test]
async fn pages_are_consistent_forwards_while_the_history_grows() {
    testkit::run(async |db| {
        for newest_first in [false, true] {
            for ranged in [false, true] {
                plain(db).drop().await.unwrap();
                let trades = ready(db, builder(db)).await;
                trades.append_many(&123, &trades_of(0..33)).await.unwrap();
                let asked = || {
                    let mut items = trades.items(&123).limit(4);
                    if newest_first {
                        items = items.newest_first();
                    }
                    if ranged { items.from(at(SECOND + 1)) } else { items }
                };
                let mut read = Vec::new();
                let mut next = None;
                let mut n = 33;
                loop {
                    let slice = asked().after(next).page().await.unwrap();
                    read.extend(numbers(&slice.items));
                    if slice.next.is_none() {
                        break;
                    }
                    next = slice.next;
                    for _ in 0..3 {
                        trades.append(&123, &spread(n)).await.unwrap();
                        n += 1;
                    }
                }
                let first = i64::from(ranged);
                let expected: Vec<i64> = match newest_first {
                    true => (first..33).rev().collect(),
                    false => (first..n).collect(),
                };
                assert_eq!(read, expected, "newest first: {newest_first}, with a range: {ranged}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_narrow_range_examines_few_documents() {
    testkit::run(async |db| {
        let trades = thousand_pages(db).await;
        let of_day = |page: i64| {
            let items = trades.items(&123).from(at(SECOND + page * 2 * HOUR));
            items.until(at(SECOND + (page + 12) * 2 * HOUR))
        };
        for newest_first in [false, true] {
            let asked = |page| match newest_first {
                true => of_day(page).newest_first(),
                false => of_day(page),
            };
            for page in [0, 500, 988] {
                let read: Vec<Trade> = collected(asked(page).stream()).await;
                assert_eq!(read.len(), 120, "of page {page}");
                let (round_trips, documents) = examined(db).await;
                // Twelve contain the range, four are around it, and the search reads four.
                assert!(round_trips <= 3 && documents <= 20, "{round_trips} and {documents}");
            }
            let slice = asked(500).limit(20).page().await.unwrap();
            let (round_trips, documents) = examined(db).await;
            assert!(round_trips <= 2 && documents <= 11, "{round_trips} and {documents}");
            asked(500).limit(20).after(slice.next).page().await.unwrap();
            let (round_trips, documents) = examined(db).await;
            assert!(round_trips == 1 && documents <= 4, "{round_trips} and {documents}");
        }
    })
    .await;
}

/// A page a minute, so that the hours around a range have many.
#[tokio::test]
async fn the_cost_of_a_range_depends_on_the_allowed_lateness() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let pages = (0..1000).map(|page| full_bucket(SECOND + page * 60));
        plain(db).insert_many(pages).await.unwrap();
        for (allowed_lateness, around) in [(60, 4), (HOUR, 4 * 60)] {
            for newest_first in [false, true] {
                let items = trades
                    .items(&123)
                    .allowed_lateness(Duration::from_secs(allowed_lateness.unsigned_abs()));
                let items = items.from(at(SECOND + 800 * 60)).until(at(SECOND + 810 * 60));
                let items = if newest_first { items.newest_first() } else { items };
                let read: Vec<Trade> = collected(items.stream()).await;
                assert_eq!(read.len(), 100);
                let (round_trips, documents) = examined(db).await;
                assert!(documents <= 10 + around + 8 + 5, "{documents} for {allowed_lateness} s");
                assert!(round_trips <= 6, "{round_trips}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_skip_counts_pages_and_reads_few() {
    testkit::run(async |db| {
        let trades = thousand_pages(db).await;
        for newest_first in [false, true] {
            let asked = || {
                let items = trades.items(&123).limit(5);
                if newest_first { items.newest_first() } else { items }
            };
            let read = asked().skip(5003).page().await.unwrap().items;
            let expected = if newest_first { [6, 5, 4, 3, 2] } else { [3, 4, 5, 6, 7] };
            assert_eq!(numbers(&read), expected);
            let counting = db.recorder().commands()[0].clone();
            let reply = counting.reply.unwrap();
            let counted = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
            let is_full = |page: &Bson| page.as_document().unwrap().get_i32("history").unwrap() == 10;
            assert!(counted.iter().all(is_full));
            // 502 pages are counted, and two are read.
            assert_eq!(examined(db).await, (2, 504));

            let slice = asked().skip(9).page().await.unwrap();
            assert_eq!(slice.items.len(), 5);
            assert_eq!(examined(db).await.0, 1, "within a page nothing is counted");
            let slice = asked().skip(20).after(slice.next).page().await.unwrap();
            let expected = if newest_first { [5, 4, 3, 2, 1] } else { [4, 5, 6, 7, 8] };
            assert_eq!(numbers(&slice.items), expected);
            db.recorder().clear();
            for skip in [10_000, 1_000_000, u64::MAX] {
                let slice = asked().skip(skip).page().await.unwrap();
                assert_eq!((slice.items, slice.next), (vec![], None));
            }
            assert!(db.recorder().round_trips() <= 6);
            db.recorder().clear();
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_input_sends_nothing() {
    use ErrorKind::{Configuration, InvalidArgument};
    testkit::run(async |db| {
        let trades = trades(db).await;
        let timeless = untimed::<u32, Trade>(db).build().unwrap();
        type Asked<'a> = &'a dyn Fn() -> Items<'a, u32, Trade>;
        let cases: [(Asked<'_>, ErrorKind); 5] = [
            (&|| trades.items(&123).limit(0), InvalidArgument),
            (&|| trades.items(&123).from(at(5)).until(at(5)), InvalidArgument),
            (&|| trades.items(&123).from(at(5)).until(at(4)), InvalidArgument),
            (&|| timeless.items(&123).from(at(5)), Configuration),
            (&|| timeless.items(&123).until(at(5)), Configuration),
        ];
        for (asked, kind) in cases {
            let of_page = asked().page().await.unwrap_err();
            let of_stream = asked().stream().try_next().await.unwrap_err();
            for error in [of_page, of_stream] {
                assert_eq!((error.kind(), error.operation()), (kind, Some("items")));
            }
        }
        assert_eq!(db.recorder().round_trips(), 0);
        // Extreme values are no errors.
        trades.append(&123, &spread(1)).await.unwrap();
        let (first, last) = (DateTime::MIN, DateTime::MAX);
        for allowed_lateness in [Duration::ZERO, Duration::MAX] {
            let items = || trades.items(&123).allowed_lateness(allowed_lateness);
            let read = items().from(first).until(last).page().await.unwrap();
            assert_eq!(numbers(&read.items), [1]);
            for none in [items().from(last), items().until(first)] {
                assert_eq!(none.page().await.unwrap().items, []);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_forged_token_is_a_position_in_the_key() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append_many(&123, &trades_of(0..30)).await.unwrap();
        trades.append_many(&12, &trades_of(100..130)).await.unwrap();
        let of_other = trades.items(&12).limit(25).page().await.unwrap().next.unwrap();
        let forged = [
            "0.0",
            "-1.5",
            "99999999999999999999.0",
            "1698335223.4294967295",
            "1698335233_000007.3",
        ];
        let tokens = forged.map(|text| text.parse::<ItemToken>().unwrap());
        for token in tokens.into_iter().chain([of_other]) {
            for ranged in [false, true] {
                let asked = || {
                    let items = trades.items(&123).after(token.clone()).limit(100);
                    if ranged { items.from(at(SECOND + 5)) } else { items }
                };
                let after = numbers(&asked().page().await.unwrap().items);
                let before = numbers(&asked().newest_first().page().await.unwrap().items);
                let both: Vec<i64> = before.into_iter().rev().chain(after).collect();
                let first = if ranged { 5 } else { 0 };
                assert_eq!(both, (first..30).collect::<Vec<_>>(), "{token}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn it_reads_in_a_transaction() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut session = transaction(db).await;
        let items = trades_of(0..45);
        trades.append_many(&123, &items).session(&mut session).await.unwrap();
        let asked = || trades.items(&123).from(at(SECOND + 5)).skip(12).limit(3).newest_first();
        let slice = asked().session(&mut session).page().await.unwrap();
        assert_eq!(numbers(&slice.items), [32, 31, 30]);
        let read: Vec<Trade> = collected(asked().session(&mut session).stream()).await;
        assert_eq!(numbers(&read), (5..33).rev().collect::<Vec<_>>());
        session.abort_transaction().await.unwrap();
        assert_eq!(asked().page().await.unwrap().items, []);
    })
    .await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Odd {
    n: i64,
    #[serde(rename = "a$b date")]
    date: mongodb::bson::DateTime,
}

#[tokio::test]
async fn fields_may_have_any_names() {
    testkit::run(async |db| {
        let odd = BucketRepository::<String, Odd>::builder(db.collection::<Document>("odd"))
            .key_field("k$größe")
            .items_field("i$tems$")
            .count_field("n$")
            .time_field("a$b date")
            .build()
            .unwrap();
        odd.ensure_indexes().await.unwrap();
        let item = |n: i64| Odd {
            n,
            date: at(SECOND + n * 600),
        };
        let items: Vec<Odd> = (0..1000).map(item).collect();
        odd.append_many("a.b|c$_`", &items).await.unwrap();
        let stored = all(&db.plain_collection("odd")).await;
        let names = ["_id", "k$größe", "i$tems$", "n$"];
        assert!(names.iter().all(|name| stored[0].contains_key(name)) && stored[0].len() == 4);
        odd.append_many("a.b|c$", &items[..1]).await.unwrap();
        let asked = || odd.items("a.b|c$_`").from(at(SECOND + 600 * 600)).skip(30).limit(2);
        let read = asked().page().await.unwrap().items;
        assert_eq!(read, items[630..632]);
        let read = asked().newest_first().page().await.unwrap().items;
        assert_eq!(read, [items[969].clone(), items[968].clone()]);
        assert_eq!(odd.items("a.b|c$").page().await.unwrap().items, items[..1]);
    })
    .await;
}
