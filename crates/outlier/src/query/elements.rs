//! The projections and updates of single elements and of sizes.

use mongo_patterns_core::array::stored;
use mongodb::bson::{Bson, Document, doc};

use super::filters::overflow_of;
use crate::settings::Settings;

/// Returns whether the main document has the flag, as an expression.
pub(crate) fn is_flagged(settings: &Settings) -> Document {
    doc! { "$eq": [format!("${}", settings.flag), true] }
}

pub(crate) fn flag(settings: &Settings) -> Document {
    doc! { settings.flag.as_str(): 1 }
}

pub(crate) fn array_and_flag(settings: &Settings) -> Document {
    doc! { settings.array.as_str(): 1, settings.flag.as_str(): 1 }
}

/// Projects whether the main document has an element, and the flag.
pub(crate) fn has_element(settings: &Settings, element: &Bson) -> Document {
    let array = stored(settings.array.as_str());
    let has = doc! { "$cond": [{ "$isArray": &array }, { "$in": [{ "$literal": element }, &array] }, false] };
    doc! { "_id": 0, "flagged": is_flagged(settings), "has": has }
}

/// Projects the number of elements in the main document, and the flag.
pub(crate) fn main_size(settings: &Settings) -> Document {
    doc! { "_id": 0, "flagged": is_flagged(settings), "size": size_of(settings.array.as_str()) }
}

/// Projects the number of elements in an overflow document.
pub(crate) fn overflow_size(settings: &Settings) -> Document {
    doc! { "_id": 0, "size": size_of(settings.extras.as_str()) }
}

/// Counts the elements in the overflow documents of a main document.
pub(crate) fn overflow_total(settings: &Settings, id: &Bson) -> [Document; 2] {
    let size = doc! { "$sum": size_of(settings.extras.as_str()) };
    [
        doc! { "$match": overflow_of(settings, id) },
        doc! { "$group": { "_id": null, "size": size } },
    ]
}

/// Returns the number of elements in a field, as an expression; 0 where it is not an array.
fn size_of(field: &str) -> Document {
    let path = format!("${field}");
    doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, 0] }
}

/// Removes an element from the main document.
pub(crate) fn remove(settings: &Settings, element: &Bson) -> [Document; 1] {
    let array = settings.array.as_str();
    let removed = doc! { "$cond": [{ "$isArray": format!("${array}") }, without(array, element), format!("${array}")] };
    [doc! { "$set": { array: removed } }]
}

pub(crate) fn remove_from_overflow(settings: &Settings, element: &Bson) -> [Document; 2] {
    let extras = settings.extras.as_str();
    [
        doc! { "$set": { extras: without(extras, element) } },
        doc! { "$set": { settings.count.as_str(): { "$size": format!("${extras}") } } },
    ]
}

/// Returns an array without an element, as an expression.
fn without(array: &str, element: &Bson) -> Document {
    doc! { "$filter": {
        "input": format!("${array}"),
        "as": "element",
        "cond": { "$ne": ["$$element", { "$literal": element }] },
    } }
}

/// Removes all elements of a main document, and its flag.
pub(crate) fn empty(settings: &Settings) -> Document {
    doc! { "$set": { settings.array.as_str(): [] }, "$unset": { settings.flag.as_str(): "" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_element_is_a_value() {
        let element = Bson::Document(doc! { "$each": [1] });
        let [stage] = remove(&Settings::example(), &element);
        assert!(
            stage.to_string().contains(r#"{ "$literal": { "$each": [1] } }"#),
            "{stage}"
        );
    }
}
