//! The result of `totals`.

use std::collections::BTreeMap;

use mongo_patterns_core::migration::number;
use mongodb::bson::{Bson, DateTime, Document};

use crate::form::figures::{COUNTS, FIRST, LAST, MAX, MIN, SUM};
use crate::query::totals::{FIGURE, PERIOD, VALUE, name};
use crate::settings::figures::{Figure, Figures};

/// The totals of the items of a key; returned by [`totals`](crate::BucketRepository::totals).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of the items.
    pub items: u64,
    /// The time of the earliest item. `None` without items, or without
    /// [`first_and_last`](crate::BucketRepositoryBuilder::first_and_last).
    pub first: Option<DateTime>,
    /// The time of the latest item.
    pub last: Option<DateTime>,
    fields: BTreeMap<String, Field>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Field {
    sum: Option<Bson>,
    min: Option<Bson>,
    max: Option<Bson>,
    counts: Vec<(Bson, u64)>,
}

impl Totals {
    /// Returns the sum of a field. `None` if the repository keeps no sum of it, or there are no items.
    ///
    /// It is an int32 or int64 if the field has only integers, a Decimal128 if it has one, and a double otherwise, also for
    /// integers beyond int64.
    #[must_use]
    pub fn sum(&self, field: &str) -> Option<&Bson> {
        self.fields.get(field)?.sum.as_ref()
    }

    /// Returns the least value of a field, of its own type. `None` if the repository does not keep it, or there are no
    /// items.
    #[must_use]
    pub fn min(&self, field: &str) -> Option<&Bson> {
        self.fields.get(field)?.min.as_ref()
    }

    /// Returns the greatest value of a field, of its own type. `None` if the repository does not keep it, or there are no
    /// items.
    #[must_use]
    pub fn max(&self, field: &str) -> Option<&Bson> {
        self.fields.get(field)?.max.as_ref()
    }

    /// Returns the values of a field and the number of items with each, the most frequent value first. Empty if the
    /// repository does not count the values of this field.
    #[must_use]
    pub fn counts(&self, field: &str) -> &[(Bson, u64)] {
        self.fields.get(field).map_or(&[], |field| &field.counts)
    }

    /// Creates it from the result of the pipeline.
    pub(crate) fn from_row(figures: &Figures, found: &Document) -> Self {
        let empty = Document::new();
        let all = match found.get_array("all").ok() {
            Some(all) => all.first().and_then(Bson::as_document).unwrap_or(&empty),
            None => found,
        };
        let mut totals = Self::without_counts(figures, all);
        for (position, figure) in figures.fields.iter().enumerate() {
            let counts = found.get_array(name(position, COUNTS)).ok();
            for count in counts.into_iter().flatten().filter_map(Bson::as_document) {
                totals.count(figure, count.get("_id"), number(count, "n"));
            }
        }
        totals
    }

    /// Creates the totals of each period from the rows of the pipeline: its totals, and then a row for each counted value.
    pub(crate) fn of_periods(figures: &Figures, rows: &[Document]) -> Vec<(DateTime, Self)> {
        let mut all: Vec<(DateTime, Self)> = Vec::new();
        for row in rows {
            let Ok(id) = row.get_document("_id") else { continue };
            let Ok(start) = id.get_datetime(PERIOD) else { continue };
            let figure = id.get(FIGURE).and_then(Bson::as_i32);
            let figure = figure.and_then(|position| figures.fields.get(usize::try_from(position).ok()?));
            match (figure, all.last_mut()) {
                (Some(figure), Some((_, totals))) => totals.count(figure, id.get(VALUE), number(row, "n")),
                _ => all.push((*start, Self::without_counts(figures, row))),
            }
        }
        all
    }

    fn without_counts(figures: &Figures, all: &Document) -> Self {
        let mut totals = Self {
            items: number(all, "items"),
            ..Self::default()
        };
        for (position, figure) in figures.fields.iter().enumerate() {
            let value = |part| all.get(name(position, part)).filter(|value| **value != Bson::Null);
            if figure.times {
                let time = |part| value(part).and_then(Bson::as_datetime).copied();
                (totals.first, totals.last) = (time(FIRST), time(LAST));
            }
            let field = Field {
                sum: value(SUM).filter(|_| totals.items > 0).cloned(),
                min: value(MIN).cloned(),
                max: value(MAX).cloned(),
                counts: Vec::new(),
            };
            totals.fields.insert(figure.field.as_str().to_owned(), field);
        }
        totals
    }

    fn count(&mut self, figure: &Figure, value: Option<&Bson>, items: u64) {
        if let (Some(field), Some(value)) = (self.fields.get_mut(figure.field.as_str()), value) {
            field.counts.push((value.clone(), items));
        }
    }
}
