//! Starts that the caller has chosen, in the past and in the future.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::intervals::{Problem, Repaired};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use support::common::{all, explain_last, patient, until};
use support::intervals::*;
use support::random::random;

const SCHEDULED: &str = include_str!("data/scheduled.json");

/// 2100-01-01.
const LATER: DateTime = DateTime::from_millis(4_102_444_800_000);

/// Returns a time this many milliseconds from now.
fn soon(millis: i64) -> DateTime {
    at(DateTime::now().timestamp_millis() + millis)
}

/// Returns the prices by a plain query at a time.
async fn plain(db: &TestDatabase, item: &str, time: DateTime) -> Vec<i32> {
    let at_time = doc! { "item": item, "validFrom": { "$lte": time }, "validTo": { "$gt": time } };
    let found: Vec<Document> = stored(db).find(at_time).await.unwrap().try_collect().await.unwrap();
    found.iter().map(|one| one.get_i32("price").unwrap()).collect()
}

/// Checks that the intervals do not overlap, and that the current one alone is marked. Returns them.
async fn intervals_of(db: &TestDatabase, item: &str) -> Vec<(i32, DateTime, DateTime, bool)> {
    let (all, now) = (intervals(&of_item(db, item).await), DateTime::now());
    assert!(all.iter().all(|one| one.1 < one.2), "{all:?}");
    assert!(all.windows(2).all(|two| two[0].2 <= two[1].1), "{all:?}");
    for (_, from, to, is_valid) in &all {
        assert_eq!(*is_valid, *from <= now && now < *to, "{all:?}");
    }
    all
}

/// Another program has marked the price of 2030 as valid.
#[tokio::test]
async fn a_price_that_begins_later_is_not_the_current_one() {
    testkit::run(async |db| {
        store_file(db, SCHEDULED).await;
        let prices = builder(db.database()).build().unwrap();
        prices.ensure_indexes().await.unwrap();
        let [_, later] = &intervals(&of_item(db, "tea").await)[..] else {
            panic!("two prices");
        };
        for now in [
            prices.get("tea").await.unwrap(),
            prices.as_of("tea", DateTime::now()).await.unwrap(),
        ] {
            assert_eq!(now.as_ref().map(price_of), Some(1));
            assert_eq!(now.unwrap().valid_to, Some(later.1));
        }
        assert_eq!(problems(&prices).await, [Problem::OutdatedMark; 2]);
        let exists = prices.insert(&price("tea", 9)).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);

        let begun = prices.update("tea", to(3)).await.unwrap().valid_from;
        let all = intervals_of(db, "tea").await;
        let [(1, _, ended, false), (3, start, end, true), last] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((*ended, *start, *end), (begun, begun, later.1));
        assert_eq!(*last, (2, later.1, END, false));
        assert_eq!(findings(&prices).await, []);
        assert_eq!(
            prices.as_of("tea", later.1).await.unwrap().as_ref().map(price_of),
            Some(2)
        );
        // It ends today's price, and leaves the later one.
        assert!(prices.end("tea").await.unwrap().found);
        assert_eq!(prices.get("tea").await.unwrap(), None);
        assert_eq!(intervals_of(db, "tea").await.last(), Some(last));
        prices.insert(&price("tea", 4)).await.unwrap();
        assert_eq!(intervals_of(db, "tea").await[2].2, later.1);
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_scheduled_price_begins_by_itself_and_the_next_write_moves_the_mark() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        let items = [
            "update",
            "replace",
            "end",
            "repair",
            "update in the past",
            "update before the start",
            "update in the future",
            "insert before",
        ];
        for item in items {
            prices.insert(&price(item, 5)).await.unwrap();
        }
        let start = soon(1500);
        for item in items {
            assert_eq!(prices.update(item, to(7)).from(start).await.unwrap().valid_from, start);
            let now = prices.get(item).await.unwrap().unwrap();
            assert_eq!((price_of(&now), now.valid_to), (5, Some(start)));
        }
        let marked = doc! { "isValid": true, "price": 5 };
        let marked = || async { stored(db).count_documents(marked.clone()).await.unwrap() };
        assert_eq!(marked().await, 8);
        assert_eq!(findings(&prices).await, []);
        let begins = async || price_of(&prices.get("update").await.unwrap().unwrap()) == 7;
        until("the start of the scheduled prices", begins).await;

        for item in items {
            let now = prices.get(item).await.unwrap().unwrap();
            assert_eq!((price_of(&now), now.valid_from, now.valid_to), (7, start, None));
            assert_eq!(plain(db, item, DateTime::now()).await, [7]);
        }
        // The mark is a hint.
        assert_eq!(marked().await, 8);
        assert_eq!(problems(&prices).await, [Problem::OutdatedMark; 16]);
        prices.update("update", to(8)).await.unwrap();
        let old = prices
            .replace("replace", &price("replace", 8))
            .expecting(at(1000))
            .await;
        assert_eq!(old.unwrap_err().kind(), ErrorKind::RevisionMismatch);
        prices
            .replace("replace", &price("replace", 8))
            .expecting(start)
            .await
            .unwrap();
        assert!(prices.end("end").await.unwrap().found);
        assert!(!prices.end("end").await.unwrap().found);
        prices
            .update("update in the past", to(6))
            .from(at(start.timestamp_millis() + 1))
            .await
            .unwrap();
        for (item, from, number) in [
            ("update before the start", at(start.timestamp_millis() - 1), 6),
            ("update in the future", LATER, 9),
        ] {
            prices.update(item, to(number)).from(from).await.unwrap();
        }
        let before = prices.insert(&price("insert before", 4)).from(at(1000));
        before.await.unwrap();
        let repaired: Vec<Repaired> = prices.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired.len(), 1);
        assert_eq!(findings(&prices).await, []);
        let expected = [
            &[5, 7, 8][..],
            &[5, 7, 8],
            &[5, 7],
            &[5, 7],
            &[5, 7, 6],
            &[5, 6, 7],
            &[5, 7, 9],
            &[4, 5, 7],
        ];
        for (item, expected) in items.into_iter().zip(expected) {
            let all = intervals_of(db, item).await;
            assert_eq!(all.iter().map(|one| one.0).collect::<Vec<_>>(), expected, "{item}");
            assert!(all.windows(2).all(|two| two[0].2 == two[1].1), "{item}");
        }
        assert_eq!(prices.get("end").await.unwrap(), None);
        prices.insert(&price("end", 9)).await.unwrap();
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

/// The second of two scheduled prices begins after an end has read the first one, whose mark it moves.
#[tokio::test]
async fn an_end_beside_the_start_of_a_scheduled_price_ends_the_one_that_it_has_read() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        prices.insert(&price("pants", 1)).from(at(1000)).await.unwrap();
        let (first, second) = (soon(500), soon(4000));
        prices.update("pants", to(2)).from(first).await.unwrap();
        prices.update("pants", to(3)).from(second).await.unwrap();
        let begins = async || price_of(&prices.get("pants").await.unwrap().unwrap()) == 2;
        until("the start of the first scheduled price", begins).await;
        let slow = FailPoint::on(&["update"]).times(1).block(Duration::from_secs(4));
        let slow = slow.enable(db).await;
        let ended = prices.end("pants").await.unwrap();
        slow.disable().await;
        assert!(ended.found);
        let time = ended.valid_to.unwrap();
        assert!(first < time && time < second, "{ended:?}");
        let expected = [
            (1, at(1000), first, false),
            (2, first, time, false),
            (3, second, END, false),
        ];
        assert_eq!(intervals(&of_item(db, "pants").await), expected);
    })
    .await;
}

#[tokio::test]
async fn a_chosen_start_divides_one_interval_and_collides_with_none() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        let later = |millis: i64| at(LATER.timestamp_millis() + millis);
        prices.insert(&price("pants", 1)).from(at(1000)).await.unwrap();
        let id = of_item(db, "pants").await[0].get_object_id("_id").unwrap();
        prices.update("pants", to(5)).from(later(0)).await.unwrap();
        // In the past, between, in the scheduled interval, and by a pipeline.
        prices.update("pants", to(2)).from(at(2000)).await.unwrap();
        prices
            .update("pants", doc! { "$inc": { "price": 1 } })
            .from(at(3000))
            .await
            .unwrap();
        prices
            .replace("pants", &price("pants", 6))
            .from(later(1000))
            .await
            .unwrap();
        let increased = vec![doc! { "$set": { "price": { "$add": ["$price", 2] } } }];
        prices.update("pants", increased).from(later(2000)).await.unwrap();
        let next = soon(3_600_000);
        prices
            .update("pants", to(4))
            .from(next)
            .expecting(at(3000))
            .await
            .unwrap();
        let expected = [
            (1, at(1000), at(2000), false),
            (2, at(2000), at(3000), false),
            (3, at(3000), next, true),
            (4, next, later(0), false),
            (5, later(0), later(1000), false),
            (6, later(1000), later(2000), false),
            (8, later(2000), END, false),
        ];
        assert_eq!(intervals_of(db, "pants").await, expected);
        prices.get("pants").await.unwrap();
        assert_eq!(explain_last(db).await.documents, 1);
        // The current price keeps its `_id`.
        let current = doc! { "item": "pants", "isValid": true };
        let current = stored(db).find_one(current).await.unwrap().unwrap();
        assert_eq!(current.get_object_id("_id").unwrap(), id);
        assert_eq!(findings(&prices).await, []);

        let before = all(&stored(db)).await;
        for (_, from, ..) in expected {
            let refused = [
                prices.update("pants", to(9)).from(from).await,
                prices.replace("pants", &price("pants", 9)).from(from).await,
                prices.insert(&price("pants", 9)).from(from).await,
                prices
                    .insert(&price("pants", 9))
                    .from(at(from.timestamp_millis() + 1))
                    .await,
            ];
            for refused in refused {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists, "{from}");
            }
        }
        let early = prices.update("pants", to(9)).from(at(999)).await.unwrap_err();
        assert_eq!(early.kind(), ErrorKind::NotFound);
        let other = prices
            .update("pants", to(9))
            .from(at(1500))
            .expecting(at(2000))
            .await
            .unwrap_err();
        assert_eq!(other.kind(), ErrorKind::RevisionMismatch);
        for never in [END, DateTime::MAX] {
            for refused in [
                prices.update("pants", to(9)).from(never).await,
                prices.insert(&price("hat", 9)).from(never).await,
            ] {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
        }
        assert_eq!(all(&stored(db)).await, before);
    })
    .await;
}

#[tokio::test]
async fn an_insert_fills_a_gap() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        let insert = |number: i32, from: DateTime| {
            let (prices, price) = (prices.clone(), price("pants", number));
            async move { prices.insert(&price).from(from).await.unwrap() }
        };
        insert(5, LATER).await;
        assert_eq!(prices.get("pants").await.unwrap(), None);
        insert(1, at(1000)).await;
        let ended = prices.end("pants").await.unwrap().valid_to.unwrap();
        assert_eq!(
            intervals_of(db, "pants").await,
            [(1, at(1000), ended, false), (5, LATER, END, false)]
        );
        // Before all others, after the end, and between.
        insert(0, at(10)).await;
        let between = soon(3_600_000);
        insert(3, between).await;
        let now = prices.insert(&price("pants", 2)).await.unwrap().valid_from;
        let expected = [
            (0, at(10), at(1000), false),
            (1, at(1000), ended, false),
            (2, now, between, true),
            (3, between, LATER, false),
            (5, LATER, END, false),
        ];
        assert_eq!(intervals_of(db, "pants").await, expected);
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

/// All of them have read the gap before the first one fills it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_inserts_into_one_gap_do_not_overlap() {
    testkit::run(async |db| {
        drop(prices(db).await);
        let process = || builder(db.database()).retry(patient()).build().unwrap();
        for (item, is_known) in [("new", false), ("known", true), ("current", true)] {
            if is_known {
                process().insert(&price(item, 0)).from(at(100)).await.unwrap();
                process().end(item).await.unwrap();
            }
            if item == "current" {
                process().insert(&price(item, 0)).await.unwrap();
                process().update(item, to(0)).from(LATER).await.unwrap();
            }
            let slow = FailPoint::on(&["update"]).times(8).block(Duration::from_millis(200));
            let slow = slow.enable(db).await;
            let inserts = (0..8_i32).map(|writer| {
                let (prices, from) = (process(), i64::from(10 + writer % 4));
                async move { prices.insert(&price(item, writer)).from(at(from)).await }
            });
            let all = join_all(inserts).await;
            slow.disable().await;
            let begun: Vec<DateTime> = all.iter().flatten().map(|begun| begun.valid_from).collect();
            for error in all.iter().filter_map(|one| one.as_ref().err()) {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error:?}");
            }
            let stored = intervals_of(db, item).await;
            let starts: Vec<DateTime> = stored.iter().map(|one| one.1).filter(|from| *from < at(100)).collect();
            let mut sorted = begun.clone();
            sorted.sort();
            assert_eq!(starts, sorted, "{item}");
            assert_eq!(findings(&process()).await, []);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn all_calls_with_starts_leave_no_overlap() {
    testkit::run(async |db| {
        drop(prices(db).await);
        let process = || builder(db.database()).retry(patient()).build().unwrap();
        let writers = (0..8_i32).map(|writer| {
            let prices = process();
            tokio::spawn(async move {
                let (mut begun, mut random) = (BTreeMap::new(), random(writer));
                for n in 0..40 {
                    let number = writer * 100 + n;
                    let new = price("pants", number);
                    let from = soon(random.i64(-5000..5000));
                    let written = match random.u32(0..8) {
                        0 => prices.insert(&new).await.map(Some),
                        1 | 2 => prices.insert(&new).from(from).await.map(Some),
                        3 => prices.end("pants").await.map(|_| None),
                        4 => prices.update("pants", to(number)).await.map(Some),
                        5 => prices.replace("pants", &new).from(from).await.map(Some),
                        _ => prices.update("pants", to(number)).from(from).await.map(Some),
                    };
                    match written {
                        Ok(written) => begun.extend(written.map(|written| (written.valid_from, number))),
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists),
                            "{error:?}"
                        ),
                    }
                }
                begun
            })
        });
        let mut acknowledged = BTreeMap::new();
        for writer in join_all(writers.collect::<Vec<_>>()).await {
            acknowledged.extend(writer.unwrap());
        }
        let stored = intervals(&of_item(db, "pants").await);
        assert!(
            stored.windows(2).all(|two| two[0].2 <= two[1].1 && two[0].1 < two[0].2),
            "{stored:?}"
        );
        let starts: BTreeMap<DateTime, i32> = stored.iter().map(|one| (one.1, one.0)).collect();
        assert_eq!(starts, acknowledged);
        let marks = [Problem::OutdatedMark; 2];
        assert!(problems(&process()).await.iter().all(|problem| marks.contains(problem)));
    })
    .await;
}
