//! The analysis of arrays with overflow documents, against what the tests count themselves.

use std::collections::BTreeMap;

use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawArrayBuf, doc};

use crate::support::*;

const LISTS: [&str; 7] = words("outlier --collection sales --array customers --parent book");
const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

type Books = OutlierRepository<Document, String>;

/// Returns a repository of the collections that [`LISTS`] names.
async fn books(db: &TestDatabase) -> Books {
    let [sales, extras] = ["sales", "sales_extras"].map(|name| db.plain_collection::<Document>(name));
    let builder = Books::builder(sales, extras)
        .array_field("customers")
        .parent_field("book");
    let books = builder.threshold(5).max_overflow_elements(10).build().unwrap();
    books.ensure_indexes().await.unwrap();
    books
}

fn users(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("user{number}")).collect()
}

fn book(id: i32, length: usize) -> Document {
    doc! { "_id": id, "customers": users(0..length) }
}

/// Many short lists and a few long ones, the same ones every time: the length is as likely to be above `n` as 1 to `n`.
fn heavy_tail(books: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(2023);
    (0..books).map(|_| 1000 / random.usize(1..=1000)).collect()
}

fn analyze(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(LISTS).args(["analyze", "--json"]).args(arguments)).ok()
}

/// Returns the smallest length that this percentage of the documents does not exceed.
fn percentile(sorted: &[usize], percent: f64) -> u64 {
    let enough = |length: &usize| {
        let within = sorted.iter().filter(|other| *other <= length).count();
        within as f64 * 100.0 >= percent * sorted.len() as f64
    };
    *sorted.iter().find(|length| enough(length)).unwrap() as u64
}

/// Everything that an analysis says of lengths.
#[track_caller]
fn assert_lengths(analyzed: &Ran, lengths: &[usize]) {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let (lines, summary) = (analyzed.json(), analyzed.summary());
    assert_eq!(summary["lists"], sorted.len());
    assert_eq!(summary["items"], sorted.iter().sum::<usize>());
    let numbers = |kind: &str, fields: [&str; 3]| -> Vec<[u64; 3]> {
        let lines = lines.iter().filter(|line| line["type"] == kind);
        lines
            .map(|line| fields.map(|field| line[field].as_u64().unwrap()))
            .collect()
    };
    let ranges = numbers("range", ["from", "to", "lists"]);
    for [from, to, lists] in &ranges {
        let within = sorted
            .iter()
            .filter(|length| (*from..=*to).contains(&(**length as u64)));
        assert_eq!(*lists, within.count() as u64, "{from}-{to}");
    }
    assert_eq!(ranges.iter().map(|[.., lists]| lists).sum::<u64>(), sorted.len() as u64);
    let percentiles = lines.iter().filter(|line| line["type"] == "percentile");
    let percentiles: Vec<_> = percentiles
        .map(|line| (line["percent"].as_f64().unwrap(), line["length"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        percentiles,
        PERCENTILES.map(|percent| (percent, percentile(&sorted, percent)))
    );
}

async fn contents(db: &TestDatabase) -> BTreeMap<&'static str, Vec<Document>> {
    let (sales, extras) = ("sales", "sales_extras");
    BTreeMap::from([(sales, all(db, sales).await), (extras, all(db, extras).await)])
}

#[tokio::test]
async fn a_heavy_tail_is_counted_with_its_overflow_documents_and_nothing_is_written() {
    testkit::run(async |db| {
        let books = books(db).await;
        let lengths = heavy_tail(200);
        for (id, length) in (0..).zip(&lengths) {
            books.insert(&book(id, *length)).await.unwrap();
        }
        let before = contents(db).await;
        assert!(before["sales_extras"].len() > 30, "outliers of several extras");
        assert_lengths(&analyze(db, &[]), &lengths);
        assert_lengths(&analyze(db, &["--sample", "1000000"]), &lengths);
        let sample = analyze(db, &["--sample", "40"]);
        assert_eq!(sample.summary()["lists"], 40, "{sample:?}");
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn the_bytes_of_items_are_those_in_their_arrays() {
    testkit::run(async |db| {
        let books = books(db).await;
        books.insert(&book(1, 3)).await.unwrap();
        books.insert(&book(2, 27)).await.unwrap();
        let arrays = [users(0..3), users(0..5), users(5..15), users(15..25), users(25..27)];
        let bytes = arrays.map(|users| {
            let mut array = RawArrayBuf::new();
            users.iter().for_each(|user| array.push(user.as_str()));
            array.as_bytes().len() - 5 // its length, and its end
        });
        let mean = bytes.iter().sum::<usize>() as f64 / 30.0;
        assert_eq!(analyze(db, &[]).summary()["item_bytes"], mean.round());
    })
    .await;
}

#[tokio::test]
async fn overflow_documents_of_the_manuals_form_count_and_those_without_a_flag_do_not() {
    testkit::run(async |db| {
        let extras =
            |id: Bson, users: Vec<String>| doc! { "_id": ObjectId::new(), "book": id, "customers_extra": users };
        let flagged = doc! { "_id": 2, "customers": users(0..50), "has_extras": true };
        insert(db, "sales", [book(1, 3), flagged, book(3, 50)]).await;
        let documents = [
            // The shell writes doubles.
            extras(2.0.into(), users(50..1000)),
            extras(3.into(), users(50..60)),
            extras(4.into(), users(0..10)),
        ];
        insert(db, "sales_extras", documents).await;
        for arguments in [&[][..], &["--sample", "100"]] {
            assert_lengths(&analyze(db, arguments), &[3, 50, 1000]);
        }
    })
    .await;
}

#[tokio::test]
async fn missing_arrays_are_empty_and_other_values_are_counted_apart() {
    testkit::run(async |db| {
        let documents = [
            doc! { "_id": 1 },
            doc! { "_id": 2, "customers": null },
            doc! { "_id": 3, "customers": [] },
            doc! { "_id": 4, "customers": ["user00"] },
            doc! { "_id": 5, "customers": "user00" },
            doc! { "_id": 6, "customers": { "0": "user00" }, "has_extras": true },
            doc! { "_id": 7, "has_extras": true },
        ];
        insert(db, "sales", documents).await;
        let extras = [
            doc! { "book": 6, "seq": 0, "count": 2, "customers_extra": ["a", "b"] },
            doc! { "book": 7, "seq": 0, "count": 2, "customers_extra": ["a", "b"] },
            doc! { "book": 7, "seq": 1, "count": 2, "customers_extra": "a, b" },
        ];
        insert(db, "sales_extras", extras).await;
        for arguments in [&[][..], &["--sample", "100"]] {
            let analyzed = analyze(db, arguments);
            assert_lengths(&analyzed, &[0, 0, 0, 1, 2]);
            assert_eq!(analyzed.summary()["left_out"], 2);
        }
    })
    .await;
}

/// Before there are overflow documents, or a collection of them. The field names are those of the options.
#[tokio::test]
async fn long_arrays_are_analyzed_before_they_overflow() {
    testkit::run(async |db| {
        let lengths = heavy_tail(300);
        let documents = (0..).zip(&lengths).map(|(id, length)| book(id, *length));
        insert(db, "sales", documents).await;
        assert_lengths(&analyze(db, &[]), &lengths);

        update(db, "sales", doc! { "_id": 0 }, doc! { "$set": { "long": true } }).await;
        insert(db, "rest", [doc! { "book": 0, "more": users(0..7) }]).await;
        let named = ["--flag", "long", "--extras", "more", "--extras-collection", "rest"];
        let analyzed = ran(on(db).args(LISTS).args(named).args(["analyze", "--json"]));
        assert_eq!(analyzed.summary()["items"], lengths.iter().sum::<usize>() + 7);
    })
    .await;
}
