//! Figures: their values from all children.
//!
//! # Design
//!
//! ## Why is a count by value an array, and not a document with the values as its names?
//!
//! A value of a child can be of any type: a text with dots or `$`, a date, or both 5 and "5". As a name it would be a path
//! in every later update. In an array of `{ value, count }` it stays a value. The array is sorted by value, so that equal
//! counts are equal arrays.
//!
//! ## Why are minimum and maximum read and not changed by a write?
//!
//! If the smallest value is removed, only the children know the next one. The index has it as its first key, and the command
//! that reads the first children reads it too.
//!
//! ## Why does a transaction read by `$lookup`, and not by `$unionWith`?
//!
//! The server refuses `$unionWith` in a transaction.

pub(crate) mod change;

use mongo_patterns_core::FieldName;
use mongo_patterns_core::stored::value;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::{children_of, first_children};
use crate::settings::Settings;
use crate::settings::figure::{Figure, Kind};

/// The field of a row with the number of the source that it belongs to.
const SOURCE: &str = "source";
/// The field of a row with a minimum or a maximum: the number of the figure, with its value in [`VALUE`].
pub(crate) const EXTREME: &str = "extreme";
pub(crate) const VALUE: &str = "value";
/// The field of a row with the changed child.
pub(crate) const CHANGED: &str = "changed";

/// Returns the stages that compute the figures of a field of the children: one row, or none without children. With `total`
/// also the number of children, and with `magnitude` the sum of the magnitudes of doubles.
pub(super) fn figures(settings: &Settings, of: &FieldName, total: bool, magnitude: bool) -> Vec<Document> {
    let value = format!("${of}");
    let has = |kind| {
        let mut figures = settings.figures.iter();
        figures.any(|figure| figure.kind == kind && figure.is_from(of))
    };
    let mut sums = Document::new();
    if has(Kind::Sum) {
        sums.insert("sum", doc! { "$sum": &value });
        if magnitude {
            let is_double = doc! { "$eq": [{ "$type": &value }, "double"] };
            let magnitude = doc! { "$cond": [is_double, { "$abs": &value }, 0] };
            sums.insert("magnitude", doc! { "$sum": magnitude });
        }
    }
    let mut all = doc! { "_id": null };
    if !has(Kind::CountBy) {
        if total {
            all.insert(Kind::Count.name(), doc! { "$sum": 1_i64 });
        }
        all.extend(sums);
        all.extend(extremes(&value, has));
        return vec![doc! { "$group": all }];
    }
    let mut by_value = doc! { "_id": &value, "count": { "$sum": 1_i64 } };
    if total {
        all.insert(Kind::Count.name(), doc! { "$sum": "$count" });
    }
    for name in sums.keys() {
        all.insert(name, doc! { "$sum": format!("${name}") });
    }
    by_value.extend(sums);
    all.extend(extremes("$_id", has));
    let counted = doc! { "value": "$_id", "count": "$count" };
    let counted = doc! { "$cond": [{ "$ne": ["$_id", null] }, counted, "$$REMOVE"] };
    all.insert(Kind::CountBy.name(), doc! { "$push": counted });
    vec![
        doc! { "$group": by_value },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$group": all },
    ]
}

fn extremes(value: &str, has: impl Fn(Kind) -> bool) -> Document {
    let mut extremes = Document::new();
    for kind in [Kind::Min, Kind::Max].into_iter().filter(|kind| has(*kind)) {
        extremes.insert(kind.name(), doc! { format!("${}", kind.name()): value });
    }
    extremes
}

/// Computes all values of a parent from its children: a row for each source, by one pipeline for each.
pub(crate) fn of_parent(settings: &Settings, parent: &Bson) -> Vec<Vec<Document>> {
    let numbered = (0_i32..).zip(settings.sources());
    let pipelines = numbered.map(|(number, of)| {
        let mut stages = vec![doc! { "$match": children_of(settings, parent) }];
        let total = number == 0 && settings.total().is_some();
        stages.extend(figures(settings, of, total, false));
        stages.push(doc! { "$set": { SOURCE: number } });
        stages
    });
    pipelines.collect()
}

/// Joins pipelines over the children to one.
pub(crate) fn union(children: &str, pipelines: Vec<Vec<Document>>) -> Vec<Document> {
    let mut pipelines = pipelines.into_iter();
    let mut stages = pipelines.next().unwrap_or_default();
    stages.extend(pipelines.map(|pipeline| doc! { "$unionWith": { "coll": children, "pipeline": pipeline } }));
    stages
}

/// Returns the figures of a parent by the rows of [`of_parent`].
pub(crate) fn of_rows(settings: &Settings, rows: &[RawDocumentBuf]) -> Document {
    let sources = settings.sources();
    let stored = |figure: &Figure| {
        if figure.kind == Kind::Count {
            let counted = rows.iter().find_map(|row| row.get_i64(figure.kind.name()).ok());
            return counted.unwrap_or(0).into();
        }
        let number = sources.iter().position(|of| **of == figure.of);
        let source = |row: &RawDocumentBuf| row.get_i32(SOURCE).ok().and_then(|of| usize::try_from(of).ok());
        let row = rows.iter().find(|row| source(row) == number);
        let stored = row.and_then(|row| value(row, figure.kind.name()));
        stored.unwrap_or_else(|| figure.kind.of_none())
    };
    let figures = settings.figures.iter();
    figures
        .map(|figure| (figure.field.as_str().to_owned(), stored(figure)))
        .collect()
}

/// Returns the first children of a parent for each subset, its minima and maxima, and a child as it is now: a row each.
pub(crate) fn first_children_and_values(
    settings: &Settings,
    children: &str,
    parent: &Bson,
    changed: Option<&Bson>,
) -> Vec<Document> {
    let mut others = Vec::new();
    for (number, computed) in (0_i32..).zip(settings.computed()) {
        let of = computed.of.as_str();
        let direction = match computed.kind {
            Kind::Min => 1,
            Kind::Max => -1,
            Kind::Count | Kind::Sum | Kind::CountBy => continue,
        };
        let mut with_value = children_of(settings, parent);
        with_value.insert(of, doc! { "$ne": null });
        others.push(vec![
            doc! { "$match": with_value },
            doc! { "$sort": { of: direction } },
            doc! { "$limit": 1 },
            doc! { "$project": { "_id": 0, EXTREME: { "$literal": number }, VALUE: format!("${of}") } },
        ]);
    }
    if let Some(id) = changed {
        others.push(vec![
            doc! { "$match": super::child(settings, parent, id) },
            doc! { "$replaceWith": { CHANGED: "$$ROOT" } },
        ]);
    }
    first_children::with_others(settings, children, parent, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn parent() -> Bson {
        Bson::Document(doc! { "$gt": 1 })
    }

    pub(super) fn settings() -> Settings {
        Settings::example().with_figures(&[
            (Kind::Sum, "rating", "rating_sum"),
            (Kind::CountBy, "rating", "stars"),
            (Kind::Min, "price", "lowest"),
            (Kind::Max, "price", "highest"),
        ])
    }

    #[test]
    fn one_command_computes_all_fields() {
        let settings = settings().with_total();
        let of_price = [
            doc! { "$match": { "product_id": { "$eq": parent() } } },
            doc! { "$group": { "_id": null, "min": { "$min": "$price" }, "max": { "$max": "$price" } } },
            doc! { "$set": { "source": 1 } },
        ];
        let counted = doc! { "$cond": [
            { "$ne": ["$_id", null] },
            { "value": "$_id", "count": "$count" },
            "$$REMOVE",
        ] };
        assert_eq!(
            union("review", of_parent(&settings, &parent())),
            [
                doc! { "$match": { "product_id": { "$eq": parent() } } },
                doc! { "$group": { "_id": "$rating", "count": { "$sum": 1_i64 }, "sum": { "$sum": "$rating" } } },
                doc! { "$sort": { "_id": 1 } },
                doc! { "$group": {
                    "_id": null,
                    "total": { "$sum": "$count" },
                    "sum": { "$sum": "$sum" },
                    "count_by": { "$push": counted },
                } },
                doc! { "$set": { "source": 0 } },
                doc! { "$unionWith": { "coll": "review", "pipeline": of_price.to_vec() } },
            ]
        );
        assert_eq!(settings.values_index(&settings.figures[1].of), "product_id_1_rating_1");
    }

    #[test]
    fn a_parent_without_children_has_the_values_of_none() {
        let row = mongodb::bson::rawdoc! { "_id": null, "min": 3, "max": 7, "source": 1 };
        assert_eq!(
            of_rows(&settings(), &[row]),
            doc! { "rating_sum": 0, "stars": [], "lowest": 3, "highest": 7 }
        );
        assert_eq!(
            of_rows(&settings(), &[]),
            doc! { "rating_sum": 0, "stars": [], "lowest": null, "highest": null }
        );
    }

    #[test]
    fn a_transaction_reads_extremes_and_the_child_with_the_first_children() {
        let id = Bson::Int32(7);
        let stages = first_children_and_values(&settings(), "review", &parent(), Some(&id));
        let mut expected = first_children::of_all_subsets(&settings(), "review", &parent());
        expected.push(doc! { "$group": { "_id": null, "rows": { "$push": "$$ROOT" } } });
        for (name, number, direction) in [("rows0", 2, 1), ("rows1", 3, -1)] {
            let pipeline = [
                doc! { "$match": { "product_id": { "$eq": parent() }, "price": { "$ne": null } } },
                doc! { "$sort": { "price": direction } },
                doc! { "$limit": 1 },
                doc! { "$project": { "_id": 0, "extreme": { "$literal": number }, "value": "$price" } },
            ];
            expected.push(doc! { "$lookup": { "from": "review", "pipeline": pipeline.to_vec(), "as": name } });
        }
        let pipeline = [
            doc! { "$match": { "product_id": { "$eq": parent() }, "review_id": { "$eq": 7 } } },
            doc! { "$replaceWith": { "changed": "$$ROOT" } },
        ];
        let rows = ["$rows", "$rows0", "$rows1", "$rows2"];
        expected.extend([
            doc! { "$lookup": { "from": "review", "pipeline": pipeline.to_vec(), "as": "rows2" } },
            doc! { "$project": { "rows": { "$concatArrays": rows.to_vec() } } },
            doc! { "$unwind": "$rows" },
            doc! { "$replaceWith": "$rows" },
        ]);
        assert_eq!(stages, expected);
    }
}
