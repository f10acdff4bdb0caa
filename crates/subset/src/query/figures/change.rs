//! Figures: their changes by one write.
//!
//! # Design
//!
//! ## Why are sums of great or inexact numbers computed from scratch?
//!
//! A change adds the new value and subtracts the old one. That is wrong for ever after a NaN or an infinity, and an overflow
//! makes a `long` a `double`.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::stored::value;
use mongodb::bson::{Bson, Document, RawDocument, doc};

use crate::query::by_id;
use crate::settings::Settings;
use crate::settings::figure::{Figure, Kind};

/// The greatest number that can be added to a sum.
const GREATEST_VALUE: i64 = 1 << 53;
/// The greatest sum that can be added to.
const GREATEST_SUM: i64 = 1 << 62;

/// The values that a write adds to a source, and removes from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValueChange {
    pub(crate) added: Vec<Bson>,
    pub(crate) removed: Vec<Bson>,
}

impl ValueChange {
    /// Returns the change by the old and the new documents of children.
    pub(crate) fn of<'d>(
        of: &FieldName,
        old: impl IntoIterator<Item = &'d RawDocument>,
        new: impl IntoIterator<Item = &'d RawDocument>,
    ) -> Self {
        let of = |child| value(child, of).filter(|value| !matches!(value, Bson::Null | Bson::Undefined));
        let mut removed: Vec<Bson> = old.into_iter().filter_map(of).collect();
        let mut added: Vec<Bson> = new.into_iter().filter_map(of).collect();
        if removed == added {
            (removed, added) = (Vec::new(), Vec::new());
        }
        Self { added, removed }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Returns whether a sum can be changed by its values.
    fn is_exact(&self) -> bool {
        self.added.iter().chain(&self.removed).all(is_exact)
    }

    /// Returns the sum after the change, as an expression.
    fn sum(&self, field: &FieldName) -> Document {
        let sum = |values: &[Bson]| {
            let numbers = values.iter().filter(|value| is_number(value)).cloned();
            doc! { "$sum": { "$literal": numbers.collect::<Vec<Bson>>() } }
        };
        let added = doc! { "$add": [format!("${field}"), sum(&self.added)] };
        match self.removed.is_empty() {
            true => added,
            false => doc! { "$subtract": [added, sum(&self.removed)] },
        }
    }

    /// Returns the counts by value after the change, as an expression.
    fn counts(&self, field: &FieldName) -> Document {
        let mut changes: Vec<(&Bson, i64)> = Vec::new();
        let added = self.added.iter().map(|value| (value, 1));
        for (value, count) in self.removed.iter().map(|value| (value, -1)).chain(added) {
            match changes.iter_mut().find(|(other, _)| *other == value) {
                Some((_, sum)) => *sum += count,
                None => changes.push((value, count)),
            }
        }
        let changes = changes.into_iter();
        let changes: Vec<Document> = changes
            .map(|(value, count)| doc! { "value": value, "count": count })
            .collect();
        // The accumulated array is sorted by value, and stays so.
        let values = |comparison: &str| {
            let is_one = doc! { comparison: ["$$one.value", "$$this.value"] };
            doc! { "$filter": { "input": "$$value", "as": "one", "cond": is_one } }
        };
        let count = doc! { "$map": { "input": values("$eq"), "as": "one", "in": "$$one.count" } };
        let count = doc! { "$add": [{ "$sum": count }, "$$this.count"] };
        let counted =
            doc! { "$cond": [{ "$gt": ["$$count", 0] }, [{ "value": "$$this.value", "count": "$$count" }], []] };
        let counted = doc! { "$let": { "vars": { "count": count }, "in": counted } };
        doc! { "$reduce": {
            "input": { "$literal": changes },
            "initialValue": format!("${field}"),
            "in": { "$concatArrays": [values("$lt"), counted, values("$gt")] },
        } }
    }
}

fn is_number(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
    )
}

/// Returns whether a value, if it is a number, is so small that adding and subtracting it leaves a sum as it was.
fn is_exact(value: &Bson) -> bool {
    match value {
        Bson::Int64(number) => number.unsigned_abs() <= GREATEST_VALUE.unsigned_abs(),
        Bson::Double(number) => number.abs() <= GREATEST_VALUE as f64,
        Bson::Decimal128(number) => {
            let text = number.to_string();
            text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
        }
        _ => true,
    }
}

/// Returns the change of the source of a figure.
fn change_of<'c>(settings: &Settings, figure: &Figure, changes: &'c [ValueChange]) -> Option<&'c ValueChange> {
    let number = settings.sources().into_iter().position(|source| *source == figure.of)?;
    changes.get(number)
}

/// Matches a parent whose figures can be changed by a write. `None` if its values cannot be added.
pub(crate) fn with_figures(settings: &Settings, parent: &Bson, changes: &[ValueChange]) -> Option<Document> {
    let mut filter = by_id(parent);
    for figure in &settings.figures {
        let condition = match figure.kind {
            Kind::Count => doc! { "$type": ["int", "long"] },
            Kind::Sum if change_of(settings, figure, changes).is_some_and(|change| !change.is_exact()) => return None,
            Kind::Sum => doc! { "$gte": -GREATEST_SUM, "$lte": GREATEST_SUM, "$not": { "$type": "array" } },
            Kind::CountBy => doc! { "$type": "array" },
            Kind::Min | Kind::Max => continue,
        };
        filter.insert(figure.field.as_str(), condition);
    }
    Some(filter)
}

/// Sets the subsets, and adds to the total of a parent that has no other figure.
pub(crate) fn set_and_add(total: &FieldName, subsets: Document, added: i64) -> Document {
    doc! { "$set": subsets, "$inc": { total.as_str(): added } }
}

/// Sets the subsets, the minima and the maxima, and changes the other figures by the added and removed values.
pub(crate) fn set_and_change(
    settings: &Settings,
    subsets: &Document,
    added: i64,
    changes: &[ValueChange],
    extremes: &[Bson],
) -> Vec<Document> {
    let literal = |value: &Bson| Bson::from(doc! { "$literal": value });
    let subsets = subsets.iter();
    let mut fields: Document = subsets
        .map(|(field, children)| (field.clone(), literal(children)))
        .collect();
    if let Some(total) = settings.total().filter(|_| added != 0) {
        fields.insert(total.as_str(), doc! { "$add": [format!("${total}"), added] });
    }
    for (figure, extreme) in settings.computed().zip(extremes) {
        let field = &figure.field;
        let change = change_of(settings, figure, changes).filter(|change| !change.is_empty());
        let changed = match (figure.kind, change) {
            (Kind::Min | Kind::Max, _) => literal(extreme),
            (Kind::Sum, Some(change)) => change.sum(field).into(),
            (Kind::CountBy, Some(change)) => change.counts(field).into(),
            _ => continue,
        };
        fields.insert(field.as_str(), changed);
    }
    vec![doc! { "$set": fields }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::figures::tests::{parent, settings};

    #[test]
    fn values_are_literal_in_a_change() {
        let hostile = Bson::from("$name");
        let changes = [
            ValueChange {
                added: vec![5.into(), hostile.clone()],
                removed: vec![4.into()],
            },
            ValueChange::default(),
        ];
        let extremes = [Bson::Null, Bson::Null, hostile.clone(), 9.into()];
        let subset = doc! { "reviews": [{ "review_id": "$name" }] };
        let values = |comparison: &str| {
            let is_one = doc! { comparison: ["$$one.value", "$$this.value"] };
            doc! { "$filter": { "input": "$$value", "as": "one", "cond": is_one } }
        };
        let count = doc! { "$sum": { "$map": { "input": values("$eq"), "as": "one", "in": "$$one.count" } } };
        let counted = doc! { "$let": {
            "vars": { "count": { "$add": [count, "$$this.count"] } },
            "in": { "$cond": [
                { "$gt": ["$$count", 0] },
                [{ "value": "$$this.value", "count": "$$count" }],
                [],
            ] },
        } };
        let stars = doc! { "$reduce": {
            "input": { "$literal": [
                { "value": 4, "count": -1_i64 },
                { "value": 5, "count": 1_i64 },
                { "value": "$name", "count": 1_i64 },
            ] },
            "initialValue": "$stars",
            "in": { "$concatArrays": [values("$lt"), counted, values("$gt")] },
        } };
        let rating_sum = doc! { "$subtract": [
            { "$add": ["$rating_sum", { "$sum": { "$literal": [5] } }] },
            { "$sum": { "$literal": [4] } },
        ] };
        assert_eq!(
            set_and_change(&settings(), &subset, 0, &changes, &extremes),
            [doc! { "$set": {
                "reviews": { "$literal": [{ "review_id": "$name" }] },
                "rating_sum": rating_sum,
                "stars": stars,
                "lowest": { "$literal": "$name" },
                "highest": { "$literal": 9 },
            } }]
        );
        let limits = doc! { "$gte": -GREATEST_SUM, "$lte": GREATEST_SUM, "$not": { "$type": "array" } };
        assert_eq!(
            with_figures(&settings(), &parent(), &changes),
            Some(doc! { "_id": { "$eq": parent() }, "rating_sum": limits, "stars": { "$type": "array" } })
        );
    }

    #[test]
    fn a_total_is_added_to() {
        let settings = Settings::example().with_total();
        let total = settings.total().unwrap();
        assert_eq!(
            set_and_add(total, doc! { "reviews": [] }, -1),
            doc! { "$set": { "reviews": [] }, "$inc": { "review_count": -1_i64 } }
        );
        assert_eq!(
            with_figures(&settings, &Bson::Int32(1), &[]),
            Some(doc! { "_id": { "$eq": 1 }, "review_count": { "$type": ["int", "long"] } })
        );
    }

    #[test]
    fn a_change_that_changes_no_value_writes_none() {
        let settings = settings().with_total();
        let child = mongodb::bson::rawdoc! { "rating": 5 };
        let change = ValueChange::of(&settings.figures[1].of, [&*child], [&*child]);
        assert_eq!(change, ValueChange::default());
        let without = mongodb::bson::rawdoc! { "rating": null };
        let change_to_none = ValueChange::of(&settings.figures[1].of, [&*child], [&*without]);
        assert_eq!((change_to_none.added, change_to_none.removed), (vec![], vec![5.into()]));
        let none = [Bson::Null, Bson::Null, Bson::Null, Bson::Null];
        let changes = [change.clone(), change];
        assert_eq!(
            set_and_change(&settings, &doc! { "reviews": [] }, 1, &changes, &none),
            [doc! { "$set": {
                "reviews": { "$literal": [] },
                "review_count": { "$add": ["$review_count", 1_i64] },
                "lowest": { "$literal": null },
                "highest": { "$literal": null },
            } }]
        );
    }

    #[test]
    fn a_sum_is_not_changed_by_numbers_that_cannot_be_subtracted_again() {
        let settings = settings();
        let is_changed = |value: Bson| {
            let change = ValueChange {
                added: vec![value],
                removed: Vec::new(),
            };
            with_figures(&settings, &parent(), &[change]).is_some()
        };
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        for exact in [
            5.into(),
            (1_i64 << 53).into(),
            Bson::Double(0.5),
            decimal("-119.99"),
            "five".into(),
        ] {
            assert!(is_changed(exact.clone()), "{exact}");
        }
        for inexact in [
            i64::MIN.into(),
            Bson::Double(f64::NAN),
            Bson::Double(f64::NEG_INFINITY),
            Bson::Double(1e300),
            decimal("NaN"),
            decimal("1E+40"),
        ] {
            assert!(!is_changed(inexact.clone()), "{inexact}");
        }
    }
}
