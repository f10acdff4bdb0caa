//! The BSON of looks, and of what writes a document and its extras anew, as pure functions.

use mongo_patterns_core::array::stored;
use mongodb::bson::{Bson, Document, doc};

use crate::query;
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

/// Whether a field is null, or undefined, which expressions take for null.
fn is_null(path: &str) -> Document {
    doc! { "$in": [{ "$type": path }, ["null", "undefined"]] }
}

/// What is checked of a main document.
pub(crate) fn main_sizes(settings: &Settings) -> Document {
    let is_null = is_null(&format!("${}", settings.array));
    doc! { "size": size_or_null(settings.array.as_str()), "flag": flag_or_null(settings), "isNull": is_null }
}

/// The main document, if its array is null.
pub(crate) fn with_null(settings: &Settings, id: &Bson) -> Document {
    doc! { "_id": { "$eq": id }, "$expr": is_null(&format!("${}", settings.array)) }
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
pub(crate) fn looks(settings: &Settings, names: Names<'_>) -> Vec<Document> {
    looks_at(settings, names, None)
}

/// The same of one main document and its extras, whatever they have.
pub(crate) fn looks_of(settings: &Settings, names: Names<'_>, id: &Bson) -> Vec<Document> {
    looks_at(settings, names, Some(id))
}

/// The names of the two collections.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) main: &'a str,
    pub(crate) overflow: &'a str,
}

fn looks_at(settings: &Settings, names: Names<'_>, id: Option<&Bson>) -> Vec<Document> {
    let mut extras = extras_sizes(settings);
    extras.insert("_id", "$_id");
    let of_extras = doc! { "$project": { "_id": format!("${}", settings.parent), "extras": extras } };
    let which = id.map_or_else(|| seems_special(settings), query::by_id);
    let mut stages = vec![
        doc! { "$match": which },
        doc! { "$project": { "main": main_sizes(settings) } },
        doc! { "$unionWith": { "coll": names.overflow, "pipeline": with_extras_of(settings, id, of_extras) } },
    ];
    let mut group = doc! { "_id": "$_id", "main": { "$push": "$main" }, "extras": { "$push": "$extras" } };
    if settings.unique {
        let doubled = doubled(settings, names, id);
        stages.push(doc! { "$unionWith": { "coll": names.main, "pipeline": doubled } });
        group.insert("doubled", doc! { "$sum": "$doubled" });
    }
    stages.push(doc! { "$group": group });
    stages
}

/// A stage on the extras, of one main document or of all.
fn with_extras_of(settings: &Settings, id: Option<&Bson>, stage: Document) -> Vec<Document> {
    let of_one = id.map(|id| doc! { "$match": true_extras_of(settings, id) });
    of_one.into_iter().chain([stage]).collect()
}

/// How many elements of a list are equal to one before, by the `_id` of the main document. The server groups the elements
/// of the lists that have a flag or extras; of the others, it compares those of each array.
fn doubled(settings: &Settings, names: Names<'_>, id: Option<&Bson>) -> Vec<Document> {
    let array_or_none = |field: &str| {
        let path = format!("${field}");
        doc! { "$cond": [{ "$isArray": &path }, &path, []] }
    };
    let which = id.map_or_else(
        || doc! { "$or": [{ settings.flag.as_str(): true }, { "$expr": has_doubles(settings) }] },
        query::by_id,
    );
    let of_extras = doc! { "$project": {
        "_id": format!("${}", settings.parent),
        "element": array_or_none(settings.extras.as_str()),
    } };
    let group = doc! { "_id": { "main": "$_id", "element": "$element" }, "times": { "$sum": 1 } };
    let again = doc! { "$sum": { "$subtract": ["$times", 1] } };
    vec![
        doc! { "$match": which },
        doc! { "$project": { "element": array_or_none(settings.array.as_str()) } },
        doc! { "$unionWith": { "coll": names.overflow, "pipeline": with_extras_of(settings, id, of_extras) } },
        doc! { "$unwind": "$element" },
        doc! { "$group": group },
        doc! { "$match": { "times": { "$gt": 1 } } },
        doc! { "$group": { "_id": "$_id.main", "doubled": again } },
    ]
}

/// Whether an element is in the array of a main document twice, as an expression.
fn has_doubles(settings: &Settings) -> Document {
    let path = format!("${}", settings.array);
    let different = doc! { "$size": { "$setUnion": [&path, []] } };
    doc! { "$cond": [{ "$isArray": &path }, { "$gt": [{ "$size": &path }, different] }, false] }
}

/// A main document with a flag, or with an array over the threshold, or with what is no array or no flag. Where elements
/// are unique, also one with an element twice.
pub(crate) fn seems_special(settings: &Settings) -> Document {
    let (flag, path) = (settings.flag.as_str(), format!("${}", settings.array));
    let mut is_over = doc! { "$gt": [{ "$size": &path }, settings.threshold_bson()] };
    if settings.unique {
        is_over = doc! { "$or": [is_over, has_doubles(settings)] };
    }
    let is_there = doc! { "$ne": [{ "$type": &path }, "missing"] };
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
        let names = Names {
            main: "sales",
            overflow: "extra_sales",
        };
        let pipeline = looks(&Settings::example(), names);
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
        let is_null = doc! { "$in": [{ "$type": array }, ["null", "undefined"]] };
        let special = doc! { "$or": [
            { "has_extras": true },
            { "has_extras": { "$exists": true, "$not": { "$type": "bool" } } },
            { "$expr": { "$cond": [
                { "$isArray": array },
                { "$gt": [{ "$size": array }, 50] },
                { "$ne": [{ "$type": array }, "missing"] },
            ] } },
        ] };
        assert_eq!(
            pipeline,
            [
                doc! { "$match": special },
                doc! { "$project": { "main": { "size": size(array), "flag": flag, "isNull": is_null } } },
                doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [
                    { "$project": { "_id": "$book_id", "extras": of_extras } },
                ] } },
                doc! { "$group": { "_id": "$_id", "main": { "$push": "$main" }, "extras": { "$push": "$extras" } } },
            ]
        );
    }

    #[test]
    fn unique_elements_are_grouped_on_the_server() {
        let settings = Settings {
            unique: true,
            ..Settings::example()
        };
        let names = Names {
            main: "sales",
            overflow: "extra_sales",
        };
        let stages = looks_of(&settings, names, &Bson::from(doc! { "$gt": 1 }));
        let by_id = doc! { "$match": { "_id": { "$eq": { "$gt": 1 } } } };
        let of_parent = doc! { "$match": { "book_id": { "$eq": { "$gt": 1 }, "$not": { "$type": "array" } } } };
        let array = |path: &str| doc! { "$cond": [{ "$isArray": path }, path, []] };
        let of_extras = doc! { "$project": { "_id": "$book_id", "element": array("$customers_purchased_extra") } };
        let doubled = [
            by_id.clone(),
            doc! { "$project": { "element": array("$customers_purchased") } },
            doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [of_parent, of_extras] } },
            doc! { "$unwind": "$element" },
            doc! { "$group": { "_id": { "main": "$_id", "element": "$element" }, "times": { "$sum": 1 } } },
            doc! { "$match": { "times": { "$gt": 1 } } },
            doc! { "$group": { "_id": "$_id.main", "doubled": { "$sum": { "$subtract": ["$times", 1] } } } },
        ];
        assert_eq!(stages[0], by_id);
        assert_eq!(
            stages[3],
            doc! { "$unionWith": { "coll": "sales", "pipeline": doubled.to_vec() } }
        );
        let group = stages[4].get_document("$group").unwrap();
        assert_eq!(group.get("doubled"), Some(&doc! { "$sum": "$doubled" }.into()));
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
