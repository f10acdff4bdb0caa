//! Damaged lists, and what there is to find.

use mongo_patterns::outlier::{Finding, Problem};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use crate::outlier::*;

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
    clear(db).await;
    if !main.is_empty() {
        sales(db).insert_many(main).await.unwrap();
    }
    if !extras.is_empty() {
        extra_sales(db).insert_many(extras).await.unwrap();
    }
}

/// Books with which nothing is wrong, as a writer leaves them, and one who removed much.
pub fn sound() -> (Vec<Document>, Vec<Document>) {
    let main = vec![
        main_of(11, 0..5),
        without(main_of(12, 0..1), "customers_purchased"),
        with(main_of(13, 0..2), "has_extras", false),
        flagged(14, 0..2),
        flagged(15, 0..0),
    ];
    let extras = vec![
        extra(14, 0, 5..9),
        with(extra(14, 1, 15..25), "count", 10.0),
        extra(14, 2, 25..26),
        extra(15, 0, 0..0),
    ];
    (main, extras)
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
