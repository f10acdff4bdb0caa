//! The filters of main documents and overflow documents, and the orders and projections that several calls share.
//!
//! # Design
//!
//! ## Why is every id under `$eq`?
//!
//! An `_id` or an element may be a document with operators, such as `{ $gt: "" }`. Under `$eq` it is a value.

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::FindOneOptions;

use crate::settings::Settings;

/// Matches the main document.
pub(crate) fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id } }
}

/// Matches the main document, if it has no flag.
pub(crate) fn without_flag(settings: &Settings, id: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, settings.flag.as_str(): { "$ne": true } }
}

/// Matches the main document, if it has no flag, and up to `free` elements in its array, which is not null.
pub(crate) fn with_room(settings: &Settings, id: &Bson, free: usize) -> Document {
    let array = settings.array.as_str();
    let mut filter = without_flag(settings, id);
    filter.insert(format!("{array}.{free}"), doc! { "$exists": false });
    filter.insert(
        "$or",
        [
            doc! { array: { "$type": "array" } },
            doc! { array: { "$exists": false } },
        ]
        .to_vec(),
    );
    filter
}

/// Matches the main document, if its array field is an array or missing.
pub(crate) fn with_array(settings: &Settings, id: &Bson) -> Document {
    let array = settings.array.as_str();
    doc! { "_id": { "$eq": id }, "$or": [{ array: { "$type": "array" } }, { array: null }] }
}

/// Matches the main document, if its array field is something else.
pub(crate) fn without_array(settings: &Settings, id: &Bson) -> Document {
    let is_other = doc! { "$not": { "$type": "array" }, "$ne": null };
    doc! { "_id": { "$eq": id }, settings.array.as_str(): is_other }
}

/// Matches the main document, if its array has an element.
pub(crate) fn with_element(settings: &Settings, id: &Bson, element: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, settings.array.as_str(): has(element) }
}

/// Matches the overflow documents of a main document.
pub(crate) fn overflow_of(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id } }
}

/// Matches the overflow documents of a main document whose parent field is not an array.
pub(crate) fn true_overflow_of(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id, "$not": { "$type": "array" } } }
}

/// Matches one overflow document of a main document.
pub(crate) fn overflow_one(settings: &Settings, id: &Bson, document_id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id }, "_id": { "$eq": document_id } }
}

/// Matches the overflow document that claims a position.
pub(crate) fn claimed(settings: &Settings, id: &Bson, claim: Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id }, "_id": claim }
}

/// Matches the overflow documents of a main document that have an element.
pub(crate) fn overflow_with(settings: &Settings, id: &Bson, element: &Bson) -> Document {
    let mut filter = overflow_of(settings, id);
    filter.insert(settings.extras.as_str(), has(element));
    if settings.unique {
        // Without this condition, the partial index of the elements does not serve the query.
        filter.insert(settings.count.as_str(), doc! { "$gt": 0 });
    }
    filter
}

/// Matches an array with an element. By `$elemMatch`, because an element may be an array itself.
fn has(element: &Bson) -> Document {
    doc! { "$elemMatch": { "$eq": element } }
}

/// Returns whether a field is null, as an expression. Expressions take undefined for null.
pub(super) fn is_null(path: &str) -> Document {
    doc! { "$in": [{ "$type": path }, ["null", "undefined"]] }
}

/// Sorts overflow documents by their position.
pub(crate) fn by_position(settings: &Settings) -> Document {
    doc! { settings.seq.as_str(): 1 }
}

/// Sorts overflow documents by their position, the newest one first.
pub(crate) fn newest_first(settings: &Settings) -> Document {
    doc! { settings.seq.as_str(): -1 }
}

/// Projects the position of an overflow document.
pub(crate) fn position(settings: &Settings) -> Document {
    doc! { settings.seq.as_str(): 1 }
}

pub(crate) fn project(projection: Document) -> FindOneOptions {
    FindOneOptions::builder().projection(projection).build()
}

/// Projects the `_id` alone.
pub(crate) fn id_only() -> Document {
    doc! { "_id": 1 }
}

/// Matches documents whose flag is set.
pub(crate) fn flagged(settings: &Settings) -> Document {
    doc! { settings.flag.as_str(): true }
}

/// Matches documents that have the flag, set or not.
pub(crate) fn with_flag(settings: &Settings) -> Document {
    doc! { settings.flag.as_str(): { "$exists": true } }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::index::PlannedIndex;

    use super::*;

    #[test]
    fn ids_and_elements_are_values() {
        let settings = Settings::example();
        let id = Bson::Document(doc! { "$gt": 1 });
        assert_eq!(by_id(&id), doc! { "_id": { "$eq": { "$gt": 1 } } });
        assert_eq!(overflow_of(&settings, &id), doc! { "book_id": { "$eq": { "$gt": 1 } } });
        let element = Bson::Document(doc! { "$each": [1] });
        assert_eq!(
            overflow_with(&settings, &id, &element),
            doc! {
                "book_id": { "$eq": { "$gt": 1 } },
                "customers_purchased_extra": { "$elemMatch": { "$eq": { "$each": [1] } } },
            }
        );
    }

    #[test]
    fn an_index_is_named_by_its_definition() {
        let unique = Settings {
            unique: true,
            ..Settings::example()
        };
        let seq = PlannedIndex::new("book_id_1_seq_1", doc! { "book_id": 1, "seq": 1 }).unique();
        let keys = doc! { "book_id": 1, "customers_purchased_extra": 1 };
        let element = PlannedIndex::new("book_id_1_customers_purchased_extra_1", keys).unique();
        assert_eq!(unique.indexes(), [seq, element.partial(doc! { "count": { "$gt": 0 } })]);
    }
}
