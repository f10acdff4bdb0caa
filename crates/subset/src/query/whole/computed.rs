//! Computed fields of all parents.
//!
//! # Design
//!
//! ## Why may a sum differ from the sum of its values?
//!
//! Additions of doubles round, and so do those of doubles and decimals. So a sum that is changed by each write differs from
//! one that is computed at once, and both are correct. So is every such sum within a billionth, and a billionth of the
//! magnitudes of its doubles. Sums of integers are exact.

use crate::prelude::*;
use crate::query::computed::{With, figures};
use crate::settings::computed::Figure;

/// The field with the row of a lookup.
pub(super) const FOUND: &str = "found_values";

/// The tolerance for a sum of doubles, relative to the sum of their magnitudes, and absolute.
const TOLERANCE: f64 = 1e-9;

/// Returns the computed fields with the names under which their new values are held.
pub(super) fn names(settings: &Settings) -> impl Iterator<Item = (&FieldName, String)> {
    let numbered = settings.computed.iter().enumerate();
    numbered.map(|(number, computed)| (&computed.field, format!("computed{number}")))
}

fn stored_name(number: usize) -> String {
    format!("stored{number}")
}

fn magnitude_name(number: usize) -> String {
    format!("magnitude{number}")
}

/// Projects the stored values.
pub(super) fn stored(settings: &Settings) -> Document {
    let numbered = settings.computed.iter().enumerate();
    let stored = numbered.map(|(number, computed)| (stored_name(number), format!("${}", computed.field).into()));
    stored.collect()
}

/// Returns the stages that compute the fields of a parent. `lookup` looks up the row of some stages over its children.
pub(super) fn lookups(settings: &Settings, lookup: impl Fn(Vec<Document>) -> Document) -> Vec<Document> {
    let mut stages = Vec::new();
    for of in settings.sources() {
        let with = With {
            total: false,
            magnitude: true,
        };
        stages.push(lookup(figures(settings, of, with)));
        let first = |name: &str| doc! { "$arrayElemAt": [format!("${FOUND}.{name}"), 0] };
        let mut fields = Document::new();
        for (number, computed) in settings.computed.iter().enumerate() {
            if computed.of != *of {
                continue;
            }
            let of_none = computed.figure.of_none();
            let value = doc! { "$ifNull": [first(computed.figure.setting()), of_none] };
            fields.insert(format!("computed{number}"), value);
            if computed.figure == Figure::Sum {
                fields.insert(magnitude_name(number), doc! { "$ifNull": [first("magnitude"), 0] });
            }
        }
        stages.push(doc! { "$set": fields });
    }
    stages
}

/// Returns whether each stored value differs from the computed one, as expressions. A missing value is that of a parent
/// without children.
pub(super) fn differs(settings: &Settings) -> impl Iterator<Item = Document> {
    let numbered = settings.computed.iter().enumerate();
    numbered.map(|(number, computed)| {
        let stored = doc! { "$ifNull": [format!("${}", stored_name(number)), computed.figure.of_none()] };
        is_other(computed.figure, number, &stored.into())
    })
}

/// Returns whether each stored value is missing, or differs from the computed one, as expressions.
pub(super) fn must_be_written(settings: &Settings) -> impl Iterator<Item = Document> {
    let numbered = settings.computed.iter().enumerate();
    numbered.map(|(number, computed)| is_other(computed.figure, number, &format!("${}", stored_name(number)).into()))
}

fn is_other(figure: Figure, number: usize, stored: &Bson) -> Document {
    let computed = format!("$computed{number}");
    let is_other = doc! { "$ne": [stored, &computed] };
    if figure != Figure::Sum {
        return is_other;
    }
    let types = [doc! { "$type": stored }, doc! { "$type": &computed }];
    let rounded = doc! { "$setIntersection": [["double", "decimal"], types.to_vec()] };
    let is_rounded = doc! { "$and": [{ "$isNumber": stored }, { "$ne": [rounded, []] }] };
    let distance = doc! { "$abs": { "$subtract": [stored, &computed] } };
    let tolerance = doc! { "$multiply": [TOLERANCE, { "$add": [1, format!("${}", magnitude_name(number))] }] };
    // NaN is less than all numbers. An infinite distance is not less than an infinite tolerance.
    let is_near = doc! { "$and": [{ "$gte": [&distance, 0] }, { "$lt": [&distance, tolerance] }] };
    doc! { "$and": [is_other, { "$not": [{ "$cond": [is_rounded, is_near, false] }] }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_is_rounded_is_compared_by_tolerance() {
        let settings = Settings::example().with_computed(&[
            (Figure::Sum, "rating", "rating_sum"),
            (Figure::Max, "rating", "highest"),
        ]);
        let stored = doc! { "$ifNull": ["$stored0", 0] };
        let distance = doc! { "$abs": { "$subtract": [&stored, "$computed0"] } };
        let tolerance = doc! { "$multiply": [1e-9, { "$add": [1, "$magnitude0"] }] };
        let types = doc! { "$setIntersection": [
            ["double", "decimal"],
            [{ "$type": &stored }, { "$type": "$computed0" }],
        ] };
        let is_rounded = doc! { "$and": [{ "$isNumber": &stored }, { "$ne": [types, []] }] };
        let is_near = doc! { "$and": [{ "$gte": [&distance, 0] }, { "$lt": [&distance, tolerance] }] };
        assert_eq!(
            differs(&settings).collect::<Vec<_>>(),
            [
                doc! { "$and": [
                    { "$ne": [&stored, "$computed0"] },
                    { "$not": [{ "$cond": [is_rounded, is_near, false] }] },
                ] },
                doc! { "$ne": [{ "$ifNull": ["$stored1", null] }, "$computed1"] },
            ]
        );
        let magnitude = doc! { "$cond": [{ "$eq": [{ "$type": "$rating" }, "double"] }, { "$abs": "$rating" }, 0] };
        assert_eq!(
            lookups(&settings, |stages| doc! { "lookup": stages }),
            [
                doc! { "lookup": [{ "$group": {
                    "_id": null,
                    "sum": { "$sum": "$rating" },
                    "magnitude": { "$sum": magnitude },
                    "max": { "$max": "$rating" },
                } }] },
                doc! { "$set": {
                    "computed0": { "$ifNull": [{ "$arrayElemAt": ["$found_values.sum", 0] }, 0] },
                    "magnitude0": { "$ifNull": [{ "$arrayElemAt": ["$found_values.magnitude", 0] }, 0] },
                    "computed1": { "$ifNull": [{ "$arrayElemAt": ["$found_values.max", 0] }, null] },
                } },
            ]
        );
    }
}
