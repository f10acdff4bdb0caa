//! The filters and updates, as pure functions.

pub(crate) mod analysis;
pub(crate) mod repair;

use mongo_patterns_core::array::{filled, stored};
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// The main document. `$eq`, since an id may be a document with operators.
pub(crate) fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id } }
}

/// The main document, if its array is one, or is still missing.
pub(crate) fn with_array(settings: &Settings, id: &Bson) -> Document {
    let array = settings.array.as_str();
    doc! { "_id": { "$eq": id }, "$or": [{ array: { "$type": "array" } }, { array: null }] }
}

/// The main document, if its array is none.
pub(crate) fn without_array(settings: &Settings, id: &Bson) -> Document {
    let is_other = doc! { "$not": { "$type": "array" }, "$ne": null };
    doc! { "_id": { "$eq": id }, settings.array.as_str(): is_other }
}

/// The extras of a main document.
pub(crate) fn extras_of(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id } }
}

/// Those of the extras that have an element.
pub(crate) fn extras_with(settings: &Settings, id: &Bson, element: &Bson) -> Document {
    let mut filter = extras_of(settings, id);
    filter.insert(settings.extras.as_str(), has(element));
    if settings.unique {
        // The index of the elements has only these.
        filter.insert(settings.count.as_str(), doc! { "$gt": 0 });
    }
    filter
}

/// An array with the element. `$elemMatch`, since an element may be an array itself.
pub(crate) fn has(element: &Bson) -> Document {
    doc! { "$elemMatch": { "$eq": element } }
}

/// Adds as many of the elements to the main document as there is room for, and sets the flag, in the same step, when
/// some are left: of so many in all. With `once`, nothing when the array has the first of them.
pub(crate) fn push(settings: &Settings, elements: Vec<Bson>, in_all: usize, once: bool) -> [Document; 1] {
    let (array, flag) = (settings.array.as_str(), settings.flag.as_str());
    let in_all = i32::try_from(in_all).unwrap_or(i32::MAX);
    let size = doc! { "$size": stored(array) };
    let room = doc! { "$cond": [is_flagged(settings), 0, { "$subtract": [settings.threshold_bson(), size] }] };
    let is_left = doc! { "$lt": ["$$room", in_all] };
    let mut flagged = doc! { "$cond": [is_left, true, format!("${flag}")] };
    let once = elements.first().filter(|_| once).cloned();
    let mut pushed = taken(array, "$$room", elements);
    if let Some(element) = once {
        let is_there = doc! { "$in": [{ "$literal": element }, stored(array)] };
        flagged = doc! { "$cond": [&is_there, format!("${flag}"), flagged] };
        pushed = doc! { "$cond": [is_there, format!("${array}"), pushed] };
    }
    let with_room = |value: Document| doc! { "$let": { "vars": { "room": &room }, "in": value } };
    [doc! { "$set": { array: with_room(pushed), flag: with_room(flagged) } }]
}

/// Whether the main document is flagged.
pub(crate) fn is_flagged(settings: &Settings) -> Document {
    doc! { "$eq": [format!("${}", settings.flag), true] }
}

/// The array with as many of the elements as there is room for.
fn taken(array: &str, room: &str, elements: Vec<Bson>) -> Document {
    let filled = filled(array, elements, room);
    doc! { "$cond": [{ "$gt": [room, 0] }, filled, format!("${array}")] }
}

/// What a push must know of the main document as it was.
pub(crate) fn main_before(settings: &Settings, element: Option<&Bson>) -> Document {
    let array = stored(settings.array.as_str());
    let mut before = doc! { "_id": 0, "flagged": is_flagged(settings), "size": { "$size": &array } };
    if let Some(element) = element {
        before.insert("has", doc! { "$in": [{ "$literal": element }, array] });
    }
    before
}

/// Adds as many of the elements to an extras document as there is room for by its count: none where it has no count, as
/// in the manual's form. With `once`, nothing when it has the first of them.
pub(crate) fn fill(settings: &Settings, elements: Vec<Bson>, once: bool) -> [Document; 1] {
    let (extras, count) = (settings.extras.as_str(), settings.count.as_str());
    let (cap, offered) = (
        settings.extras_cap_bson(),
        i32::try_from(elements.len()).unwrap_or(i32::MAX),
    );
    let counted = format!("${count}");
    let room = doc! { "$cond": [is_count(&counted), { "$subtract": [cap, &counted] }, 0] };
    let mut takes = doc! { "$gt": ["$$room", 0] };
    if let Some(element) = elements.first().filter(|_| once) {
        let is_there = doc! { "$in": [{ "$literal": element }, stored(extras)] };
        takes = doc! { "$and": [takes, { "$not": [is_there] }] };
    }
    let if_taken = |value: Document, stored: String| {
        doc! { "$let": { "vars": { "room": &room }, "in": { "$cond": [&takes, value, stored] } } }
    };
    let total = doc! { "$min": [cap, { "$add": [&counted, offered] }] };
    let filled = filled(extras, elements, "$$room");
    [doc! { "$set": { count: if_taken(total, counted.clone()), extras: if_taken(filled, format!("${extras}")) } }]
}

/// Whether a count is one that this crate reads, as an expression: it must know what the server took.
fn is_count(counted: &str) -> Document {
    let is_binary = doc! { "$in": [{ "$type": counted }, ["int", "long", "double"]] };
    doc! { "$and": [is_binary, { "$eq": [{ "$mod": [counted, 1] }, 0] }] }
}

/// What a push must know of an extras document as it was.
pub(crate) fn extras_before(settings: &Settings, element: Option<&Bson>) -> Document {
    let mut before = doc! { settings.seq.as_str(): 1, settings.count.as_str(): 1 };
    if let Some(element) = element {
        before.insert(
            "has",
            doc! { "$in": [{ "$literal": element }, stored(settings.extras.as_str())] },
        );
    }
    before
}

/// The extras document at a place, if it has room, and not the element where elements are unique.
pub(crate) fn extras_at(settings: &Settings, id: &Bson, seq: i32, once: Option<&Bson>) -> Document {
    let mut filter = extras_of(settings, id);
    filter.insert(settings.seq.as_str(), seq);
    filter.insert(settings.count.as_str(), doc! { "$lt": settings.extras_cap_bson() });
    if let Some(element) = once {
        filter.insert(settings.extras.as_str(), doc! { "$not": has(element) });
    }
    filter
}

/// Adds an element to an extras document, or, as an upsert, opens one with it.
pub(crate) fn push_extra(settings: &Settings, element: Bson) -> Document {
    // `$each`, since an element may be a document with operators.
    doc! {
        "$push": { settings.extras.as_str(): { "$each": [element] } },
        "$inc": { settings.count.as_str(): 1 },
    }
}

/// An array without an element, as an expression.
fn without(array: &str, element: &Bson) -> Document {
    doc! { "$filter": {
        "input": format!("${array}"),
        "as": "element",
        "cond": { "$ne": ["$$element", { "$literal": element }] },
    } }
}

/// Removes an element from the main document.
pub(crate) fn remove(settings: &Settings, element: &Bson) -> [Document; 1] {
    let array = settings.array.as_str();
    let removed = doc! { "$cond": [{ "$isArray": format!("${array}") }, without(array, element), format!("${array}")] };
    [doc! { "$set": { array: removed } }]
}

/// Removes an element from extras that have it.
pub(crate) fn remove_extra(settings: &Settings, element: &Bson) -> [Document; 2] {
    let extras = settings.extras.as_str();
    [
        doc! { "$set": { extras: without(extras, element) } },
        doc! { "$set": { settings.count.as_str(): { "$size": format!("${extras}") } } },
    ]
}

/// Whether the main document has an element, and is flagged.
pub(crate) fn has_element(settings: &Settings, element: &Bson) -> Document {
    let array = stored(settings.array.as_str());
    let has = doc! { "$cond": [{ "$isArray": &array }, { "$in": [{ "$literal": element }, &array] }, false] };
    doc! { "_id": 0, "flagged": is_flagged(settings), "has": has }
}

/// How many elements the main document has, and whether it is flagged.
pub(crate) fn size(settings: &Settings) -> Document {
    doc! { "_id": 0, "flagged": is_flagged(settings), "size": size_of(settings.array.as_str()) }
}

/// The number of elements in a field; 0 where it is no array.
pub(crate) fn size_of(field: &str) -> Document {
    let path = format!("${field}");
    doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, 0] }
}

/// How many elements the extras of a main document have.
pub(crate) fn extras_size(settings: &Settings, id: &Bson) -> [Document; 2] {
    let size = doc! { "$sum": size_of(settings.extras.as_str()) };
    [
        doc! { "$match": extras_of(settings, id) },
        doc! { "$group": { "_id": null, "size": size } },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored_array() -> Document {
        doc! { "$ifNull": ["$customers_purchased", []] }
    }

    #[test]
    fn a_push_takes_what_fits_and_sets_the_flag_in_the_same_step() {
        let settings = Settings::example();
        let hostile = Bson::String("$title".into());
        let room = doc! { "$cond": [
            { "$eq": ["$has_extras", true] },
            0,
            { "$subtract": [50, { "$size": stored_array() }] },
        ] };
        let all = doc! { "$concatArrays": [stored_array(), { "$slice": [{ "$literal": [&hostile] }, "$$room"] }] };
        let expected = doc! { "$set": {
            "customers_purchased": { "$let": {
                "vars": { "room": &room },
                "in": { "$cond": [{ "$gt": ["$$room", 0] }, all, "$customers_purchased"] },
            } },
            "has_extras": { "$let": {
                "vars": { "room": &room },
                "in": { "$cond": [{ "$lt": ["$$room", 1] }, true, "$has_extras"] },
            } },
        } };
        assert_eq!(push(&settings, vec![hostile], 1, false), [expected]);
    }

    #[test]
    fn a_batch_is_flagged_by_its_whole_length() {
        let [stage] = push(&Settings::example(), vec![Bson::Int32(1), Bson::Int32(2)], 700, false);
        let flag = stage.get_document("$set").unwrap().get_document("has_extras").unwrap();
        let is_left = doc! { "$cond": [{ "$lt": ["$$room", 700] }, true, "$has_extras"] };
        assert_eq!(flag.get_document("$let").unwrap().get_document("in").unwrap(), &is_left);
    }

    #[test]
    fn extras_take_what_fits_by_their_count() {
        let is_count = doc! { "$and": [
            { "$in": [{ "$type": "$count" }, ["int", "long", "double"]] },
            { "$eq": [{ "$mod": ["$count", 1] }, 0] },
        ] };
        let room = doc! { "$cond": [is_count, { "$subtract": [500, "$count"] }, 0] };
        let if_taken = |value: Document, stored: &str| {
            let takes = doc! { "$gt": ["$$room", 0] };
            doc! { "$let": { "vars": { "room": &room }, "in": { "$cond": [takes, value, stored] } } }
        };
        let array = doc! { "$concatArrays": [
            { "$ifNull": ["$customers_purchased_extra", []] },
            { "$slice": [{ "$literal": ["user50"] }, "$$room"] },
        ] };
        let expected = doc! { "$set": {
            "count": if_taken(doc! { "$min": [500, { "$add": ["$count", 1] }] }, "$count"),
            "customers_purchased_extra": if_taken(array, "$customers_purchased_extra"),
        } };
        assert_eq!(fill(&Settings::example(), vec!["user50".into()], false), [expected]);
        assert_eq!(extras_before(&Settings::example(), None), doc! { "seq": 1, "count": 1 });
    }

    #[test]
    fn ids_and_elements_are_values() {
        let settings = Settings::example();
        let id = Bson::Document(doc! { "$gt": 1 });
        assert_eq!(by_id(&id), doc! { "_id": { "$eq": { "$gt": 1 } } });
        assert_eq!(extras_of(&settings, &id), doc! { "book_id": { "$eq": { "$gt": 1 } } });
        let element = Bson::Document(doc! { "$each": [1] });
        assert_eq!(
            extras_at(&settings, &id, 3, Some(&element)),
            doc! {
                "book_id": { "$eq": { "$gt": 1 } },
                "seq": 3,
                "count": { "$lt": 500 },
                "customers_purchased_extra": { "$not": { "$elemMatch": { "$eq": { "$each": [1] } } } },
            }
        );
        assert_eq!(
            push_extra(&settings, element.clone()),
            doc! {
                "$push": { "customers_purchased_extra": { "$each": [{ "$each": [1] }] } },
                "$inc": { "count": 1 },
            }
        );
        let [stage] = remove(&settings, &element);
        assert!(
            stage.to_string().contains(r#"{ "$literal": { "$each": [1] } }"#),
            "{stage}"
        );
    }

    #[test]
    fn the_index_is_named_by_its_definition() {
        let unique = Settings {
            unique: true,
            ..Settings::example()
        };
        assert_eq!(
            unique.index_plan("extra_sales").to_string(),
            [
                r#"db.getCollection("extra_sales").createIndex({ "book_id": 1, "seq": 1 }, { "name": "book_id_1_seq_1", "unique": true })"#,
                r#"db.getCollection("extra_sales").createIndex({ "book_id": 1, "customers_purchased_extra": 1 }, { "name": "book_id_1_customers_purchased_extra_1", "unique": true, "partialFilterExpression": { "count": { "$gt": 0 } } })"#,
            ]
            .join("\n")
        );
    }
}
