//! The reads and updates of a repair, and of everything that rewrites a list.

use mongo_patterns_core::array::stored;
use mongodb::bson::{Bson, Document, doc};

use super::summaries::flag_or_null;
use crate::settings::Settings;

/// A field that an overflow document has only within a transaction.
const LOCKED: &str = "mongo_patterns_held";

/// Projects what a rewrite needs of a main document.
pub(crate) fn main_parts(settings: &Settings) -> Document {
    doc! {
        "array": format!("${}", settings.array),
        "flag": flag_or_null(settings),
        "bytes": { "$bsonSize": "$$ROOT" },
    }
}

/// Returns the new array of a main document, as an expression: its first elements, and others after them.
pub(crate) fn array_of(settings: &Settings, kept: Kept, added: &[Bson]) -> Bson {
    let array = settings.array.as_str();
    let kept = match kept {
        Kept::All => Bson::from(stored(array)),
        Kept::First(0) => Bson::Array(Vec::new()),
        Kept::First(elements) => Bson::from(doc! { "$slice": [format!("${array}"), elements] }),
    };
    if added.is_empty() {
        return kept;
    }
    doc! { "$concatArrays": [kept, { "$literal": added }] }.into()
}

/// The elements of an array that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    First(i32),
}

/// Sets fields of the main document to expressions.
pub(crate) fn set_main(fields: Document) -> [Document; 1] {
    [doc! { "$set": fields }]
}

/// Changes an overflow document and restores it, by two updates: the transaction conflicts with other writes to it.
pub(crate) fn lock_and_unlock() -> [Document; 2] {
    [doc! { "$set": { LOCKED: true } }, doc! { "$unset": { LOCKED: true } }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_elements_are_values() {
        let settings = Settings::example();
        assert_eq!(
            array_of(&settings, Kept::First(50), &[]),
            Bson::from(doc! { "$slice": ["$customers_purchased", 50] })
        );
        assert_eq!(
            array_of(&settings, Kept::All, &["$title".into()]),
            Bson::from(doc! { "$concatArrays": [
                { "$ifNull": ["$customers_purchased", []] },
                { "$literal": ["$title"] },
            ] })
        );
    }
}
