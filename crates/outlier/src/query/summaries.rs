//! The summaries of lists: sizes and ids, and no elements.

use mongodb::bson::{Bson, Document, doc};

use super::filters::{by_id, is_null, true_overflow_of};
use crate::settings::Settings;

/// The names of the two collections.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) main: &'a str,
    pub(crate) overflow: &'a str,
}

/// Projects what is checked of a main document.
pub(crate) fn main_summary(settings: &Settings) -> Document {
    let is_null = is_null(&format!("${}", settings.array));
    doc! { "size": size_or_null(settings.array.as_str()), "flag": flag_or_null(settings), "isNull": is_null }
}

/// Projects what is checked of an overflow document.
pub(crate) fn overflow_summary(settings: &Settings) -> Document {
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

/// Returns the number of elements in a field, as an expression: 0 where it is missing, and null where it is not an array.
fn size_or_null(field: &str) -> Document {
    let path = format!("${field}");
    let if_missing = doc! { "$cond": [{ "$eq": [{ "$ifNull": [&path, null] }, null] }, 0, null] };
    doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, if_missing] }
}

/// Returns the flag, as an expression: false where it is missing, and null where it is not a boolean.
pub(super) fn flag_or_null(settings: &Settings) -> Document {
    let path = format!("${}", settings.flag);
    let if_missing = doc! { "$cond": [{ "$eq": [{ "$type": &path }, "missing"] }, false, null] };
    doc! { "$cond": [{ "$eq": [{ "$type": &path }, "bool"] }, &path, if_missing] }
}

/// Summarizes one list, or all lists that [may need a repair](may_need_repair) or have overflow documents. Among all, a list
/// that has only overflow documents has no `main`.
pub(crate) fn summaries(settings: &Settings, names: Names<'_>, id: Option<&Bson>) -> Vec<Document> {
    let mut overflow = overflow_summary(settings);
    overflow.insert("_id", "$_id");
    let overflow = doc! { "$project": { "_id": format!("${}", settings.parent), "extras": overflow } };
    let main = id.map_or_else(|| may_need_repair(settings), by_id);
    let mut stages = vec![
        doc! { "$match": main },
        doc! { "$project": { "main": main_summary(settings) } },
        doc! { "$unionWith": { "coll": names.overflow, "pipeline": with_overflow_of(settings, id, overflow) } },
    ];
    let mut group = doc! { "_id": "$_id", "main": { "$push": "$main" }, "extras": { "$push": "$extras" } };
    if settings.unique {
        let duplicates = duplicates(settings, names, id);
        stages.push(doc! { "$unionWith": { "coll": names.main, "pipeline": duplicates } });
        group.insert("doubled", doc! { "$sum": "$doubled" });
    }
    stages.push(doc! { "$group": group });
    stages
}

/// Returns a stage over the overflow documents, of one main document or of all.
fn with_overflow_of(settings: &Settings, id: Option<&Bson>, stage: Document) -> Vec<Document> {
    let of_one = id.map(|id| doc! { "$match": true_overflow_of(settings, id) });
    of_one.into_iter().chain([stage]).collect()
}

/// Counts the elements of each list that are equal to an earlier one, by the `_id` of the main document. The server groups
/// the elements of lists with a flag or overflow documents, and compares each other array in itself.
fn duplicates(settings: &Settings, names: Names<'_>, id: Option<&Bson>) -> Vec<Document> {
    let array_or_none = |field: &str| {
        let path = format!("${field}");
        doc! { "$cond": [{ "$isArray": &path }, &path, []] }
    };
    let main = id.map_or_else(
        || doc! { "$or": [{ settings.flag.as_str(): true }, { "$expr": has_duplicates(settings) }] },
        by_id,
    );
    let overflow = doc! { "$project": {
        "_id": format!("${}", settings.parent),
        "element": array_or_none(settings.extras.as_str()),
    } };
    let group = doc! { "_id": { "main": "$_id", "element": "$element" }, "times": { "$sum": 1 } };
    let duplicates = doc! { "$sum": { "$subtract": ["$times", 1] } };
    vec![
        doc! { "$match": main },
        doc! { "$project": { "element": array_or_none(settings.array.as_str()) } },
        doc! { "$unionWith": { "coll": names.overflow, "pipeline": with_overflow_of(settings, id, overflow) } },
        doc! { "$unwind": "$element" },
        doc! { "$group": group },
        doc! { "$match": { "times": { "$gt": 1 } } },
        doc! { "$group": { "_id": "$_id.main", "doubled": duplicates } },
    ]
}

/// Returns whether the array of a main document has an element twice, as an expression.
fn has_duplicates(settings: &Settings) -> Document {
    let path = format!("${}", settings.array);
    let distinct = doc! { "$size": { "$setUnion": [&path, []] } };
    doc! { "$cond": [{ "$isArray": &path }, { "$gt": [{ "$size": &path }, distinct] }, false] }
}

/// Matches main documents with a flag, an array over the threshold, an array field that is not an array, or a flag that is
/// not a boolean. Where elements are unique, also with an element twice.
pub(crate) fn may_need_repair(settings: &Settings) -> Document {
    let (flag, path) = (settings.flag.as_str(), format!("${}", settings.array));
    let mut is_over = doc! { "$gt": [{ "$size": &path }, settings.threshold_bson()] };
    if settings.unique {
        is_over = doc! { "$or": [is_over, has_duplicates(settings)] };
    }
    let is_present = doc! { "$ne": [{ "$type": &path }, "missing"] };
    doc! { "$or": [
        { flag: true },
        { flag: { "$exists": true, "$not": { "$type": "bool" } } },
        { "$expr": { "$cond": [{ "$isArray": &path }, is_over, is_present] } },
    ] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_sizes_and_ids() {
        let names = Names {
            main: "sales",
            overflow: "extra_sales",
        };
        let pipeline = summaries(&Settings::example(), names, None);
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
        let overflow = doc! {
            "seq": number("$seq"), "count": number("$count"), "size": size(extras), "_id": "$_id",
        };
        let is_null = doc! { "$in": [{ "$type": array }, ["null", "undefined"]] };
        let may_need_repair = doc! { "$or": [
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
                doc! { "$match": may_need_repair },
                doc! { "$project": { "main": { "size": size(array), "flag": flag, "isNull": is_null } } },
                doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [
                    { "$project": { "_id": "$book_id", "extras": overflow } },
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
        let stages = summaries(&settings, names, Some(&doc! { "$gt": 1 }.into()));
        let by_id = doc! { "$match": { "_id": { "$eq": { "$gt": 1 } } } };
        let of_parent = doc! { "$match": { "book_id": { "$eq": { "$gt": 1 }, "$not": { "$type": "array" } } } };
        let array = |path: &str| doc! { "$cond": [{ "$isArray": path }, path, []] };
        let overflow = doc! { "$project": { "_id": "$book_id", "element": array("$customers_purchased_extra") } };
        let duplicates = [
            by_id.clone(),
            doc! { "$project": { "element": array("$customers_purchased") } },
            doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [of_parent, overflow] } },
            doc! { "$unwind": "$element" },
            doc! { "$group": { "_id": { "main": "$_id", "element": "$element" }, "times": { "$sum": 1 } } },
            doc! { "$match": { "times": { "$gt": 1 } } },
            doc! { "$group": { "_id": "$_id.main", "doubled": { "$sum": { "$subtract": ["$times", 1] } } } },
        ];
        assert_eq!(stages[0], by_id);
        assert_eq!(
            stages[3],
            doc! { "$unionWith": { "coll": "sales", "pipeline": duplicates.to_vec() } }
        );
        let group = stages[4].get_document("$group").unwrap();
        assert_eq!(group.get("doubled"), Some(&doc! { "$sum": "$doubled" }.into()));
    }
}
