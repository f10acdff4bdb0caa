//! The updates of pushes.
//!
//! # Design
//!
//! ## Why does one command fill the array and set the flag?
//!
//! One `findAndModify` takes the elements for which the array has room, and sets the flag when elements remain. A process
//! that dies before it stores the rest leaves a flag without overflow documents, and reads stay correct. In the other order
//! readers would miss an element, and a retry would store it twice.
//!
//! ## Why is there another command before it?
//!
//! Most pushes are to lists with room. A plain `$push` under a filter stores their elements, and costs less than a pipeline,
//! which rewrites the array. It matches nothing where the array is full, flagged, or not an array. After that the process
//! knows the outlier.
//!
//! ## Why is the newest overflow document found by a sort, and not by a counter in the main document?
//!
//! The unique index on parent and position ends there, so the server examines one document. A process that remembers a
//! position wrongly would store elements in the wrong order.

use mongo_patterns_core::array::{filled, stored};
use mongodb::bson::{Bson, Document, doc};

use super::elements::is_flagged;
use crate::settings::Settings;

/// A field that the main document has only within a transaction. To set a flag again changes nothing, and would not conflict
/// with a refresh that clears it.
const OPENING: &str = "mongo_patterns_opening";

/// Adds elements to an array that has room for them.
pub(crate) fn push_all(settings: &Settings, elements: Vec<Bson>) -> Document {
    doc! { "$push": { settings.array.as_str(): { "$each": elements } } }
}

/// Adds the elements for which the main document has room, and sets the flag if some of `in_all` elements remain. With
/// `once`, changes nothing when the array has the first element.
pub(crate) fn push(settings: &Settings, elements: Vec<Bson>, in_all: usize, once: bool) -> [Document; 1] {
    let (array, flag) = (settings.array.as_str(), settings.flag.as_str());
    let in_all = i32::try_from(in_all).unwrap_or(i32::MAX);
    let size = doc! { "$size": stored(array) };
    let room = doc! { "$cond": [is_flagged(settings), 0, { "$subtract": [settings.threshold_bson(), size] }] };
    let is_left = doc! { "$lt": ["$$room", in_all] };
    let mut flagged = doc! { "$cond": [is_left, true, format!("${flag}")] };
    let once = elements.first().filter(|_| once).cloned();
    let mut pushed = doc! { "$cond": [
        { "$gt": ["$$room", 0] },
        filled(array, elements, "$$room"),
        format!("${array}"),
    ] };
    if let Some(element) = once {
        let is_present = doc! { "$in": [{ "$literal": element }, stored(array)] };
        flagged = doc! { "$cond": [&is_present, format!("${flag}"), flagged] };
        pushed = doc! { "$cond": [is_present, format!("${array}"), pushed] };
    }
    let with_room = |value: Document| doc! { "$let": { "vars": { "room": &room }, "in": value } };
    [doc! { "$set": { array: with_room(pushed), flag: with_room(flagged) } }]
}

/// Projects the main document before a push.
pub(crate) fn main_before(settings: &Settings, element: Option<&Bson>) -> Document {
    let array = stored(settings.array.as_str());
    let mut before = doc! { "_id": 0, "flagged": is_flagged(settings), "size": { "$size": &array } };
    if let Some(element) = element {
        before.insert("has", doc! { "$in": [{ "$literal": element }, array] });
    }
    before
}

/// Adds the elements for which an overflow document has room by its count: none without a count. With `once`, adds nothing
/// when it has the first element.
pub(crate) fn fill(settings: &Settings, elements: Vec<Bson>, once: bool) -> [Document; 1] {
    let (extras, count) = (settings.extras.as_str(), settings.count.as_str());
    let max = settings.max_extras_bson();
    let offered = i32::try_from(elements.len()).unwrap_or(i32::MAX);
    let counted = format!("${count}");
    let room = doc! { "$cond": [is_count(&counted), { "$subtract": [max, &counted] }, 0] };
    let mut takes = doc! { "$gt": ["$$room", 0] };
    if let Some(element) = elements.first().filter(|_| once) {
        let is_present = doc! { "$in": [{ "$literal": element }, stored(extras)] };
        takes = doc! { "$and": [takes, { "$not": [is_present] }] };
    }
    let if_taken = |value: Document, stored: String| {
        doc! { "$let": { "vars": { "room": &room }, "in": { "$cond": [&takes, value, stored] } } }
    };
    let total = doc! { "$min": [max, { "$add": [&counted, offered] }] };
    let filled = filled(extras, elements, "$$room");
    [doc! { "$set": { count: if_taken(total, counted.clone()), extras: if_taken(filled, format!("${extras}")) } }]
}

/// Returns whether the client reads a count, as an expression. A push must know what the server took.
fn is_count(counted: &str) -> Document {
    let is_binary = doc! { "$in": [{ "$type": counted }, ["int", "long", "double"]] };
    doc! { "$and": [is_binary, { "$eq": [{ "$mod": [counted, 1] }, 0] }] }
}

/// Projects an overflow document before a push.
pub(crate) fn overflow_before(settings: &Settings, element: Option<&Bson>) -> Document {
    let mut before = doc! { settings.seq.as_str(): 1, settings.count.as_str(): 1 };
    if let Some(element) = element {
        let has = doc! { "$in": [{ "$literal": element }, stored(settings.extras.as_str())] };
        before.insert("has", has);
    }
    before
}

pub(crate) fn set_flag(settings: &Settings) -> Document {
    doc! { "$set": { settings.flag.as_str(): true } }
}

/// Sets the flag by two updates, which conflict with every other write.
pub(crate) fn set_flag_and_conflict(settings: &Settings) -> [Document; 2] {
    [
        doc! { "$set": { settings.flag.as_str(): true, OPENING: true } },
        doc! { "$unset": { OPENING: true } },
    ]
}

/// Projects a document as it was before an update. It is evaluated on any document that the filter matches.
pub(crate) fn evaluate(filter: Document, document: Document, projection: Document) -> [Document; 4] {
    [
        doc! { "$match": filter },
        doc! { "$limit": 1 },
        doc! { "$replaceWith": { "$literal": document } },
        doc! { "$project": projection },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::with_room;

    fn stored_array() -> Document {
        doc! { "$ifNull": ["$customers_purchased", []] }
    }

    #[test]
    fn one_command_fills_the_array_and_sets_the_flag() {
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
    fn elements_are_pushed_where_the_array_has_room_for_all_of_them() {
        let settings = Settings::example();
        assert_eq!(
            with_room(&settings, &2.into(), 48),
            doc! {
                "_id": { "$eq": 2 },
                "has_extras": { "$ne": true },
                "customers_purchased.48": { "$exists": false },
                "$or": [
                    { "customers_purchased": { "$type": "array" } },
                    { "customers_purchased": { "$exists": false } },
                ],
            }
        );
        assert_eq!(
            push_all(&settings, vec!["a".into(), "b".into()]),
            doc! { "$push": { "customers_purchased": { "$each": ["a", "b"] } } }
        );
    }

    #[test]
    fn the_length_of_the_whole_batch_decides_about_the_flag() {
        let [stage] = push(&Settings::example(), vec![Bson::Int32(1), Bson::Int32(2)], 700, false);
        let flag = stage.get_document("$set").unwrap().get_document("has_extras").unwrap();
        let is_left = doc! { "$cond": [{ "$lt": ["$$room", 700] }, true, "$has_extras"] };
        assert_eq!(flag.get_document("$let").unwrap().get_document("in").unwrap(), &is_left);
    }

    #[test]
    fn an_overflow_document_is_filled_by_its_count() {
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
        assert_eq!(
            overflow_before(&Settings::example(), None),
            doc! { "seq": 1, "count": 1 }
        );
    }
}
