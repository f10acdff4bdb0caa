//! The filters and updates, as pure functions.

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

/// An array of a stored document as an expression; empty where it is missing.
pub(crate) fn stored(field: &str) -> Document {
    doc! { "$ifNull": [format!("${field}"), []] }
}

/// Adds as many of the elements to the main document as there is room for, and sets the flag, in the same step, when
/// some are left: of so many in all. With `once`, nothing when the array has the first of them.
pub(crate) fn push(settings: &Settings, elements: &[Bson], in_all: usize, once: bool) -> [Document; 1] {
    let (array, flag) = (settings.array.as_str(), settings.flag.as_str());
    let in_all = i32::try_from(in_all).unwrap_or(i32::MAX);
    let size = doc! { "$size": stored(array) };
    let room = doc! { "$cond": [is_flagged(settings), 0, { "$subtract": [settings.threshold_bson(), size] }] };
    let is_left = doc! { "$lt": ["$$room", in_all] };
    let mut flagged = doc! { "$cond": [is_left, true, format!("${flag}")] };
    let mut pushed = taken(array, "$$room".into(), elements);
    if let Some(element) = elements.first().filter(|_| once) {
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
fn taken(array: &str, room: Bson, elements: &[Bson]) -> Document {
    let offered = i32::try_from(elements.len()).unwrap_or(i32::MAX);
    // What users store is a value, and never an expression.
    let elements = doc! { "$literal": elements };
    let all = doc! { "$concatArrays": [stored(array), &elements] };
    let none = format!("${array}");
    if offered == 1 {
        return doc! { "$cond": [{ "$gt": [room, 0] }, all, none] };
    }
    let some = doc! { "$concatArrays": [stored(array), { "$slice": [elements, &room] }] };
    doc! { "$switch": {
        "branches": [
            { "case": { "$gte": [&room, offered] }, "then": all },
            { "case": { "$gt": [room, 0] }, "then": some },
        ],
        "default": none,
    } }
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

/// Adds as many of the elements to an extras document as there is room for. With `once`, nothing when it has the first
/// of them.
pub(crate) fn fill(settings: &Settings, elements: &[Bson], once: bool) -> [Document; 2] {
    let (extras, count) = (settings.extras.as_str(), settings.count.as_str());
    let path = format!("${extras}");
    let size = doc! { "$size": stored(extras) };
    let room = doc! { "$subtract": [settings.extras_cap_bson(), size] };
    let mut filled = taken(extras, "$$room".into(), elements);
    if let Some(element) = elements.first().filter(|_| once) {
        let is_there = doc! { "$in": [{ "$literal": element }, stored(extras)] };
        filled = doc! { "$cond": [is_there, &path, filled] };
    }
    let filled = doc! { "$let": { "vars": { "room": room }, "in": filled } };
    // What is no array stays as it is.
    let is_array = doc! { "$isArray": stored(extras) };
    let filled = doc! { "$cond": [is_array, filled, &path] };
    let size = doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, format!("${count}")] };
    [doc! { "$set": { extras: filled } }, doc! { "$set": { count: size } }]
}

/// What a push must know of an extras document as it was. No size where the array is none.
pub(crate) fn extras_before(settings: &Settings, element: Option<&Bson>) -> Document {
    let extras = stored(settings.extras.as_str());
    let if_array = |value: Document| doc! { "$cond": [{ "$isArray": &extras }, value, null] };
    let mut before = doc! { "seq": format!("${}", settings.seq), "size": if_array(doc! { "$size": &extras }) };
    if let Some(element) = element {
        before.insert("has", if_array(doc! { "$in": [{ "$literal": element }, &extras] }));
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
