//! Stored documents with something wrong, and what there is to find.

use mongo_patterns::outlier::{Finding, Problem};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use crate::outlier::support::*;

/// A main document of a threshold of 5, and no flag.
pub fn main_of(id: i32, elements: std::ops::Range<usize>) -> Document {
    doc! { "_id": id, "title": "The Wooden Amulet", "customers_purchased": users(elements) }
}

pub fn flagged(id: i32, elements: std::ops::Range<usize>) -> Document {
    with(main_of(id, elements), "has_extras", true)
}

/// An overflow document, whose `_id` has its position.
pub fn extra(id: i32, seq: i32, elements: std::ops::Range<usize>) -> Document {
    doc! {
        "_id": format!("{id}-{seq}"),
        "book_id": id,
        "seq": seq,
        "count": i32::try_from(elements.len()).unwrap(),
        "customers_purchased_extra": users(elements),
    }
}

/// An overflow document as the manual's shell command writes it.
pub fn naive(id: i32, name: &str, elements: std::ops::Range<usize>) -> Document {
    doc! { "_id": name, "book_id": id, "customers_purchased_extra": users(elements) }
}

pub fn with(mut document: Document, field: &str, value: impl Into<Bson>) -> Document {
    document.insert(field, value);
    document
}

pub fn without(mut document: Document, field: &str) -> Document {
    document.remove(field).unwrap();
    document
}

pub async fn plant(db: &TestDatabase, main: Vec<Document>, extras: Vec<Document>) {
    sales(db).delete_many(doc! {}).await.unwrap();
    extra_sales(db).delete_many(doc! {}).await.unwrap();
    if !main.is_empty() {
        sales(db).insert_many(main).await.unwrap();
    }
    if !extras.is_empty() {
        extra_sales(db).insert_many(extras).await.unwrap();
    }
}

pub struct Damage {
    pub main: Vec<Document>,
    pub extras: Vec<Document>,
    /// The collection and the `_id` of each document with a problem.
    pub problems: Vec<(&'static str, Bson, Problem)>,
    /// All elements of book 2 afterwards; `None` where it is left as it is.
    pub mended: Option<Vec<String>>,
}

/// One of each kind, in book 2, with a threshold of 5 and a cap of 10.
pub fn kinds() -> Vec<Damage> {
    let main = |problem| vec![("sales", Bson::Int32(2), problem)];
    let extras = |id: &str, problem| vec![("extra_sales", Bson::from(id), problem)];
    let mut kinds = Vec::new();
    let mut kind = |main, extras, problems, mended: Option<std::ops::Range<usize>>| {
        kinds.push(Damage {
            main,
            extras,
            problems,
            mended: mended.map(users),
        });
    };
    let null = with(main_of(2, 0..0), "customers_purchased", Bson::Null);
    kind(vec![null.clone()], vec![], main(Problem::ArrayNull), Some(0..0));
    kind(
        vec![with(null, "has_extras", true)],
        vec![extra(2, 0, 0..7)],
        main(Problem::ArrayNull),
        Some(0..7),
    );
    kind(
        vec![main_of(2, 0..27)],
        vec![],
        main(Problem::OverThreshold { elements: 27 }),
        Some(0..27),
    );
    kind(
        vec![with(main_of(2, 0..5), "customers_purchased", "nobody")],
        vec![extra(2, 0, 5..8)],
        [
            main(Problem::ArrayNotArray),
            main(Problem::OverflowWithoutFlag { documents: 1 }),
        ]
        .concat(),
        None,
    );
    kind(
        vec![with(main_of(2, 0..5), "has_extras", "yes")],
        vec![extra(2, 0, 5..8)],
        main(Problem::FlagNotBoolean),
        Some(0..8),
    );
    kind(
        vec![with(main_of(2, 0..5), "has_extras", Bson::Null)],
        vec![],
        main(Problem::FlagNotBoolean),
        Some(0..5),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![],
        main(Problem::FlagWithoutOverflow),
        Some(0..5),
    );
    kind(
        vec![main_of(2, 0..5)],
        vec![extra(2, 0, 5..15), extra(2, 1, 15..18)],
        main(Problem::OverflowWithoutFlag { documents: 2 }),
        Some(0..18),
    );
    kind(
        vec![with(main_of(2, 0..5), "has_extras", false)],
        vec![extra(2, 0, 5..7)],
        main(Problem::OverflowWithoutFlag { documents: 1 }),
        Some(0..7),
    );
    kind(vec![], vec![extra(2, 0, 0..3)], extras("2-0", Problem::Orphaned), None);
    kind(
        vec![flagged(2, 0..5)],
        vec![extra(2, 1, 15..20), without(extra(2, 0, 5..15), "seq")],
        [
            extras("2-0", Problem::PositionMissing),
            extras("2-1", Problem::Gap { positions: 1 }),
        ]
        .concat(),
        Some(0..20),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![with(extra(2, 0, 5..15), "seq", "first")],
        extras("2-0", Problem::PositionMissing),
        Some(0..15),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![extra(2, 0, 5..15), with(extra(2, 1, 15..20), "seq", 0)],
        extras("2-1", Problem::DuplicatePosition),
        Some(0..20),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![extra(2, 0, 5..15), extra(2, 3, 15..20)],
        extras("2-3", Problem::Gap { positions: 2 }),
        Some(0..20),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![
            with(extra(2, 0, 5..15), "count", 9),
            without(extra(2, 1, 15..20), "count"),
        ],
        [
            extras(
                "2-0",
                Problem::Count {
                    count: Some(9),
                    elements: 10,
                },
            ),
            extras(
                "2-1",
                Problem::Count {
                    count: None,
                    elements: 5,
                },
            ),
        ]
        .concat(),
        Some(0..20),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![extra(2, 0, 5..27)],
        extras("2-0", Problem::TooManyElements { elements: 22 }),
        Some(0..27),
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![with(extra(2, 0, 5..15), "customers_purchased_extra", 7)],
        extras("2-0", Problem::ElementsNotArray),
        None,
    );
    kind(
        vec![flagged(2, 0..5)],
        vec![naive(2, "naive", 5..27)],
        [
            extras("naive", Problem::PositionMissing),
            extras(
                "naive",
                Problem::Count {
                    count: None,
                    elements: 22,
                },
            ),
            extras("naive", Problem::TooManyElements { elements: 22 }),
        ]
        .concat(),
        Some(0..27),
    );
    kinds
}

pub fn problems(findings: &[Finding]) -> Vec<(&str, Bson, Problem)> {
    findings
        .iter()
        .map(|finding| {
            (
                finding.namespace.coll.as_str(),
                finding.document_id.clone(),
                finding.problem,
            )
        })
        .collect()
}
