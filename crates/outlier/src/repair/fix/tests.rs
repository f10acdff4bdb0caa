use mongodb::bson::{self, Bson, doc};
use proptest::prelude::*;

use super::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// A threshold of 3, and a cap of 4.
fn settings() -> Settings {
    Settings {
        threshold: 3,
        max_extras_elements: 4,
        ..Settings::example()
    }
}

fn main(elements: &[Bson], flag: impl Into<Bson>) -> Option<RawDocumentBuf> {
    Some(raw(
        &doc! { "_id": 2, "array": elements, "flag": flag.into(), "bytes": 200 },
    ))
}

fn extra(id: &str, seq: i32, elements: &[Bson]) -> RawDocumentBuf {
    let count = i32::try_from(elements.len()).unwrap();
    raw(&doc! { "_id": id, "book_id": 2, "seq": seq, "count": count, "customers_purchased_extra": elements })
}

fn numbers(range: std::ops::Range<i32>) -> Vec<Bson> {
    range.map(Bson::from).collect()
}

fn mended(settings: &Settings, main: Option<RawDocumentBuf>, extras: Vec<RawDocumentBuf>) -> Mending {
    mend(settings, &Bson::Int32(2), Stored { main, extras }, false).unwrap()
}

fn written(mending: &Mending) -> Vec<Document> {
    let written = mending.changes.written.iter();
    written
        .map(|document| bson::deserialize_from_slice(document.as_bytes()).unwrap())
        .collect()
}

#[test]
fn what_is_right_is_not_written() {
    let mending = mended(
        &settings(),
        main(&numbers(0..3), true),
        vec![extra("b", 1, &numbers(7..9)), extra("a", 0, &numbers(3..7))],
    );
    assert!(mending.is_empty() && mending.findings.is_empty() && mending.found);
    assert_eq!((mending.inline, mending.overflow, mending.left), (3, 6, None));
}

#[test]
fn a_short_array_gets_what_comes_next_and_extras_move_up() {
    let extras = vec![
        extra("a", 0, &numbers(1..5)),
        extra("b", 1, &numbers(5..6)),
        extra("c", 2, &[]),
    ];
    let mending = mended(&settings(), main(&numbers(0..1), true), extras);
    assert_eq!(
        mending.main,
        doc! { "customers_purchased": { "$concatArrays": [
            { "$ifNull": ["$customers_purchased", []] },
            { "$literal": [1, 2] },
        ] } }
    );
    assert_eq!(
        written(&mending),
        [doc! { "_id": "a", "book_id": 2, "seq": 0, "count": 3, "customers_purchased_extra": [3, 4, 5] }]
    );
    assert_eq!(mending.changes.removed, ["a", "b", "c"].map(Bson::from));
    assert_eq!(
        (mending.removed(), mending.claim, mending.clears_flag),
        (2, Some(3), false)
    );
}

#[test]
fn the_flag_goes_with_the_last_of_the_extras() {
    let mending = mended(
        &settings(),
        main(&numbers(0..2), true),
        vec![extra("a", 5, &numbers(2..3))],
    );
    assert_eq!(mending.main.get("has_extras"), Some(&"$$REMOVE".into()));
    assert_eq!((mending.claim, mending.clears_flag), (Some(6), true));
    let nothing = mended(&settings(), main(&numbers(0..2), true), vec![]);
    assert_eq!(nothing.main, doc! { "has_extras": "$$REMOVE" });
    assert_eq!((nothing.claim, nothing.clears_flag), (Some(0), true));
}

#[test]
fn a_long_array_is_cut() {
    let mending = mended(&settings(), main(&numbers(0..9), false), vec![]);
    assert_eq!(
        mending.main,
        doc! { "customers_purchased": { "$slice": ["$customers_purchased", 3] }, "has_extras": true }
    );
    let places: Vec<_> = written(&mending)
        .iter()
        .map(|extra| extra.get_i32("seq").unwrap())
        .collect();
    assert_eq!((places, mending.claim), (vec![0, 1], None));
}

#[test]
fn unique_elements_are_there_once() {
    let unique = Settings {
        unique: true,
        ..settings()
    };
    let doubled: Vec<Bson> = vec![1.into(), 1.0.into(), 2.into()];
    let mending = mended(
        &unique,
        main(&doubled, true),
        vec![extra("a", 0, &[2_i64.into(), 3.into()])],
    );
    assert_eq!(
        mending.main.get_document("customers_purchased").unwrap(),
        &doc! { "$concatArrays": [{ "$slice": ["$customers_purchased", 1] }, { "$literal": [2, 3] }] }
    );
    assert_eq!((mending.inline, mending.overflow), (3, 0));
}

#[test]
fn extras_of_an_array_of_parents_are_not_touched() {
    let other = raw(&doc! { "_id": "x", "book_id": [2, 3], "customers_purchased_extra": [1] });
    let mending = mended(&settings(), main(&numbers(0..2), false), vec![other]);
    assert!(mending.is_empty() && mending.findings.is_empty());
}

proptest! {
    #[test]
    fn no_element_is_lost_and_order_stays_and_once_more_is_nothing(
        inline in 0..8_i32,
        sizes in prop::collection::vec((0..9_i32, prop::option::of(0..6_i32)), 0..6),
        flag in prop_oneof![Just(Bson::Boolean(true)), Just(Bson::Boolean(false)), Just(Bson::Null)],
    ) {
        let mut places: Vec<Option<i32>> = sizes.iter().map(|(_, seq)| *seq).collect();
        places.sort_unstable();
        let mut at = inline;
        let mut extras = Vec::new();
        for (index, ((size, _), seq)) in sizes.iter().zip(places).enumerate() {
            let elements = numbers(at..at + size);
            let mut document = doc! { "_id": index.to_string(), "book_id": 2, "customers_purchased_extra": elements };
            if let Some(seq) = seq {
                document.insert("seq", seq);
            }
            extras.push(raw(&document));
            at += size;
        }
        let all = numbers(0..at);
        extras.reverse(); // in whatever order they are found
        let old = extras.clone();
        let mending = mended(&settings(), main(&numbers(0..inline), flag), extras);
        prop_assert_eq!(mending.left, None);
        prop_assert_eq!(mending.inline + mending.overflow, all.len() as u64);
        prop_assert_eq!(mending.inline, all.len().min(3) as u64);

        // What is stored then, as the server would have it.
        let ids: Vec<Bson> = mending.changes.removed.clone();
        let mut stored: Vec<RawDocumentBuf> = old.into_iter().filter(|old| !ids.contains(&id_of(old))).collect();
        stored.extend(mending.changes.written.iter().cloned());
        let kept = all[..usize::try_from(mending.inline).unwrap()].to_vec();
        let is_flagged = mending.overflow > 0;
        let mut overflow: Vec<(i32, Vec<Bson>)> = stored
            .iter()
            .map(|document| {
                let document: Document = bson::deserialize_from_slice(document.as_bytes()).unwrap();
                let elements = document.get_array("customers_purchased_extra").unwrap().clone();
                (document.get_i32("seq").unwrap(), elements)
            })
            .collect();
        overflow.sort_by_key(|(seq, _)| *seq);
        let read: Vec<Bson> = kept.iter().cloned().chain(overflow.into_iter().flat_map(|(_, elements)| elements)).collect();
        prop_assert_eq!(read, all);
        let again = mended(&settings(), main(&kept, is_flagged), stored);
        prop_assert!(again.is_empty() && again.findings.is_empty());
    }
}
