//! The calls of a repository of intervals.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::intervals::IntervalToken;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, doc};

use support::common::{all, create_validated, explain_last};
use support::intervals::*;

/// Stores pants for 5, valid since a time in the past.
async fn with_pants(db: &TestDatabase) -> Prices {
    let prices = prices(db).await;
    prices.insert(&price("pants", 5)).await.unwrap();
    begin_at(db, doc! { "item": "pants" }, at(1000)).await;
    db.recorder().clear();
    prices
}

#[tokio::test]
async fn the_stored_form_is_the_manuals() {
    testkit::run(async |db| {
        create_validated(db.database(), &builder(db.database()).build().unwrap()).await;
        let prices = prices(db).await;
        let before = DateTime::now();
        let first = prices.insert(&price("pants", 5)).await.unwrap().valid_from;
        let id = of_item(db, "pants").await[0].get_object_id("_id").unwrap();
        let second = prices.update("pants", to(7)).await.unwrap().valid_from;
        let third = prices.replace("pants", &price("pants", 9)).await.unwrap().valid_from;
        assert!(before.timestamp_millis() - 1000 <= first.timestamp_millis() && first < second && second < third);
        let stored = of_item(db, "pants").await;
        let expected = [
            (5, first, second, false),
            (7, second, third, false),
            (9, third, END, true),
        ];
        assert_eq!(intervals(&stored), expected);
        let names = ["_id", "item", "price", "validFrom", "validTo", "isValid"];
        for document in &stored[..2] {
            assert_eq!(document.keys().collect::<Vec<_>>(), names);
        }
        let mut last: Vec<&String> = stored[2].keys().collect();
        last.sort();
        assert_eq!(last, ["_id", "isValid", "item", "price", "validFrom", "validTo"]);
        // The valid document keeps its `_id`.
        assert_eq!(stored[2].get_object_id("_id").unwrap(), id);
        let mut closed = stored[..2].iter();
        assert!(closed.all(|closed| closed.get_object_id("_id").unwrap() != id));
        assert_eq!(judge(db, "pants").await, [5, 7, 9]);

        let ended = prices.end("pants").await.unwrap();
        let valid_to = ended.valid_to.unwrap();
        assert!(ended.found && valid_to > third);
        assert_eq!(intervals(&of_item(db, "pants").await)[2], (9, third, valid_to, false));
        let again = prices.insert(&price("pants", 4)).await.unwrap().valid_from;
        assert!(again >= valid_to);
        assert_eq!(intervals(&of_item(db, "pants").await)[3], (4, again, END, true));
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

/// Each names its index, and examines one document.
#[tokio::test]
async fn each_call_takes_the_documented_round_trips() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        for n in 0..20 {
            prices.update("pants", to(n)).await.unwrap();
        }
        let commands = |expected: &[&str]| {
            assert_eq!(db.recorder().names(), expected);
            db.recorder().clear();
        };
        db.recorder().clear();
        prices.update("pants", to(7)).await.unwrap();
        commands(&["findAndModify", "insert", "commitTransaction"]);
        prices.replace("pants", &price("pants", 8)).await.unwrap();
        commands(&["findAndModify", "insert", "commitTransaction"]);
        prices.get("pants").await.unwrap().unwrap();
        let examined = explain_last(db).await;
        assert_eq!((examined.documents, examined.index.as_str()), (1, "item_1_validFrom_1"));
        commands(&["aggregate"]);
        for time in [at(1000), DateTime::now(), DateTime::MAX] {
            prices.as_of("pants", time).await.unwrap().unwrap();
            let examined = explain_last(db).await;
            assert_eq!((examined.documents, examined.index.as_str()), (1, "item_1_validFrom_1"));
            commands(&["find"]);
        }
        prices.intervals("pants").limit(5).page().await.unwrap();
        assert_eq!(explain_last(db).await.documents, 6);
        commands(&["find"]);
        prices.end("pants").await.unwrap();
        let examined = explain_last(db).await;
        assert_eq!(examined.index, "item_1_isValid");
        commands(&["findAndModify"]);
        prices.end("pants").await.unwrap();
        commands(&["findAndModify", "find", "find"]);
        prices.insert(&price("pants", 1)).await.unwrap();
        commands(&["find", "update", "commitTransaction"]);
        prices.insert(&price("hat", 1)).await.unwrap();
        commands(&["find", "findAndModify", "commitTransaction"]);
    })
    .await;
}

#[tokio::test]
async fn the_price_at_a_time_is_that_of_its_interval() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        let changed = prices.update("pants", to(7)).await.unwrap().valid_from;
        let changed = changed.timestamp_millis();
        let ended = prices.end("pants").await.unwrap().valid_to.unwrap().timestamp_millis();
        let later = ended + 10_000;
        prices.insert(&price("pants", 9)).from(at(later)).await.unwrap();
        for (time, expected) in [
            (i64::MIN, None),
            (999, None),
            (1000, Some(5)),
            (changed - 1, Some(5)),
            (changed, Some(7)),
            (ended - 1, Some(7)),
            (ended, None),
            (later - 1, None),
            (later, Some(9)),
            (i64::MAX, Some(9)),
        ] {
            let found = prices.as_of("pants", at(time)).await.unwrap();
            assert_eq!(found.as_ref().map(price_of), expected, "at {time}");
        }
        assert_eq!(prices.as_of("shirt", at(later)).await.unwrap(), None);
        assert_eq!(prices.get("pants").await.unwrap(), None);
        let last = prices.as_of("pants", at(later)).await.unwrap().unwrap();
        assert_eq!((last.valid_from, last.valid_to), (at(later), None));
        let first = prices.as_of("pants", at(1000)).await.unwrap().unwrap();
        assert_eq!((first.valid_from, first.valid_to), (at(1000), Some(at(changed))));
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

#[tokio::test]
async fn all_intervals_are_read_in_pages_in_either_direction() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        begin_at(db, doc! { "item": "pants" }, BEGIN).await;
        for n in 1..=6 {
            prices.update("pants", to(n)).await.unwrap();
        }
        let mut expected = vec![5, 1, 2, 3, 4, 5, 6];
        for newest_first in [false, true] {
            for limit in [3, 6, 7] {
                let (mut found, mut token): (Vec<i32>, Option<IntervalToken>) = (Vec::new(), None);
                loop {
                    let call = prices.intervals("pants").limit(limit).after(token);
                    let call = if newest_first { call.newest_first() } else { call };
                    let page = call.page().await.unwrap();
                    found.extend(page.items.iter().map(price_of));
                    let Some(next) = page.next else { break };
                    token = Some(next.to_string().parse().unwrap());
                }
                assert_eq!(found, expected, "{limit} {newest_first}");
            }
            let call = prices.intervals("pants").limit(2);
            let call = if newest_first { call.newest_first() } else { call };
            let streamed: Vec<_> = call.stream().try_collect().await.unwrap();
            assert_eq!(streamed.iter().map(price_of).collect::<Vec<_>>(), expected);
            expected.reverse();
        }
        let error = prices.intervals("pants").limit(0).page().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn a_change_at_another_start_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        let now = prices.update("pants", to(7)).await.unwrap().valid_from;
        let before = all(&stored(db)).await;
        let new = price("pants", 9);
        for other in [at(1000), at(now.timestamp_millis() + 1), DateTime::MAX] {
            let refused = [
                prices.update("pants", to(9)).expecting(other).await.unwrap_err(),
                prices.replace("pants", &new).expecting(other).await.unwrap_err(),
                prices.end("pants").expecting(other).await.unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::RevisionMismatch, "{error}");
                assert!(!error.is_transient() && !error.is_outcome_unknown());
            }
        }
        assert_eq!(all(&stored(db)).await, before);
        let updated = prices.update("pants", to(9)).expecting(now).await.unwrap();
        let replace = prices.replace("pants", &new).expecting(updated.valid_from);
        let now = replace.await.unwrap().valid_from;
        assert!(prices.end("pants").expecting(now).await.unwrap().found);
        assert!(!prices.end("pants").expecting(now).await.unwrap().found);
    })
    .await;
}

#[tokio::test]
async fn missing_and_existing_documents_are_reported() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        let kind = |error: mongo_patterns::Error| {
            assert_eq!(error.pattern(), Some("intervals"));
            error.kind()
        };
        let exists = prices.insert(&price("pants", 7)).await;
        assert_eq!(kind(exists.unwrap_err()), ErrorKind::AlreadyExists);
        for item in ["shirt", "hat"] {
            assert_eq!(kind(prices.update(item, to(7)).await.unwrap_err()), ErrorKind::NotFound);
            let replaced = prices.replace(item, &price(item, 7)).await;
            assert_eq!(kind(replaced.unwrap_err()), ErrorKind::NotFound);
            let ended = prices.end(item).await.unwrap();
            assert_eq!((ended.found, ended.valid_to), (false, None));
            assert_eq!(prices.get(item).await.unwrap(), None);
            // Then for one that has ended.
            prices.insert(&price("hat", 1)).await.unwrap();
            prices.end("hat").await.unwrap();
        }
        // Another program inserted it.
        stored(db).insert_one(price("socks", 2)).await.unwrap();
        let refused = [
            prices.insert(&price("socks", 7)).await.unwrap_err(),
            prices.update("socks", to(7)).await.unwrap_err(),
            prices.end("socks").await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(kind(error), ErrorKind::NotMigrated);
        }
        for (field, value) in [("validFrom", Bson::from("x")), ("validTo", Bson::Int32(1))] {
            let mut corrupt = doc! { "item": field, "validFrom": at(1), "validTo": END, "isValid": true };
            corrupt.insert(field, value);
            stored(db).insert_one(corrupt).await.unwrap();
            let before = of_item(db, field).await;
            assert_eq!(kind(prices.update(field, to(7)).await.unwrap_err()), ErrorKind::Corrupt);
            assert_eq!(kind(prices.get(field).await.unwrap_err()), ErrorKind::Corrupt);
            if field == "validFrom" {
                assert_eq!(kind(prices.end(field).await.unwrap_err()), ErrorKind::Corrupt);
            }
            assert_eq!(of_item(db, field).await, before);
        }
        stored(db).drop_index("item_1_isValid").await.unwrap();
        let other = builder(db.database()).build().unwrap();
        let missing = other.update("pants", to(7)).await;
        assert_eq!(kind(missing.unwrap_err()), ErrorKind::IndexMissing);
        stored(db).drop_index("item_1_validFrom_1").await.unwrap();
        assert_eq!(kind(prices.get("pants").await.unwrap_err()), ErrorKind::IndexMissing);
    })
    .await;
}

/// The clock of the client is that of the server here, so the start of the interval is ahead of both.
#[tokio::test]
async fn a_change_is_after_a_start_that_was_set_by_a_clock_that_is_ahead() {
    testkit::run(async |db| {
        let prices = with_pants(db).await;
        let ahead = DateTime::now().timestamp_millis() + 30_000;
        begin_at(db, doc! { "item": "pants" }, at(ahead)).await;
        prices.get("pants").await.unwrap();
        db.recorder().clear();
        let begun = prices.update("pants", to(7)).await.unwrap();
        assert_eq!(begun.valid_from, at(ahead + 1));
        let expected = ["findAndModify", "find", "findAndModify", "insert", "commitTransaction"];
        assert_eq!(db.recorder().names()[db.recorder().names().len() - 5..], expected);
        let new = price("pants", 8);
        let replaced = prices.replace("pants", &new).expecting(at(ahead + 1)).await;
        assert_eq!(replaced.unwrap().valid_from, at(ahead + 2));
        assert_eq!(prices.end("pants").await.unwrap().valid_to, Some(at(ahead + 3)));
        let inserted = prices.insert(&price("pants", 9)).await.unwrap();
        assert_eq!(inserted.valid_from, at(ahead + 3));
        assert_eq!(judge(db, "pants").await, [5, 7, 8, 9]);
    })
    .await;
}
