use mongodb::bson;
use proptest::prelude::*;

use super::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

/// Returns settings with a threshold of 3, and 4 elements in an overflow document.
fn settings() -> Settings {
    Settings {
        threshold: 3,
        max_overflow_elements: 4,
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

fn fixed(settings: &Settings, main: Option<RawDocumentBuf>, overflow: Vec<RawDocumentBuf>) -> Fix {
    fix(settings, &Bson::Int32(2), Stored { main, overflow }, false).unwrap()
}

fn written(fix: &Fix) -> Vec<Document> {
    let written = fix.changes.written.iter();
    written
        .map(|document| bson::deserialize_from_slice(document.as_bytes()).unwrap())
        .collect()
}

#[test]
fn a_list_in_place_is_not_written() {
    let fix = fixed(
        &settings(),
        main(&numbers(0..3), true),
        vec![extra("b", 1, &numbers(7..9)), extra("a", 0, &numbers(3..7))],
    );
    assert!(fix.is_empty() && fix.findings.is_empty() && fix.has_main);
    assert_eq!((fix.inline, fix.overflow, fix.unrepaired), (3, 6, None));
}

#[test]
fn a_short_array_is_filled_and_overflow_documents_move_up() {
    let extras = vec![
        extra("a", 0, &numbers(1..5)),
        extra("b", 1, &numbers(5..6)),
        extra("c", 2, &[]),
    ];
    let fix = fixed(&settings(), main(&numbers(0..1), true), extras);
    assert_eq!(
        fix.main,
        doc! { "customers_purchased": { "$concatArrays": [
            { "$ifNull": ["$customers_purchased", []] },
            { "$literal": [1, 2] },
        ] } }
    );
    assert_eq!(
        written(&fix),
        [doc! { "_id": "a", "book_id": 2, "seq": 0, "count": 3, "customers_purchased_extra": [3, 4, 5] }]
    );
    assert_eq!(fix.changes.removed, ["a", "b", "c"].map(Bson::from));
    assert_eq!((fix.claim, fix.clears_flag), (Some(3), false));
}

#[test]
fn the_flag_is_cleared_with_the_last_overflow_document() {
    let fix = fixed(
        &settings(),
        main(&numbers(0..2), true),
        vec![extra("a", 5, &numbers(2..3))],
    );
    assert_eq!(fix.main.get("has_extras"), Some(&"$$REMOVE".into()));
    assert_eq!((fix.claim, fix.clears_flag), (Some(6), true));
    let empty = fixed(&settings(), main(&numbers(0..2), true), vec![]);
    assert_eq!(empty.main, doc! { "has_extras": "$$REMOVE" });
    assert_eq!((empty.claim, empty.clears_flag), (Some(0), true));
}

#[test]
fn a_long_array_is_cut() {
    let fix = fixed(&settings(), main(&numbers(0..9), false), vec![]);
    assert_eq!(
        fix.main,
        doc! { "customers_purchased": { "$slice": ["$customers_purchased", 3] }, "has_extras": true }
    );
    let positions: Vec<_> = written(&fix)
        .iter()
        .map(|extra| extra.get_i32("seq").unwrap())
        .collect();
    assert_eq!((positions, fix.claim), (vec![0, 1], None));
}

#[test]
fn a_duplicate_of_a_unique_element_is_removed() {
    let unique = Settings {
        unique: true,
        ..settings()
    };
    let duplicates: Vec<Bson> = vec![1.into(), 1.0.into(), 2.into()];
    let fix = fixed(
        &unique,
        main(&duplicates, true),
        vec![extra("a", 0, &[2_i64.into(), 3.into()])],
    );
    assert_eq!(
        fix.main.get_document("customers_purchased").unwrap(),
        &doc! { "$concatArrays": [{ "$slice": ["$customers_purchased", 1] }, { "$literal": [2, 3] }] }
    );
    assert_eq!((fix.inline, fix.overflow), (3, 0));
}

#[test]
fn overflow_documents_get_new_ids_where_unique_elements_join_the_array() {
    let unique = Settings {
        unique: true,
        ..settings()
    };
    let extras = || vec![extra("a", 0, &numbers(2..5)), extra("b", 1, &numbers(5..6))];
    let fix = fixed(&unique, main(&numbers(0..2), true), extras());
    let [written] = written(&fix).try_into().unwrap();
    assert!(written.get_object_id("_id").is_ok(), "{written}");
    assert_eq!(written.get_array("customers_purchased_extra").unwrap(), &numbers(3..6));
    assert_eq!(fix.changes.removed, ["a", "b"].map(Bson::from));

    // None joins a full array.
    let fix = fixed(&unique, main(&numbers(7..10), true), extras());
    let ids: Vec<Bson> = fix.changes.written.iter().map(|document| id_of(document)).collect();
    assert_eq!(
        (ids, fix.changes.removed),
        (vec!["a".into()], vec!["a".into(), "b".into()])
    );
}

#[test]
fn an_overflow_document_with_an_array_of_parents_is_not_changed() {
    let other = raw(&doc! { "_id": "x", "book_id": [2, 3], "customers_purchased_extra": [1] });
    let fix = fixed(&settings(), main(&numbers(0..2), false), vec![other]);
    assert!(fix.is_empty() && fix.findings.is_empty());
}

proptest! {
    #[test]
    fn a_fix_loses_no_element_keeps_the_order_and_is_idempotent(
        inline in 0..8_i32,
        sizes in prop::collection::vec((0..9_i32, prop::option::of(0..6_i32)), 0..6),
        flag in prop_oneof![Just(Bson::Boolean(true)), Just(Bson::Boolean(false)), Just(Bson::Null)],
    ) {
        let mut positions: Vec<Option<i32>> = sizes.iter().map(|(_, seq)| *seq).collect();
        positions.sort_unstable();
        let mut next = inline;
        let mut overflow = Vec::new();
        for (index, ((size, _), seq)) in sizes.iter().zip(positions).enumerate() {
            let elements = numbers(next..next + size);
            let mut document = doc! { "_id": index.to_string(), "book_id": 2, "customers_purchased_extra": elements };
            if let Some(seq) = seq {
                document.insert("seq", seq);
            }
            overflow.push(raw(&document));
            next += size;
        }
        let all = numbers(0..next);
        overflow.reverse(); // the server finds them in any order
        let old = overflow.clone();
        let fix = fixed(&settings(), main(&numbers(0..inline), flag), overflow);
        prop_assert_eq!(fix.unrepaired, None);
        prop_assert_eq!(fix.inline + fix.overflow, all.len() as u64);
        prop_assert_eq!(fix.inline, all.len().min(3) as u64);

        // What the server stores then.
        let ids: Vec<Bson> = fix.changes.removed.clone();
        let mut stored: Vec<RawDocumentBuf> = old.into_iter().filter(|old| !ids.contains(&id_of(old))).collect();
        stored.extend(fix.changes.written.iter().cloned());
        let kept = all[..usize::try_from(fix.inline).unwrap()].to_vec();
        let is_flagged = fix.overflow > 0;
        let mut read: Vec<(i32, Vec<Bson>)> = stored
            .iter()
            .map(|document| {
                let document: Document = bson::deserialize_from_slice(document.as_bytes()).unwrap();
                let elements = document.get_array("customers_purchased_extra").unwrap().clone();
                (document.get_i32("seq").unwrap(), elements)
            })
            .collect();
        read.sort_by_key(|(seq, _)| *seq);
        let read: Vec<Bson> = kept.iter().cloned().chain(read.into_iter().flat_map(|(_, elements)| elements)).collect();
        prop_assert_eq!(read, all);
        let again = fixed(&settings(), main(&kept, is_flagged), stored);
        prop_assert!(again.is_empty() && again.findings.is_empty());
    }
}
