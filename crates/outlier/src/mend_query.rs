//! The BSON of looks, and of what writes a document and its extras anew, as pure functions.

use mongo_patterns_core::array::stored;
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// The number of elements in a field; 0 where it is missing, and `null` where it is no array.
fn size_or_null(field: &str) -> Document {
    let path = format!("${field}");
    let if_missing = doc! { "$cond": [{ "$eq": [{ "$ifNull": [&path, null] }, null] }, 0, null] };
    doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, if_missing] }
}

/// The flag; `false` where it is missing, and `null` where it is no boolean.
fn flag_or_null(settings: &Settings) -> Document {
    let path = format!("${}", settings.flag);
    let if_missing = doc! { "$cond": [{ "$eq": [{ "$type": &path }, "missing"] }, false, null] };
    doc! { "$cond": [{ "$eq": [{ "$type": &path }, "bool"] }, &path, if_missing] }
}

/// What is checked of a main document.
pub(crate) fn main_sizes(settings: &Settings) -> Document {
    doc! { "size": size_or_null(settings.array.as_str()), "flag": flag_or_null(settings) }
}

/// What is checked of an extras document.
pub(crate) fn extras_sizes(settings: &Settings) -> Document {
    let if_number = |field: &str| {
        let path = format!("${field}");
        doc! { "$cond": [{ "$isNumber": &path }, &path, null] }
    };
    doc! {
        "seq": if_number(settings.seq.as_str()),
        "count": if_number(settings.count.as_str()),
        "size": size_or_null(settings.extras.as_str()),
    }
}

/// The extras of a main document. An array is no parent, although an equality finds what is in it.
pub(crate) fn true_extras_of(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.parent.as_str(): { "$eq": id, "$not": { "$type": "array" } } }
}

/// Sizes and ids of all main documents that have extras, or a flag, or an array that is not as it should be. One that
/// has extras alone does not tell of itself.
pub(crate) fn looks(settings: &Settings, overflow: &str) -> [Document; 4] {
    let mut extras = extras_sizes(settings);
    extras.insert("_id", "$_id");
    let of_extras = doc! { "$project": { "_id": format!("${}", settings.parent), "extras": extras } };
    [
        doc! { "$match": seems_special(settings) },
        doc! { "$project": { "main": main_sizes(settings) } },
        doc! { "$unionWith": { "coll": overflow, "pipeline": [of_extras] } },
        doc! { "$group": { "_id": "$_id", "main": { "$push": "$main" }, "extras": { "$push": "$extras" } } },
    ]
}

/// A main document with a flag, or with an array over the threshold, or with what is no array or no flag.
pub(crate) fn seems_special(settings: &Settings) -> Document {
    let (flag, path) = (settings.flag.as_str(), format!("${}", settings.array));
    let is_over = doc! { "$gt": [{ "$size": &path }, settings.threshold_bson()] };
    let is_there = doc! { "$ne": [{ "$ifNull": [&path, null] }, null] };
    doc! { "$or": [
        { flag: true },
        { flag: { "$exists": true, "$not": { "$type": "bool" } } },
        { "$expr": { "$cond": [{ "$isArray": &path }, is_over, is_there] } },
    ] }
}

/// What is needed of a main document to write its array and extras anew.
pub(crate) fn main_parts(settings: &Settings) -> Document {
    doc! {
        "array": format!("${}", settings.array),
        "flag": flag_or_null(settings),
        "bytes": { "$bsonSize": "$$ROOT" },
    }
}

/// What becomes of the array of a main document: so many of its first elements stay, and others come after them.
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

/// How many elements of an array stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    First(i32),
}

/// The count of an extras document becomes the number of its elements.
pub(crate) fn recount(settings: &Settings) -> [Document; 1] {
    let path = format!("${}", settings.extras);
    let size = doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, format!("${}", settings.count)] };
    [doc! { "$set": { settings.count.as_str(): size } }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_sends_sizes_and_ids() {
        let pipeline = looks(&Settings::example(), "extra_sales");
        let array = "$customers_purchased";
        let extras = "$customers_purchased_extra";
        let size = |path: &str| {
            doc! { "$cond": [
                { "$isArray": path },
                { "$size": path },
                { "$cond": [{ "$eq": [{ "$ifNull": [path, null] }, null] }, 0, null] },
            ] }
        };
        let flag = doc! { "$cond": [
            { "$eq": [{ "$type": "$has_extras" }, "bool"] },
            "$has_extras",
            { "$cond": [{ "$eq": [{ "$type": "$has_extras" }, "missing"] }, false, null] },
        ] };
        let number = |path: &str| doc! { "$cond": [{ "$isNumber": path }, path, null] };
        let of_extras = doc! {
            "seq": number("$seq"), "count": number("$count"), "size": size(extras), "_id": "$_id",
        };
        let special = doc! { "$or": [
            { "has_extras": true },
            { "has_extras": { "$exists": true, "$not": { "$type": "bool" } } },
            { "$expr": { "$cond": [
                { "$isArray": array },
                { "$gt": [{ "$size": array }, 50] },
                { "$ne": [{ "$ifNull": [array, null] }, null] },
            ] } },
        ] };
        assert_eq!(
            pipeline,
            [
                doc! { "$match": special },
                doc! { "$project": { "main": { "size": size(array), "flag": flag } } },
                doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [
                    { "$project": { "_id": "$book_id", "extras": of_extras } },
                ] } },
                doc! { "$group": { "_id": "$_id", "main": { "$push": "$main" }, "extras": { "$push": "$extras" } } },
            ]
        );
    }

    #[test]
    fn elements_that_are_added_are_values() {
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
