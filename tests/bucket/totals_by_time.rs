//! Totals of each hour, day or month.

use std::collections::BTreeMap;

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::action::ReadTotals;
use mongo_patterns::bucket::{TimeUnit, Totals, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::figures::*;
use support::bucket::figures::*;
use support::bucket::*;
use support::common::*;
use support::explain::explain_last;

const UNITS: [TimeUnit; 3] = [TimeUnit::Hour, TimeUnit::Day, TimeUnit::Month];
const HOUR: i64 = 3600;

/// Order `n`, some hours after the one before, and every third one late by up to days.
fn spread_order(n: i64) -> Document {
    let late = if n % 3 == 0 { n * 37 % 80 } else { 0 };
    let mut order = order(n);
    order.insert("date", at((n + 20) * 11 * HOUR - late * HOUR + n));
    order
}

/// Returns the start of the period of a time, as text.
fn period(time: DateTime, unit: TimeUnit) -> String {
    let text = time.try_to_rfc3339_string().unwrap();
    match unit {
        TimeUnit::Hour => format!("{}:00:00Z", &text[..13]),
        TimeUnit::Day => format!("{}T00:00:00Z", &text[..10]),
        _ => format!("{}-01T00:00:00Z", &text[..7]),
    }
}

fn is_within(item: &Document, (from, until): (Option<DateTime>, Option<DateTime>)) -> bool {
    let date = *item.get_datetime("date").unwrap();
    from.is_none_or(|from| date >= from) && until.is_none_or(|until| date < until)
}

/// Checks the totals of all periods against the items.
fn check_periods(totals: &[(DateTime, Totals)], items: &[Document], unit: TimeUnit) {
    let mut expected = BTreeMap::<String, Vec<Document>>::new();
    for item in items {
        let period = period(*item.get_datetime("date").unwrap(), unit);
        expected.entry(period).or_default().push(item.clone());
    }
    let starts: Vec<DateTime> = totals.iter().map(|(start, _)| *start).collect();
    assert!(starts.is_sorted(), "{starts:?}");
    assert_eq!(totals.len(), expected.len(), "{unit:?}");
    for (start, totals) in totals {
        let items = &expected[&start.try_to_rfc3339_string().unwrap()];
        check_totals(totals, items);
        let mut counts = BTreeMap::new();
        for item in items {
            *counts.entry(item.get_str("ticker").unwrap()).or_insert(0) += 1;
        }
        let counted = totals.counts("ticker");
        let is_sorted = counted.is_sorted_by_key(|(_, count)| std::cmp::Reverse(*count));
        assert!(is_sorted, "{counted:?}");
        let counted = counted.iter().map(|(value, count)| (value.as_str().unwrap(), *count));
        let counted: BTreeMap<_, _> = counted.collect();
        assert!(counted == counts || counted.is_empty(), "{counted:?}");
    }
}

async fn check_all(db: &TestDatabase, orders: &Orders, items: &[Document]) {
    let time = |n: i64| Some(at((n + 20) * 11 * HOUR));
    for unit in UNITS {
        for range in [
            (None, None),
            (time(20), time(90)),
            (None, time(50)),
            (time(60), None),
            (time(-10), time(-5)),
            (time(900), None),
        ] {
            let of_range = || {
                let totals = orders.totals(&1);
                let totals = range.0.into_iter().fold(totals, ReadTotals::from);
                range.1.into_iter().fold(totals, ReadTotals::until)
            };
            db.recorder().clear();
            let totals = of_range().by(unit).await.unwrap();
            assert_eq!(db.recorder().names(), ["aggregate"], "{unit:?}");
            let expected: Vec<Document> = items.iter().filter(|item| is_within(item, range)).cloned().collect();
            check_periods(&totals, &expected, unit);
            db.recorder().clear();
            check_totals(&of_range().await.unwrap(), &expected);
            assert_eq!(db.recorder().names(), ["aggregate"]);
        }
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn totals_by_time_are_those_of_the_items() {
    testkit::run(async |db| {
        for builder in [figured(db), figured(db).window(Window::Day).count_by("ticker")] {
            plain(db).drop().await.unwrap();
            let orders = prepared(db, builder).await;
            // More periods than the first batch of a cursor has.
            let items: Vec<Document> = (0..130).map(spread_order).collect();
            orders.append_many(&1, &items).await.unwrap();
            orders.append(&2, &order(5)).await.unwrap();
            check_all(db, &orders, &items).await;
            // The figures of some buckets are not current, and those of others have other types.
            let buckets = all(&plain(db)).await;
            for (bucket, update) in buckets.iter().step_by(3).zip([
                doc! { "$unset": { "figures": "" } },
                doc! { "$set": { "figures.qty.count": 0 } },
                doc! { "$set": { "figures": "$x" } },
            ]) {
                let this = doc! { "_id": bucket.get("_id") };
                plain(db).update_one(this, update).await.unwrap();
            }
            check_all(db, &orders, &items).await;
        }
    })
    .await;
}

#[tokio::test]
async fn each_bucket_of_the_key_is_read_once() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker")).await;
        let items: Vec<Document> = (0..130).map(spread_order).collect();
        orders.append_many(&1, &items).await.unwrap();
        orders.append_many(&2, &items).await.unwrap();
        for unit in UNITS {
            orders.totals(&1).by(unit).await.unwrap();
            assert_eq!(explain_last(db).await.documents, 13, "{unit:?}");
        }
        // In a transaction of the caller.
        let mut session = transaction(db).await;
        let mut more = items.clone();
        more.push(spread_order(200));
        orders.append(&1, &more[130]).session(&mut session).await.unwrap();
        let within = orders.totals(&1).session(&mut session).by(TimeUnit::Month).await;
        check_periods(&within.unwrap(), &more, TimeUnit::Month);
        let others = orders.totals(&1).by(TimeUnit::Month).await.unwrap();
        check_periods(&others, &items, TimeUnit::Month);
    })
    .await;
}

#[tokio::test]
async fn items_without_a_time_belong_to_no_period() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        let item = |n: i32, date: Bson| doc! { "n": n, "date": date, "qty": n, "dollars": decimal("1.00") };
        let history = [
            item(1, at(SECOND).into()),
            item(2, Bson::Null),
            item(3, "2023-10-26".into()),
            item(4, at(SECOND + 40 * 24 * HOUR).into()),
        ];
        for (key, history) in [(1, &history[..]), (2, &history[1..3]), (3, &[])] {
            let bucket = doc! {
                "_id": format!("{key}_{SECOND}"), "customerId": key,
                "count": i32::try_from(history.len()).unwrap(), "history": history,
            };
            plain(db).insert_one(bucket).await.unwrap();
        }
        for _ in 0..2 {
            let months = orders.totals(&1).by(TimeUnit::Month).await.unwrap();
            let items: Vec<(u64, Option<&Bson>)> = months.iter().map(|(_, of)| (of.items, of.sum("qty"))).collect();
            assert_eq!(items, [(1, Some(&1.into())), (1, Some(&4.into()))]);
            for key in [2, 3] {
                assert_eq!(orders.totals(&key).by(TimeUnit::Month).await.unwrap(), []);
            }
            // With figures that are those of all items.
            orders.refresh_figures().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn what_totals_need_is_checked() {
    testkit::run(async |db| {
        let (without, timeless) = (plain_builder(db), plain_builder(db).sum("qty"));
        let [without, timeless, orders] = [without, timeless, figured(db)].map(|builder| builder.build().unwrap());
        for refused in [
            without.totals(&1).await.map(drop),
            without.totals(&1).by(TimeUnit::Day).await.map(drop),
            without.refresh_figures().await.map(drop),
            timeless.totals(&1).from(at(SECOND)).await.map(drop),
            timeless.totals(&1).by(TimeUnit::Day).await.map(drop),
        ] {
            assert_refused(refused, ErrorKind::Configuration);
        }
        let empty = || orders.totals(&1).from(at(5)).until(at(5));
        assert_refused(empty().await, ErrorKind::InvalidArgument);
        assert_refused(empty().by(TimeUnit::Day).await, ErrorKind::InvalidArgument);
        assert_eq!(db.recorder().names(), Vec::<String>::new());
        let orders = prepared(db, figured(db)).await;
        assert_eq!(orders.totals(&1).by(TimeUnit::Day).await.unwrap(), []);
    })
    .await;
}

/// Other programs can store any time.
#[tokio::test]
async fn a_time_of_any_year_has_a_period() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        for millis in [
            -62_135_596_800_000,
            -1,
            0,
            253_402_300_799_999,
            i64::MIN / 1000,
            i64::MAX / 1000,
        ] {
            let date = DateTime::from_millis(millis);
            let item = doc! { "n": 1, "date": date, "qty": 1, "dollars": decimal("1.00") };
            let history = vec![item.clone(), item];
            let bucket = doc! { "_id": format!("1_{SECOND}"), "customerId": 1, "count": 2, "history": history };
            plain(db).insert_one(bucket).await.unwrap();
            for unit in UNITS {
                let periods = orders.totals(&1).by(unit).await.unwrap();
                let [(start, totals)] = &periods[..] else {
                    panic!("{periods:?}");
                };
                assert!(*start <= date && totals.items == 2, "{periods:?}");
            }
            plain(db).delete_many(doc! {}).await.unwrap();
        }
    })
    .await;
}
