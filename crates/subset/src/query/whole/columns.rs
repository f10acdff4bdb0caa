//! The fields of all parents that depend on their children, each with its stored value and its value from the children.
//!
//! # Design
//!
//! ## Why may a sum differ from the sum of its values?
//!
//! Additions of doubles round, and so do sums with decimals. So a sum that is changed by each write differs from a sum that
//! is computed at once. Both are correct within a billionth, absolute or relative to the doubles. Sums of integers are
//! exact.

use mongo_patterns_core::FieldName;
use mongodb::bson::{Bson, Document, doc};

use crate::query::figures::figures;
use crate::query::first_children::first_among;
use crate::settings::Settings;
use crate::settings::figure::{Figure, Kind};

/// The field with the row of a lookup.
const FOUND: &str = "found_values";

/// The tolerance for a sum of doubles, relative to the sum of their magnitudes, and absolute.
const TOLERANCE: f64 = 1e-9;

/// The name of the number of children.
const COUNTED: &str = "counted";

/// A field of a parent that depends on its children.
pub(super) struct Column<'a> {
    pub(super) field: &'a FieldName,
    /// `None` for a subset.
    pub(super) figure: Option<&'a Figure>,
    stored: String,
    /// The name of its value from the children.
    pub(super) truth: String,
    /// The name of the sum of the magnitudes, of a sum.
    magnitude: String,
}

/// Returns all columns: the first subset, the total, the other subsets, and the figures. A parent gets missing fields in
/// this order.
pub(super) fn columns(settings: &Settings) -> Vec<Column<'_>> {
    let column = |field, figure, [stored, truth]: [&str; 2], number: Option<usize>| {
        let named = |name: &str| number.map_or(name.to_owned(), |number| format!("{name}{number}"));
        Column {
            field,
            figure,
            stored: named(stored),
            truth: named(truth),
            magnitude: named("magnitude"),
        }
    };
    let subsets = settings.subsets.iter().enumerate();
    let subsets = subsets.map(|(number, subset)| match number.checked_sub(1) {
        None => column(&subset.field, None, ["subset", "truth"], None),
        number => column(&subset.field, None, ["further", "truth"], number),
    });
    let mut columns: Vec<_> = subsets.collect();
    if let Some(total) = settings.figures.first().filter(|figure| figure.kind == Kind::Count) {
        columns.insert(1, column(&total.field, Some(total), ["total", COUNTED], None));
    }
    let computed = settings.computed().enumerate();
    columns.extend(
        computed.map(|(number, figure)| column(&figure.field, Some(figure), ["stored", "computed"], Some(number))),
    );
    columns
}

impl Column<'_> {
    /// Returns the name of the stored value with its path.
    pub(super) fn projected(&self) -> (String, Bson) {
        (self.stored.clone(), format!("${}", self.field).into())
    }

    /// Returns the path of the stored value, after its projection.
    pub(super) fn stored(&self) -> String {
        format!("${}", self.stored)
    }

    /// Returns whether the stored value differs from the children's, as an expression. A missing value fits a parent without
    /// children.
    pub(super) fn differs(&self) -> Document {
        let of_none = self
            .figure
            .map_or(Bson::Array(Vec::new()), |figure| figure.kind.of_none());
        self.is_other(&doc! { "$ifNull": [self.stored(), of_none] }.into())
    }

    /// Returns whether the stored value is missing, or differs from the children's, as an expression.
    pub(super) fn must_be_written(&self) -> Document {
        self.is_other(&self.stored().into())
    }

    fn is_other(&self, stored: &Bson) -> Document {
        let truth = format!("${}", self.truth);
        let is_other = doc! { "$ne": [stored, &truth] };
        if self.figure.is_none_or(|figure| figure.kind != Kind::Sum) {
            return is_other;
        }
        let types = [doc! { "$type": stored }, doc! { "$type": &truth }];
        let rounded = doc! { "$setIntersection": [["double", "decimal"], types.to_vec()] };
        let is_rounded = doc! { "$and": [{ "$isNumber": stored }, { "$ne": [rounded, []] }] };
        let distance = doc! { "$abs": { "$subtract": [stored, &truth] } };
        let tolerance = doc! { "$multiply": [TOLERANCE, { "$add": [1, format!("${}", self.magnitude)] }] };
        // NaN is less than all numbers. An infinite distance is not less than an infinite tolerance.
        let is_near = doc! { "$and": [{ "$gte": [&distance, 0] }, { "$lt": [&distance, tolerance] }] };
        doc! { "$and": [is_other, { "$not": [{ "$cond": [is_rounded, is_near, false] }] }] }
    }
}

/// Returns the stages that look up the values of all columns from the children of a parent.
pub(super) fn lookups(settings: &Settings, children: &str) -> Vec<Document> {
    let is_child = doc! { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } };
    let lookup = |pipeline: Vec<Document>, name: &str| {
        doc! { "$lookup": { "from": children, "let": { "id": "$_id" }, "pipeline": pipeline, "as": name } }
    };
    let of_children = |mut stages: Vec<Document>| {
        stages.insert(0, doc! { "$match": &is_child });
        stages
    };
    let columns = columns(settings);
    let of_subsets = columns.iter().filter(|column| column.figure.is_none());
    let mut stages = Vec::new();
    for (number, (column, subset)) in of_subsets.zip(&settings.subsets).enumerate() {
        let first = first_among(settings, subset, is_child.clone(), number > 0);
        stages.push(lookup(first, &column.truth));
    }
    if settings.total().is_some() {
        let count = doc! { "$group": { "_id": null, "children": { "$sum": 1_i64 } } };
        stages.push(lookup(of_children(vec![count]), COUNTED));
        // The `$sum` of no number would be an `int`.
        let counted = doc! { "$add": [{ "$sum": format!("${COUNTED}.children") }, 0_i64] };
        stages.push(doc! { "$set": { COUNTED: counted } });
    }
    let of_row = |name: &str, of_none: Bson| {
        let first = doc! { "$arrayElemAt": [format!("${FOUND}.{name}"), 0] };
        doc! { "$ifNull": [first, of_none] }
    };
    for of in settings.sources() {
        stages.push(lookup(of_children(figures(settings, of, false, true)), FOUND));
        let mut fields = Document::new();
        for column in &columns {
            let Some(figure) = column.figure.filter(|figure| figure.is_from(of)) else {
                continue;
            };
            fields.insert(&column.truth, of_row(figure.kind.name(), figure.kind.of_none()));
            if figure.kind == Kind::Sum {
                fields.insert(&column.magnitude, of_row("magnitude", Bson::Int32(0)));
            }
        }
        stages.push(doc! { "$set": fields });
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_array_is_compared_with_its_first_children() {
        let settings = Settings::example().with_best();
        let columns = columns(&settings);
        assert_eq!(columns[1].projected(), ("further0".to_owned(), "$top_rated".into()));
        assert_eq!(
            columns[1].differs(),
            doc! { "$ne": [{ "$ifNull": ["$further0", []] }, "$truth0"] }
        );
        assert_eq!(columns[1].must_be_written(), doc! { "$ne": ["$further0", "$truth0"] });
        let is_child = doc! { "$expr": { "$eq": ["$product_id", "$$id"] } };
        let best = [
            doc! { "$match": { "$and": [is_child, { "stars": { "$gte": 4 } }] } },
            doc! { "$sort": { "stars": -1, "review_id": -1 } },
            doc! { "$limit": 3_i64 },
            doc! { "$replaceWith": { "child": "$$ROOT" } },
            doc! { "$project": { "child.stars": 1, "child.review_id": 1 } },
            doc! { "$replaceWith": "$child" },
        ];
        let lookup = doc! { "from": "review", "let": { "id": "$_id" }, "pipeline": best.to_vec(), "as": "truth0" };
        assert_eq!(lookups(&settings, "review")[1], doc! { "$lookup": lookup });
    }

    #[test]
    fn a_sum_that_is_rounded_is_compared_by_tolerance() {
        let settings =
            Settings::example().with_figures(&[(Kind::Sum, "rating", "rating_sum"), (Kind::Max, "rating", "highest")]);
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
            columns(&settings)[1..].iter().map(Column::differs).collect::<Vec<_>>(),
            [
                doc! { "$and": [
                    { "$ne": [&stored, "$computed0"] },
                    { "$not": [{ "$cond": [is_rounded, is_near, false] }] },
                ] },
                doc! { "$ne": [{ "$ifNull": ["$stored1", null] }, "$computed1"] },
            ]
        );
        let magnitude = doc! { "$cond": [{ "$eq": [{ "$type": "$rating" }, "double"] }, { "$abs": "$rating" }, 0] };
        let group = doc! { "$group": {
            "_id": null,
            "sum": { "$sum": "$rating" },
            "magnitude": { "$sum": magnitude },
            "max": { "$max": "$rating" },
        } };
        let is_child = doc! { "$match": { "$expr": { "$eq": ["$product_id", "$$id"] } } };
        let lookup = doc! {
            "from": "review",
            "let": { "id": "$_id" },
            "pipeline": [is_child, group],
            "as": "found_values",
        };
        assert_eq!(
            lookups(&settings, "review")[1..],
            [
                doc! { "$lookup": lookup },
                doc! { "$set": {
                    "computed0": { "$ifNull": [{ "$arrayElemAt": ["$found_values.sum", 0] }, 0] },
                    "magnitude0": { "$ifNull": [{ "$arrayElemAt": ["$found_values.magnitude", 0] }, 0] },
                    "computed1": { "$ifNull": [{ "$arrayElemAt": ["$found_values.max", 0] }, null] },
                } },
            ]
        );
    }
}
