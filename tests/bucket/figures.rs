//! Figures: sums, extremes, counts and times that each bucket keeps of its items.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepositoryBuilder, Totals};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Decimal128, Document, Regex, bson, doc};

use support::bucket::figures::*;
use support::bucket::*;
use support::common::*;

/// The commands of an update of a field with figures.
const TWO: &[&str] = &["findAndModify", "findAndModify"];

pub const TICKERS: [&str; 3] = ["MDB", "$count", "a.b"];

pub fn decimal(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

/// Order `n`, in second `n`. All prices are sums of cents that no double can represent.
pub fn order(n: i64) -> Document {
    let ticker = TICKERS[usize::try_from(n % 3).unwrap()];
    let qty = i32::try_from(n * 7 % 11).unwrap();
    doc! { "n": n, "date": at(SECOND + n), "qty": qty, "dollars": decimal(&format!("{n}.10")), "ticker": ticker }
}

pub fn figured(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Document> {
    let builder = plain_builder(db).sum("qty").min("qty").max("qty").sum("dollars");
    builder.first_and_last()
}

/// Returns the orders of these numbers.
pub fn orders_of(numbers: std::ops::Range<i64>) -> Vec<Document> {
    numbers.map(order).collect()
}

/// Appends the first orders to a key, in one batch.
pub async fn append_orders(orders: &Orders, key: u32, count: i64) {
    orders.append_many(&key, &orders_of(0..count)).await.unwrap();
}

/// Checks all figures: by `verify`, and against sums of cents.
pub async fn check(db: &TestDatabase, orders: &Orders) {
    let findings = collected(orders.verify().stream()).await;
    assert_eq!(findings, []);
    for bucket in all(&plain(db)).await {
        let items: Vec<&Document> = bucket
            .get_array("history")
            .unwrap()
            .iter()
            .map(|item| item.as_document().unwrap())
            .collect();
        let figures = bucket.get_document("figures").unwrap();
        let of = |field: &str| figures.get_document(field).unwrap();
        let count = i32::try_from(items.len()).unwrap();
        for field in ["qty", "dollars", "date"] {
            assert_eq!(of(field).get_i32("count").unwrap(), count, "{bucket}");
        }
        let qty = || items.iter().map(|item| item.get_i32("qty").unwrap());
        let expected = doc! { "count": count, "sum": qty().sum::<i32>(), "min": qty().min(), "max": qty().max() };
        assert_eq!(of("qty"), &expected);
        let date = || items.iter().map(|item| *item.get_datetime("date").unwrap());
        let expected = doc! { "count": count, "first": date().min(), "last": date().max() };
        assert_eq!(of("date"), &expected);
        let cents: i64 = items.iter().map(|item| cents(item.get("dollars").unwrap())).sum();
        assert_eq!(cents_of(of("dollars")), cents);
    }
}

fn cents_of(figure: &Document) -> i64 {
    cents(figure.get("sum").unwrap())
}

pub fn cents(value: &Bson) -> i64 {
    let Bson::Decimal128(value) = value else {
        panic!("{value} is no decimal")
    };
    let text = value.to_string();
    let (dollars, cents) = text.split_once('.').unwrap_or((&text, "00"));
    dollars.parse::<i64>().unwrap() * 100 + format!("{cents:0<2}").parse::<i64>().unwrap()
}

/// Checks the totals against the items.
pub fn check_totals(totals: &Totals, items: &[Document]) {
    assert_eq!(totals.items, items.len() as u64);
    let qty = || items.iter().map(|item| item.get_i32("qty").unwrap());
    let number = |value: Option<i32>| value.map(Bson::Int32);
    let sum = (!items.is_empty()).then(|| qty().sum());
    assert_eq!(totals.sum("qty").cloned(), number(sum));
    assert_eq!(totals.min("qty").cloned(), number(qty().min()));
    assert_eq!(totals.max("qty").cloned(), number(qty().max()));
    let all: i64 = items.iter().map(|item| cents(item.get("dollars").unwrap())).sum();
    assert_eq!(totals.sum("dollars").map_or(0, cents), all);
    let date = || items.iter().map(|item| *item.get_datetime("date").unwrap());
    assert_eq!((totals.first, totals.last), (date().min(), date().max()));
}

#[tokio::test]
async fn an_append_keeps_the_figures_in_its_one_round_trip() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        orders.append(&123, &order(1)).await.unwrap();
        orders.append(&123, &order(2)).await.unwrap();
        let expected = doc! {
            "_id": "123_1698335224", "customerId": 123, "count": 2, "history": [order(1), order(2)],
            "figures": {
                "date": { "count": 2, "first": at(SECOND + 1), "last": at(SECOND + 2) },
                "dollars": { "count": 2, "sum": decimal("3.20") },
                "qty": { "count": 2, "max": 7, "min": 3, "sum": 10 },
            },
        };
        assert_eq!(all(&plain(db)).await, [expected]);
        for n in 3..40 {
            db.recorder().clear();
            orders.append(&123, &order(n)).await.unwrap();
            assert_eq!(db.recorder().names(), ["update"]);
            assert!(explain_last(db).await.documents <= 1);
        }
        check(db, &orders).await;
        db.recorder().clear();
        check_totals(&orders.totals(&123).await.unwrap(), &orders_of(1..40));
        assert_eq!(db.recorder().names(), ["aggregate"]);
        check_totals(&orders.totals(&124).await.unwrap(), &[]);
    })
    .await;
}

#[tokio::test]
async fn values_are_counted_whatever_they_are() {
    testkit::run(async |db| {
        let orders = prepared(db, plain_builder(db).count_by("ticker").count_by("open").sum("qty")).await;
        let hostile = [
            bson!("$$ROOT"),
            bson!("$count"),
            bson!("a.b"),
            bson!(""),
            bson!("figures.ticker"),
            bson!(7),
            bson!(7_i64),
            bson!(true),
            Bson::DateTime(DateTime::from_millis(5)),
            bson!("{ \"$literal\": 1 }"),
        ];
        let item = |n: usize| {
            let n_of = i64::try_from(n).unwrap();
            let mut item = order(n_of);
            item.insert("ticker", hostile[n % hostile.len()].clone());
            item.insert("open", n.is_multiple_of(2));
            item
        };
        for n in 0..15 {
            db.recorder().clear();
            orders.append(&123, &item(n)).await.unwrap();
            // The first append checks the index of the item ids.
            assert_eq!(db.recorder().names().last().unwrap(), "findAndModify");
            assert_eq!(db.recorder().round_trips(), if n == 0 { 2 } else { 1 });
            assert!(explain_last(db).await.documents <= 1);
        }
        let batch: Vec<Document> = (15..40).map(item).collect();
        orders.append_many(&123, &batch).await.unwrap();
        assert!(!orders.replace_item(&123, &item(20)).await.unwrap().modified);
        let totals = orders.totals(&123).await.unwrap();
        // 7 as int32 and as int64 is one value.
        let counts = totals.counts("ticker");
        assert_eq!(counts.len(), hostile.len() - 1);
        let are_equal = counts[1..].iter().all(|(_, count)| *count == 4);
        assert!(counts[0].1 == 8 && are_equal, "{counts:?}");
        assert_eq!(totals.counts("open"), [(false.into(), 20), (true.into(), 20)]);
        assert_eq!(totals.counts("qty"), []);
        let findings = collected(orders.verify().stream()).await;
        assert_eq!(findings, []);
        let first = &all(&plain(db)).await[0];
        let open = first.get_document("figures").unwrap().get_document("open").unwrap();
        let counts = vec![doc! { "value": true, "count": 5 }, doc! { "value": false, "count": 5 }];
        assert_eq!(open, &doc! { "count": 10, "counts": counts });
    })
    .await;
}

/// In a transaction. The model makes all other writes.
#[tokio::test]
async fn every_write_of_a_transaction_keeps_the_figures() {
    testkit::run(async |db| {
        let orders = &prepared(db, figured(db).figures_field("figures")).await;
        append_orders(orders, 1, 60).await;
        join_all((60..80).map(|n| async move { orders.append(&1, &order(n)).await.unwrap() })).await;
        check(db, orders).await;

        let mut session = transaction(db).await;
        orders.append(&1, &order(80)).session(&mut session).await.unwrap();
        let more = orders.append_many(&1, &orders_of(81..95)).session(&mut session).await;
        assert_eq!(more.unwrap().items, 14);
        orders.remove_item(&1, 3).session(&mut session).await.unwrap();
        orders.replace_item(&1, &order(40)).session(&mut session).await.unwrap();
        let set = orders.update_item(&1, 41, update(doc! { "qty": 900 }));
        assert!(set.session(&mut session).await.unwrap().modified);
        session.commit_transaction().await.unwrap();
        check(db, orders).await;
        let items = collected(orders.items(&1).stream()).await;
        assert_eq!(items.len(), 94);
        check_totals(&orders.totals(&1).await.unwrap(), &items);
    })
    .await;
}

/// An update document.
pub fn update(set: Document) -> Document {
    doc! { "$set": set }
}

#[tokio::test]
async fn a_changed_item_changes_the_figures() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        append_orders(&orders, 1, 25).await;
        let mut changed = order(7);
        changed.insert("qty", -50);
        for modified in [true, false] {
            db.recorder().clear();
            assert_eq!(orders.replace_item(&1, &changed).await.unwrap().modified, modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert_eq!(explain_last(db).await.documents, 1);
        }
        check(db, &orders).await;
        assert_eq!(orders.totals(&1).await.unwrap().min("qty"), Some(&Bson::Int32(-50)));

        // A field with figures takes a second command, another one does not.
        for (set, modified, names) in [
            (doc! { "qty": 1000, "dollars": decimal("0.01") }, true, TWO),
            (doc! { "qty": 1000 }, false, TWO),
            (doc! { "date": at(SECOND - 500) }, true, TWO),
            (doc! { "ticker": "X" }, true, &["update"]),
            (doc! { "ticker": "X" }, false, &["update"]),
        ] {
            db.recorder().clear();
            let updated = orders.update_item(&1, 8, update(set.clone())).await.unwrap();
            assert_eq!(updated.modified, modified, "{set}");
            assert_eq!(db.recorder().names(), names, "{set}");
            check(db, &orders).await;
        }
        let totals = orders.totals(&1).await.unwrap();
        assert_eq!(totals.max("qty"), Some(&Bson::Int32(1000)));
        assert_eq!(totals.first, Some(at(SECOND - 500)));
        let missing = orders.update_item(&1, 99, update(doc! { "qty": 1 })).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn an_item_without_a_number_is_refused_before_anything_is_sent() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker")).await;
        orders.append(&1, &order(1)).await.unwrap();
        let before = all(&plain(db)).await;
        let mut invalid: Vec<(&str, Option<Bson>)> =
            vec![("dollars", None), ("qty", None), ("ticker", None), ("date", None)];
        let infinities = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Bson::Double);
        let decimals = ["NaN", "Infinity", "-Infinity"].map(|text| Bson::Decimal128(decimal(text)));
        let others = [bson!("5"), bson!(null), bson!([1]), bson!({ "$inc": 1 }), bson!(true)];
        // A page of ten of these overflows.
        let large = [
            bson!(i64::MAX / 2),
            bson!(i64::MIN),
            bson!(f64::MAX),
            Bson::Decimal128(decimal("9E+6144")),
        ];
        let of_qty = infinities.into_iter().chain(decimals).chain(others).chain(large);
        invalid.extend(of_qty.map(|value| ("qty", Some(value))));
        let regex = Regex {
            pattern: "a".to_owned().try_into().unwrap(),
            options: String::new().try_into().unwrap(),
        };
        let labels = [
            bson!(0.5),
            bson!(null),
            bson!(["a"]),
            bson!({ "a": 1 }),
            Bson::RegularExpression(regex),
        ];
        invalid.extend(labels.into_iter().map(|value| ("ticker", Some(value))));
        invalid.push(("date", Some(bson!("2023-10-26"))));
        db.recorder().clear();
        for (field, value) in invalid {
            let mut item = order(2);
            match &value {
                Some(value) => drop(item.insert(field, value.clone())),
                None => drop(item.remove(field)),
            }
            let kind = match field {
                "date" => ErrorKind::InvalidTime,
                _ => ErrorKind::InvalidArgument,
            };
            let append = orders.append(&1, &item).at(at(SECOND)).await;
            let many = orders.append_many(&1, &[order(3), item.clone()]).await;
            item.insert("n", 1);
            let replace = orders.replace_item(&1, &item).await;
            let errors = [append.map(drop), many.map(drop), replace.map(drop)];
            for error in errors.map(Result::unwrap_err) {
                assert_eq!(error.kind(), kind, "{field} {value:?}: {error}");
                assert!(error.to_string().contains(field), "{error}");
            }
            if let Some(value) = value {
                let set = update(doc! { field: value });
                assert_refused(orders.update_item(&1, 1, set).await, kind);
            }
        }
        let unset = doc! { "$unset": { "qty": "" } };
        assert_refused(orders.update_item(&1, 1, unset).await, ErrorKind::InvalidArgument);
        assert_eq!(db.recorder().names(), Vec::<String>::new());
        assert_eq!(all(&plain(db)).await, before);
    })
    .await;
}
