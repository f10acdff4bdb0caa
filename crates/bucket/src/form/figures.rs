//! The figures of a bucket: sums, extremes and counts of its items.
//!
//! # Design
//!
//! ## Why does each field have a count of its own?
//!
//! A program that does not know of the figures appends an item without them, and changes the count of the bucket only. So
//! the figures of a field are of all items only if both counts are equal. Otherwise reads take the items themselves. A
//! change of an item that cannot compute the figures sets their counts to [`MARK`].
//!
//! ## Why must every item have a number?
//!
//! The upsert of an append cannot skip a value: `$inc` fails for a text, and `$min` keeps it. So the item is checked before
//! it is sent.

use std::cmp::Ordering;

use mongo_patterns_core::number::{Number, Sum};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use crate::form::item_id::ItemId;
use crate::settings::figures::{Figure, Figures};

/// The count of figures that are not current. No number of appends raises it above zero, so the TTL index, over buckets with
/// a positive count, does not contain the bucket.
pub(crate) const MARK: i32 = i32::MIN;

/// The names of the figures of a field, as they are stored.
pub(crate) const COUNT: &str = "count";
pub(crate) const COUNTS: &str = "counts";
pub(crate) const FIRST: &str = "first";
pub(crate) const LAST: &str = "last";
pub(crate) const MAX: &str = "max";
pub(crate) const MIN: &str = "min";
pub(crate) const SUM: &str = "sum";

/// A value that is counted, equal to values that the server takes for equal.
#[derive(PartialEq)]
enum Label {
    Id(ItemId),
    Bool(bool),
}

impl Figures {
    pub(crate) fn check(&self, page_size: u32, item: RawBsonRef<'_>) -> Result<()> {
        let mut figures = self.fields.iter();
        figures.try_for_each(|figure| figure.check(page_size, value_of(item, figure)))
    }

    /// Returns whether an item has a valid value in each field with figures, apart from times.
    pub(crate) fn are_of(&self, item: RawBsonRef<'_>) -> bool {
        self.fields.iter().all(|figure| {
            let value = value_of(item, figure);
            (!figure.counts || value.and_then(Label::from_stored).is_some())
                && (!figure.is_of_numbers() || value.and_then(Number::of).is_some())
        })
    }

    /// Computes the figures of the items of a bucket. Invalid values are left out.
    pub(crate) fn compute<'v>(&self, items: &(impl Iterator<Item = RawBsonRef<'v>> + Clone)) -> Document {
        let figures = self.fields.iter();
        figures
            .map(|figure| (figure.field.as_str().to_owned(), figure.compute(items).into()))
            .collect()
    }

    /// Returns whether stored figures are the figures of the items of their bucket.
    pub(crate) fn match_items<'v>(
        &self,
        stored: Option<RawBsonRef<'_>>,
        items: &(impl Iterator<Item = RawBsonRef<'v>> + Clone),
    ) -> bool {
        let Some(stored) = stored.and_then(RawBsonRef::as_document) else {
            return false;
        };
        self.fields.iter().all(|figure| {
            let stored = stored.get(figure.field.as_str()).ok().flatten();
            let stored = stored.and_then(RawBsonRef::as_document);
            stored.is_some_and(|stored| figure.matches(stored, items))
        })
    }
}

impl Figure {
    /// Checks a value that is to be stored in the field.
    pub(crate) fn check(&self, page_size: u32, value: Option<RawBsonRef<'_>>) -> Result<()> {
        if self.times && value.is_none_or(|value| value.as_datetime().is_none()) {
            return Err(self.invalid("no BSON date"));
        }
        if self.counts && value.and_then(Label::from_stored).is_none() {
            return Err(self.invalid("no string, bool, integer, ObjectId, date or binary data"));
        }
        if !self.is_of_numbers() {
            return Ok(());
        }
        match value.and_then(Number::of) {
            None => Err(self.invalid("no finite number")),
            Some(number) if self.sum && !number.can_be_added(page_size) => {
                Err(self.invalid("a number so large that the sum of a page could overflow"))
            }
            Some(_) => Ok(()),
        }
    }

    fn invalid(&self, what: &str) -> Error {
        let kind = if self.times {
            ErrorKind::InvalidTime
        } else {
            ErrorKind::InvalidArgument
        };
        let field = &self.field;
        let message = format!(
            "the item would have {what} in its field `{field}`, of which buckets have figures, nothing was stored: set the field to another value"
        );
        Error::new(kind, message)
    }

    fn compute<'v>(&self, items: &(impl Iterator<Item = RawBsonRef<'v>> + Clone)) -> Document {
        let values = || items.clone().filter_map(|item| value_of(item, self));
        let mut figures = doc! { COUNT: i32::try_from(items.clone().count()).unwrap_or(i32::MAX) };
        if self.counts {
            figures.insert(COUNTS, counts(values()));
        }
        if self.times {
            let times = || values().filter_map(RawBsonRef::as_datetime);
            figures.insert(FIRST, times().min());
            figures.insert(LAST, times().max());
        }
        let extreme = |wanted: Ordering| {
            let better = |best: Number, number: Number| if number.compare(best) == wanted { number } else { best };
            values().filter_map(Number::of).reduce(better).map(Number::to_bson)
        };
        if self.max {
            figures.insert(MAX, extreme(Ordering::Greater));
        }
        if self.min {
            figures.insert(MIN, extreme(Ordering::Less));
        }
        if self.sum {
            figures.insert(SUM, sum(values()).to_bson());
        }
        figures
    }

    fn matches<'v>(&self, stored: &RawDocument, items: &(impl Iterator<Item = RawBsonRef<'v>> + Clone)) -> bool {
        let expected = self.compute(items);
        expected.iter().all(|(name, expected)| {
            let Some(stored) = stored.get(name.as_str()).ok().flatten() else {
                return false;
            };
            let values = items.clone().filter_map(|item| value_of(item, self));
            match name.as_str() {
                SUM => sum(values).is(stored),
                COUNTS => Bson::try_from(stored).is_ok_and(|stored| same_counts(&stored, expected)),
                _ => same(stored, expected),
            }
        })
    }
}

impl Label {
    fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        match value {
            RawBsonRef::Boolean(value) => Some(Self::Bool(value)),
            RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => None,
            value => ItemId::from_stored(value).map(Self::Id),
        }
    }
}

fn value_of<'v>(item: RawBsonRef<'v>, figure: &Figure) -> Option<RawBsonRef<'v>> {
    item.as_document()?.get(figure.field.as_str()).ok().flatten()
}

fn sum<'v>(values: impl Iterator<Item = RawBsonRef<'v>>) -> Sum {
    let mut sum = Sum::default();
    values.filter_map(Number::of).for_each(|number| sum.add(number));
    sum
}

/// Counts values, in the order in which they first occur.
fn counts<'v>(values: impl Iterator<Item = RawBsonRef<'v>>) -> Vec<Document> {
    let mut counts: Vec<(Label, Bson, i32)> = Vec::new();
    for value in values {
        let (Some(label), Ok(value)) = (Label::from_stored(value), Bson::try_from(value)) else {
            continue;
        };
        match counts.iter_mut().find(|(counted, ..)| *counted == label) {
            Some((.., count)) => *count += 1,
            None => counts.push((label, value, 1)),
        }
    }
    let counts = counts.into_iter();
    counts
        .map(|(_, value, count)| doc! { "value": value, "count": count })
        .collect()
}

fn same(stored: RawBsonRef<'_>, expected: &Bson) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(value) => Some(Number::Int32(*value)),
        Bson::Int64(value) => Some(Number::Int64(*value)),
        Bson::Double(value) => Some(Number::Double(*value)),
        Bson::Decimal128(value) => Some(Number::Decimal128(*value)),
        _ => None,
    };
    match (Number::of(stored), number(expected)) {
        (Some(stored), Some(expected)) => stored.compare(expected) == Ordering::Equal,
        _ => Bson::try_from(stored).is_ok_and(|stored| stored == *expected),
    }
}

/// Returns whether two lists of counts are equal, where the width of an integer does not matter.
fn same_counts(stored: &Bson, expected: &Bson) -> bool {
    let plain = |value: &Bson| match value {
        Bson::Int32(number) => Bson::Int64((*number).into()),
        other => other.clone(),
    };
    let counts = |value: &Bson| -> Option<Vec<Option<(Bson, Bson)>>> {
        let pair = |count: &Bson| {
            let count = count.as_document().filter(|count| count.len() == 2)?;
            Some((plain(count.get("value")?), plain(count.get("count")?)))
        };
        value.as_array().map(|counts| counts.iter().map(pair).collect())
    };
    counts(stored) == counts(expected)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::settings::with_figures;
    use mongodb::bson::DateTime;

    fn computed(items: &[RawDocumentBuf]) -> Document {
        let settings = with_figures(&["qty"], &["ticker"], true);
        let items = items.iter().map(|item| RawBsonRef::Document(item));
        settings.figures.as_ref().unwrap().compute(&items)
    }

    #[test]
    fn figures_are_those_of_the_items() {
        let date = |millis| DateTime::from_millis(millis);
        let items = [
            rawdoc! { "qty": 5, "ticker": "a", "date": date(7) },
            rawdoc! { "qty": -2_i64, "ticker": 1, "date": date(3) },
            rawdoc! { "qty": 0.5, "ticker": 1_i64, "date": date(5) },
            // Invalid values are left out.
            rawdoc! { "qty": "x", "ticker": 0.5, "date": 5 },
            rawdoc! {},
        ];
        let counts = vec![doc! { "value": "a", "count": 1 }, doc! { "value": 1, "count": 2 }];
        let expected = doc! {
            "date": { "count": 5, "first": date(3), "last": date(7) },
            "qty": { "count": 5, "max": 5, "min": -2_i64, "sum": 3.5 },
            "ticker": { "count": 5, "counts": counts },
        };
        assert_eq!(computed(&items), expected);
        let none = doc! {
            "date": { "count": 0, "first": null, "last": null },
            "qty": { "count": 0, "max": null, "min": null, "sum": 0 },
            "ticker": { "count": 0, "counts": [] },
        };
        assert_eq!(computed(&[]), none);
    }

    #[test]
    fn figures_of_other_items_do_not_match() {
        let settings = with_figures(&["qty"], &["ticker"], true);
        let figures = settings.figures.as_ref().unwrap();
        let item = rawdoc! { "qty": 5, "ticker": "a", "date": DateTime::from_millis(7) };
        let matches = |stored: &Document| {
            let stored = RawDocumentBuf::try_from(stored).unwrap();
            figures.match_items(
                Some(RawBsonRef::Document(&stored)),
                &[RawBsonRef::Document(&item)].into_iter(),
            )
        };
        let correct = computed(std::slice::from_ref(&item));
        assert!(matches(&correct));
        for field in ["date", "qty", "ticker"] {
            for name in correct.get_document(field).unwrap().keys() {
                let mut wrong = correct.clone();
                wrong.get_document_mut(field).unwrap().insert(name, 9);
                assert!(!matches(&wrong), "{wrong}");
                wrong.get_document_mut(field).unwrap().remove(name);
                assert!(!matches(&wrong), "{wrong}");
            }
        }
        let mut same = correct.clone();
        same.get_document_mut("qty").unwrap().insert("sum", 5.0);
        same.get_document_mut("qty").unwrap().insert("mean", 5.0);
        assert!(matches(&same));
        assert!(!figures.match_items(None, &std::iter::empty()));
    }
}
