//! Expressions about reference fields, for aggregations.
//!
//! # Design
//!
//! ## Why is there a binary search?
//!
//! The server has no map from ids to documents in an expression. `$indexOfArray` reads the ids of the sources from the first
//! one for each element, so the time grows with the square of the array's length. Set expressions do not return positions.

use mongo_patterns_core::FieldName;
use mongodb::bson::{Bson, Document, doc};

use crate::settings::{DELETED, ReferenceField, Settings};

/// The types that no `_id` has.
const NO_ID: [&str; 7] = ["missing", "null", "undefined", "array", "regex", "minKey", "maxKey"];

/// The largest integer up to which a double represents every integer.
const EXACT: i64 = 9_007_199_254_740_992;

pub(crate) fn type_in(value: impl Into<Bson>, types: &[&str]) -> Document {
    doc! { "$in": [{ "$type": value.into() }, types] }
}

pub(crate) fn is_missing(value: impl Into<Bson>) -> Document {
    doc! { "$eq": [{ "$type": value.into() }, "missing"] }
}

pub(crate) fn not(condition: Document) -> Document {
    doc! { "$not": [condition] }
}

/// Returns whether a value is neither missing nor null.
pub(crate) fn is_present(value: impl Into<Bson>) -> Document {
    not(type_in(value, &["missing", "null", "undefined"]))
}

/// Returns whether a value can be an `_id`.
pub(crate) fn is_id(value: impl Into<Bson>) -> Document {
    not(type_in(value, &NO_ID))
}

/// Returns whether a value is a document with an `_id`, and so a reference, and not an id.
pub(crate) fn is_reference(value: &str) -> Document {
    doc! { "$and": [type_in(value, &["object"]), not(is_missing(format!("{value}._id")))] }
}

/// Returns whether a value is a document without an `_id`: the `_id` of a source, or a reference of another form.
pub(crate) fn is_without_id(value: &str) -> Document {
    doc! { "$and": [type_in(value, &["object"]), is_missing(format!("{value}._id"))] }
}

/// Returns a field of a document, also one that no path can name.
pub(crate) fn field_of(document: &str, name: &str) -> Document {
    doc! { "$getField": { "field": { "$literal": name }, "input": document } }
}

/// Returns a document without a field.
pub(crate) fn without_field(document: impl Into<Bson>, name: &str) -> Document {
    doc! { "$unsetField": { "field": { "$literal": name }, "input": document.into() } }
}

/// Returns whether a document is a DBRef.
pub(crate) fn is_db_ref(document: &str) -> Document {
    not(is_missing(field_of(document, "$id")))
}

/// Returns whether a value is a reference with a copy, or with a deleted source. A snapshot needs no version.
pub(crate) fn is_extended(settings: &Settings, field: &ReferenceField, value: &str) -> Document {
    let path = |field: &str| format!("{value}.{field}");
    let mut has_copy = vec![
        is_present(path(settings.version.as_str())),
        doc! { "$eq": [path(DELETED), true] },
    ];
    if field.is_snapshot {
        let copied = field.copied.iter();
        has_copy.extend(copied.map(|copied| not(is_missing(path(&copied.target.text())))));
    }
    doc! { "$and": [is_reference(value), { "$or": has_copy }] }
}

/// Returns the id in a value: the id of a reference, or the value itself.
pub(crate) fn id_in(value: &str) -> Document {
    doc! { "$cond": [is_reference(value), format!("{value}._id"), value] }
}

/// Returns the values in a field, each of which should be a reference or an id: the elements of an array, or the field
/// itself unless it is missing or null.
pub(crate) fn values(field: &ReferenceField, value: &str) -> Document {
    match field.is_array {
        true => doc! { "$cond": [{ "$isArray": value }, value, []] },
        false => doc! { "$cond": [is_present(value), [value], []] },
    }
}

pub(crate) fn ids(field: &ReferenceField, value: &str) -> Document {
    mapped(values(field, value), id_in(ELEMENT))
}

/// Returns whether an array field has another value than an array.
pub(crate) fn is_no_array(field: &ReferenceField, value: &str) -> Document {
    match field.is_array {
        true => doc! { "$and": [is_present(value), not(doc! { "$isArray": value })] },
        false => never(),
    }
}

/// The variable of an element in a [mapped] or [any] array.
pub(crate) const ELEMENT: &str = "$$element";

/// Maps the elements of an array.
pub(crate) fn mapped(array: impl Into<Bson>, element: impl Into<Bson>) -> Document {
    doc! { "$map": { "input": array.into(), "as": "element", "in": element.into() } }
}

/// Returns the elements of an array that meet a condition.
pub(crate) fn filtered(array: impl Into<Bson>, condition: Document) -> Document {
    doc! { "$filter": { "input": array.into(), "as": "element", "cond": condition } }
}

/// Returns whether any element of an array meets a condition.
pub(crate) fn any(array: impl Into<Bson>, condition: Document) -> Document {
    doc! { "$anyElementTrue": [mapped(array, condition)] }
}

/// Returns whether a value is a valid version: an integer from 0.
pub(crate) fn is_version(value: &str) -> Document {
    let is_integer = doc! { "$and": [
        { "$gte": [value, 0] },
        { "$lte": [value, EXACT] },
        { "$eq": [{ "$mod": [value, 1] }, 0] },
    ] };
    // Of a text, `$mod` would fail.
    doc! { "$switch": {
        "branches": [
            { "case": type_in(value, &["int", "long"]), "then": { "$gte": [value, 0] } },
            { "case": type_in(value, &["double"]), "then": is_integer },
        ],
        "default": false,
    } }
}

/// Returns whether any of the conditions is met.
pub(crate) fn any_of(conditions: impl IntoIterator<Item = Document>) -> Document {
    doc! { "$or": conditions.into_iter().collect::<Vec<_>>() }
}

pub(crate) fn never() -> Document {
    doc! { "$literal": false }
}

pub(crate) fn concatenated(arrays: impl IntoIterator<Item = Document>) -> Document {
    doc! { "$concatArrays": arrays.into_iter().collect::<Vec<_>>() }
}

/// A reason why a document cannot be migrated, its field, and the condition.
pub(crate) type Problem<'f> = (&'static str, &'f FieldName, Document);

/// Returns the first problem whose condition is met, as its `reason` and `field`, or null.
pub(crate) fn first_problem<'f>(problems: impl IntoIterator<Item = Problem<'f>>) -> Document {
    let branches = problems.into_iter().map(|(reason, field, condition)| {
        doc! { "case": condition, "then": { "reason": reason, "field": field.as_str() } }
    });
    doc! { "$switch": { "branches": branches.collect::<Vec<_>>(), "default": null } }
}

/// Counts the documents by the reason of their problem in the field `r`, with the `_id` and the field of one of each.
pub(crate) fn count_by_reason(group: &mut Document, reasons: impl IntoIterator<Item = &'static str>) {
    for reason in reasons {
        let is_reason = doc! { "$eq": ["$r.reason", reason] };
        let one = doc! { "$max": { "$cond": [&is_reason, { "id": "$_id", "field": "$r.field" }, null] } };
        group.insert(reason, doc! { "$sum": { "$cond": [is_reason, 1_i64, 0_i64] } });
        group.insert(format!("{reason}One"), one);
    }
}

/// The most sources whose ids are read one by one to find a source.
const FEW: i32 = 32;

/// The steps of a binary search. Their sum exceeds the number of ids that fit into a document.
const STEPS: [i32; 21] = {
    let mut steps = [0; 21];
    let mut step = 0;
    while step < 21 {
        steps[step] = 1 << (20 - step);
        step += 1;
    }
    steps
};

/// The order of the sources that a document refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceOrder {
    /// For few sources.
    Any,
    /// For an array of references: the sources are searched by their ids.
    ById,
}

/// Evaluates an expression with a variable `source`: the source in the field `s` with this id, if there is one. The ids of
/// `s` are in the field `sid`, in this order.
pub(crate) fn with_source(order: SourceOrder, id: impl Into<Bson>, then: impl Into<Bson>) -> Document {
    let source_at = |position: Document| {
        let source = doc! { "$cond": [
            // -1 would be the last one.
            { "$lt": ["$$at", 0] },
            "$$REMOVE",
            { "$arrayElemAt": ["$s", "$$at"] },
        ] };
        doc! { "$let": { "vars": { "at": position }, "in": source } }
    };
    let source = match order {
        SourceOrder::Any => source_at(doc! { "$indexOfArray": ["$sid", id.into()] }),
        SourceOrder::ById => {
            let position = doc! { "$cond": [
                { "$lte": [{ "$size": "$sid" }, FEW] },
                { "$indexOfArray": ["$sid", "$$id"] },
                sorted_position(),
            ] };
            doc! { "$let": { "vars": { "id": id.into() }, "in": source_at(position) } }
        }
    };
    doc! { "$let": { "vars": { "source": source }, "in": then.into() } }
}

/// Returns the position of `$$id` among the sorted ids in the field `sid`, or -1.
fn sorted_position() -> Document {
    let is_at_most = doc! { "$and": [
        { "$lt": ["$$next", { "$size": "$sid" }] },
        { "$lte": [{ "$arrayElemAt": ["$sid", "$$next"] }, "$$id"] },
    ] };
    let step = doc! { "$let": {
        "vars": { "next": { "$add": ["$$value", "$$this"] } },
        "in": { "$cond": [is_at_most, "$$next", "$$value"] },
    } };
    let last = doc! { "$reduce": { "input": STEPS.as_slice(), "initialValue": -1, "in": step } };
    let position = doc! { "$cond": [{ "$eq": [{ "$arrayElemAt": ["$sid", "$$last"] }, "$$id"] }, "$$last", -1] };
    doc! { "$let": { "vars": { "last": last }, "in": position } }
}

/// Returns whether no source has one of these ids. The ids of the sources are in the field `sid`.
pub(crate) fn any_unknown(ids: Document) -> Document {
    not(doc! { "$setIsSubset": [ids, "$sid"] })
}

/// Looks up the sources of the names in a field, which are values of another field, in this order: their fields into `s`,
/// and their names into `sid`.
pub(crate) fn lookup_sources(
    sources: &str,
    (names, of): (&str, &str),
    projection: Document,
    order: SourceOrder,
) -> [Document; 2] {
    let sort = (order == SourceOrder::ById).then(|| doc! { "$sort": { of: 1 } });
    let pipeline = sort.into_iter().chain([doc! { "$project": projection }]);
    [
        doc! { "$lookup": {
            "from": sources,
            "localField": names,
            "foreignField": of,
            "pipeline": pipeline.collect::<Vec<_>>(),
            "as": "s",
        } },
        doc! { "$addFields": { "sid": format!("$s.{of}") } },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_search_reaches_every_id_of_a_document() {
        // Of an integer: the type, a position of six digits, and the value.
        let least_bytes = 1 + 7 + 4;
        assert!(STEPS.iter().sum::<i32>() as usize > 16 * 1024 * 1024 / least_bytes);
        assert_eq!((STEPS[0], STEPS[20]), (1_048_576, 1));
    }
}
