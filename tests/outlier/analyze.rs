//! How list lengths are spread: against what the tests count themselves.

use std::collections::BTreeMap;

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{Analysis, PERCENTILES};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, RawArrayBuf, doc, oid::ObjectId};

use crate::common::explain::{explained, first};
use crate::common::support::all;
use crate::outlier::support::*;

/// Many short lists and a few long ones, the same ones every time: the length is as likely to be above `n` as 1 to `n`.
fn heavy_tail(books: u64) -> Vec<usize> {
    let mut state = 2023_u64;
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..books).map(|_| (1000 / (1 + next() % 1000)) as usize).collect()
}

async fn insert_heavy_tail(db: &TestDatabase, books: &Books) -> Vec<usize> {
    let lengths = heavy_tail(400);
    for (id, length) in (0..).zip(&lengths) {
        books.insert(&book(id, *length)).await.unwrap();
    }
    db.recorder().clear();
    lengths
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
fn assert_lengths(analysis: &Analysis, lengths: &[usize]) {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut by_length = BTreeMap::new();
    for length in &sorted {
        *by_length.entry(*length as u64).or_insert(0) += 1;
    }
    let stored = analysis.lengths.iter().map(|lists| (lists.length, lists.documents));
    assert!(stored.eq(by_length), "{:?}", analysis.lengths);
    assert_eq!(analysis.documents, sorted.len() as u64);
    assert_eq!(analysis.elements, sorted.iter().sum::<usize>() as u64);
    assert_eq!(
        analysis.percentiles(),
        PERCENTILES.map(|percent| (percent, percentile(&sorted, percent)))
    );
    let ranges = analysis.ranges();
    for range in &ranges {
        let within = sorted
            .iter()
            .filter(|length| (range.from..=range.to).contains(&(**length as u64)));
        assert_eq!(range.documents, within.clone().count() as u64, "{range:?}");
        assert_eq!(range.elements, within.sum::<usize>() as u64, "{range:?}");
    }
    assert_eq!(
        ranges.iter().map(|range| range.documents).sum::<u64>(),
        analysis.documents
    );
    for threshold in [1, 5, 50, 500] {
        let at = analysis.outliers_at(threshold);
        let beyond = sorted
            .iter()
            .filter_map(|length| length.checked_sub(threshold as usize));
        let extras = beyond.sum::<usize>();
        let outliers = sorted.iter().filter(|length| **length > threshold as usize).count();
        assert_eq!(
            (at.documents, at.overflow),
            (outliers as u64, extras as u64),
            "{threshold}"
        );
    }
}

fn bson_size(document: &Document) -> u64 {
    mongodb::bson::serialize_to_vec(document).unwrap().len() as u64
}

#[tokio::test]
async fn a_heavy_tail_is_counted_in_one_aggregate_that_only_reads() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(5).max_extras_elements(10)).await;
        let lengths = insert_heavy_tail(db, &books).await;
        let before = (all(&sales(db)).await, all(&extra_sales(db)).await);
        assert!(before.1.len() > 100, "outliers of several extras");

        let analysis = books.analyze().await.unwrap();
        assert_eq!(db.recorder().names(), ["aggregate"]);
        let sent = db.recorder().commands().remove(0);
        assert_eq!(sent.command.get_bool("allowDiskUse").ok(), Some(true));
        let rows = sent.reply.unwrap();
        let rows = rows
            .get_document("cursor")
            .unwrap()
            .get_array("firstBatch")
            .unwrap()
            .len();
        assert_eq!(rows, analysis.lengths.len(), "a row for each length");
        assert!(rows < lengths.len() / 5, "{rows}");

        assert_lengths(&analysis, &lengths);
        let longest = analysis.longest.clone().unwrap();
        assert_eq!(longest.length as usize, *lengths.iter().max().unwrap());
        let first = lengths
            .iter()
            .position(|length| *length as u64 == longest.length)
            .unwrap();
        assert_eq!(longest.id, Bson::Int32(first.try_into().unwrap()));
        assert_eq!(analysis.bytes, before.0.iter().map(bson_size).sum::<u64>());
        assert_eq!(before, (all(&sales(db)).await, all(&extra_sales(db)).await));
    })
    .await;
}

#[tokio::test]
async fn the_bytes_of_elements_are_those_in_their_arrays() {
    testkit::run(async |db| {
        let books: Books = ready(db, builder(db).threshold(5).max_extras_elements(10)).await;
        books.insert(&book(1, 3)).await.unwrap();
        books.insert(&book(2, 27)).await.unwrap();
        let analysis = books.analyze().await.unwrap();
        let arrays = [users(0..3), users(0..5), users(5..15), users(15..25), users(25..27)];
        let bytes = arrays.map(|users| {
            let mut array = RawArrayBuf::new();
            users.iter().for_each(|user| array.push(user.as_str()));
            array.as_bytes().len() as u64 - 5 // its length, and its end
        });
        assert_eq!(analysis.element_bytes, bytes.iter().sum::<u64>());
        assert_eq!(analysis.bytes_per_element(), analysis.element_bytes as f64 / 30.0);
    })
    .await;
}

#[tokio::test]
async fn overflow_documents_of_the_manuals_form_count_and_those_without_a_flag_do_not() {
    testkit::run(async |db| {
        let books = books(db).await;
        books.insert(&book(1, 3)).await.unwrap();
        let extras = |id: Bson, users: Vec<String>| doc! { "book_id": id, "customers_purchased_extra": users };
        let flagged = doc! { "_id": 2, "customers_purchased": users(0..50), "has_extras": true };
        let unflagged = doc! { "_id": 3, "customers_purchased": users(0..50) };
        sales(db).insert_many([flagged, unflagged]).await.unwrap();
        let documents = [
            // The shell writes doubles.
            extras(2.0.into(), users(50..1000)),
            extras(3.into(), users(50..60)),
            extras(4.into(), users(0..10)),
        ];
        for mut document in documents {
            // An index of the manual's form would allow one of each book.
            document.insert("_id", ObjectId::new());
            extra_sales(db).insert_one(document).await.unwrap();
        }
        for analysis in [
            books.analyze().await.unwrap(),
            books.analyze().sample(100).await.unwrap(),
        ] {
            assert_lengths(&analysis, &[3, 50, 1000]);
            assert_eq!(analysis.elements, books.count(2).await.unwrap().total() + 53);
            let longest = analysis.longest.unwrap();
            assert_eq!((longest.id, longest.length), (Bson::Int32(2), 1000));
        }
    })
    .await;
}

#[tokio::test]
async fn missing_arrays_are_empty_and_other_values_are_counted_apart() {
    testkit::run(async |db| {
        let books = books(db).await;
        let documents = [
            doc! { "_id": 1 },
            doc! { "_id": 2, "customers_purchased": null },
            doc! { "_id": 3, "customers_purchased": [] },
            doc! { "_id": 4, "customers_purchased": ["user00"] },
            doc! { "_id": 5, "customers_purchased": "user00" },
            doc! { "_id": 6, "customers_purchased": { "0": "user00" }, "has_extras": true },
            doc! { "_id": 7, "has_extras": true },
        ];
        sales(db).insert_many(documents).await.unwrap();
        let extras = [
            doc! { "book_id": 6, "seq": 0, "count": 2, "customers_purchased_extra": ["a", "b"] },
            doc! { "book_id": 7, "seq": 0, "count": 2, "customers_purchased_extra": ["a", "b"] },
            doc! { "book_id": 7, "seq": 1, "count": 2, "customers_purchased_extra": "a, b" },
        ];
        extra_sales(db).insert_many(extras).await.unwrap();
        for analysis in [
            books.analyze().await.unwrap(),
            books.analyze().sample(100).await.unwrap(),
        ] {
            assert_lengths(&analysis, &[0, 0, 0, 1, 2]);
            assert_eq!(analysis.not_arrays, 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_collection_of_long_arrays_is_analyzed_before_it_overflows() {
    testkit::run(async |db| {
        let books = builder::<Book, String>(db).build().unwrap();
        let analysis = books.analyze().await.unwrap();
        assert_eq!(analysis, Analysis::default(), "there are no collections yet");
        let lengths = heavy_tail(500);
        let documents = (0..).zip(&lengths).map(|(id, length)| {
            doc! { "_id": id, "customers_purchased": users(0..*length) }
        });
        sales(db).insert_many(documents.collect::<Vec<_>>()).await.unwrap();
        let analysis = books.analyze().await.unwrap();
        assert_lengths(&analysis, &lengths);
        let suggested = analysis.suggestions();
        assert!(!suggested.is_empty());
        for at in suggested {
            assert!(at.documents >= 1 && at.documents <= 50 && at.overflow >= 1, "{at:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_sample_has_the_given_number_of_documents_with_all_their_elements() {
    testkit::run(async |db| {
        let books = ready(db, builder(db).threshold(5).max_extras_elements(10)).await;
        let lengths = insert_heavy_tail(db, &books).await;
        let all_of_them = books.analyze().sample(1_000_000).await.unwrap();
        assert_lengths(&all_of_them, &lengths);
        assert_eq!(
            all_of_them.longest.unwrap().length as usize,
            *lengths.iter().max().unwrap()
        );

        db.recorder().clear();
        let sample = books.analyze().sample(40).await.unwrap();
        assert_eq!(db.recorder().names(), ["aggregate"]);
        assert_eq!(sample.documents, 40);
        for lists in &sample.lengths {
            let of_length = |length: &&usize| **length as u64 == lists.length;
            assert!(
                lengths.iter().any(|length| of_length(&length)),
                "{lists:?} is no list's length"
            );
        }
        let explained = explained(db, &db.recorder().commands()[0]).await;
        let scans = first(&explained, "collectionScans").and_then(Bson::as_i64);
        assert_eq!(scans, Some(0), "{explained}");
        let refused = books.analyze().sample(0).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(refused.operation(), Some("analyze"));
    })
    .await;
}
