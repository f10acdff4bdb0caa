//! The pipeline that adds the figures of the buckets of a key.

use crate::form::figures::{COUNT, COUNTS, FIRST, LAST, MAX, MIN, SUM};
use crate::prelude::*;
use crate::query::buckets::buckets_of_range;
use crate::query::figures::{are_current, figures_of, items, path};
use crate::query::range::items_between;
use crate::settings::Settings;
use crate::settings::figures::{Figure, Figures};

/// A range of time: its first time, and the first after it.
pub(crate) type Range = (Option<DateTime>, Option<DateTime>);

/// The figures of a bucket, and the number of their items.
const FIGURES: &str = "f";
const ITEMS: &str = "n";

/// Adds the figures of all buckets of a key, or of their items in a range. Buckets whose figures are not those of all
/// items, and those at an end of the range, contribute the figures of their items.
pub(crate) fn totals(settings: &Settings, figures: &Figures, key: &EncodedKey, range: Option<Range>) -> Vec<Document> {
    let (from, until) = range.unwrap_or_default();
    let mut stages = vec![doc! { "$match": buckets_of_range(settings, key, from, until) }];
    let count = format!("${}", settings.count);
    let is_current = are_current(figures, count.as_str());
    let (all, is_whole) = match range.zip(figures.times()) {
        None => (items(settings), is_current),
        Some((range, times)) => {
            stages.push(doc! { "$match": { "$expr": { "$or": [
                { "$not": [&is_current] },
                overlaps(figures, times, range),
            ] } } });
            let is_whole = doc! { "$and": [&is_current, is_within(figures, times, range)] };
            (of_range(settings, range), is_whole)
        }
    };
    let read = doc! { ITEMS: { "$size": &all }, FIGURES: figures_of(figures, &all) };
    let stored = doc! { ITEMS: count, FIGURES: format!("${}", figures.field) };
    stages.push(doc! { "$replaceWith": { "$cond": [is_whole, stored, read] } });
    stages.extend(added(figures));
    stages
}

/// Returns the items of a range, as an expression: none if they are not an array.
fn of_range(settings: &Settings, (from, until): Range) -> Bson {
    let is_array = doc! { "$isArray": [format!("${}", settings.items)] };
    doc! { "$cond": [is_array, items_between(settings, from, until), []] }.into()
}

/// Returns whether all times of a bucket are in a range, as an expression.
fn is_within(figures: &Figures, times: &Figure, (from, until): Range) -> Document {
    let from = from.map(|from| doc! { "$gte": [path(figures, times, FIRST), from] });
    let until = until.map(|until| doc! { "$lt": [path(figures, times, LAST), until] });
    doc! { "$and": from.into_iter().chain(until).collect::<Vec<_>>() }
}

/// Returns whether some times of a bucket can be in a range, as an expression.
fn overlaps(figures: &Figures, times: &Figure, (from, until): Range) -> Document {
    let from = from.map(|from| doc! { "$gte": [path(figures, times, LAST), from] });
    let until = until.map(|until| doc! { "$lt": [path(figures, times, FIRST), until] });
    doc! { "$and": from.into_iter().chain(until).collect::<Vec<_>>() }
}

/// Returns the name of a total in the result. The names of the user's fields are not used.
pub(crate) fn name(position: usize, name: &str) -> String {
    format!("{name}{position}")
}

/// Adds the figures of documents. With counts by value, the result has them beside the `all` other totals.
fn added(figures: &Figures) -> Vec<Document> {
    let path = |figure: &Figure, name: &str| format!("${FIGURES}.{}.{name}", figure.field);
    let mut group = doc! { "_id": null, "items": { "$sum": format!("${ITEMS}") } };
    for (position, figure) in figures.of.iter().enumerate() {
        let parts = [
            (figure.sum, SUM, "$sum"),
            (figure.min, MIN, "$min"),
            (figure.max, MAX, "$max"),
            (figure.times, FIRST, "$min"),
            (figure.times, LAST, "$max"),
        ];
        for (_, part, operator) in parts.into_iter().filter(|(is_kept, ..)| *is_kept) {
            group.insert(name(position, part), doc! { operator: path(figure, part) });
        }
    }
    let group = doc! { "$group": group };
    if !figures.need_pipeline() {
        return vec![group];
    }
    let mut facets = doc! { "all": [group] };
    for (position, figure) in figures.of.iter().enumerate().filter(|(_, figure)| figure.counts) {
        let counts = path(figure, COUNTS);
        let of_value = doc! { "_id": format!("{counts}.value"), "n": { "$sum": format!("{counts}.{COUNT}") } };
        facets.insert(
            name(position, COUNTS),
            [
                doc! { "$unwind": counts },
                doc! { "$group": of_value },
                doc! { "$sort": { "n": -1, "_id": 1 } },
            ]
            .as_slice(),
        );
    }
    vec![doc! { "$facet": facets }]
}

/// Filters the buckets whose items are an array, to compute their figures.
pub(crate) fn with_items(settings: &Settings) -> Document {
    doc! { "$expr": { "$isArray": [format!("${}", settings.items)] } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::tests::{key, regex};
    use crate::settings::{with_figures, with_windows};

    #[test]
    fn totals_take_the_items_only_where_the_figures_are_not_current() {
        let settings = with_figures(&["qty"], &[], false);
        let figures = settings.figures.as_ref().unwrap();
        let stages = totals(&settings, figures, &key(), None);
        let read = doc! { "n": { "$size": items(&settings) }, "f": figures_of(figures, &items(&settings)) };
        let stored = doc! { "n": "$count", "f": "$figures" };
        let current = doc! { "$and": [{ "$eq": ["$figures.qty.count", "$count"] }] };
        let expected = [
            doc! { "$match": { "_id": regex("^123_"), "customerId": 123 } },
            doc! { "$replaceWith": { "$cond": [current, stored, read] } },
            doc! { "$group": {
                "_id": null,
                "items": { "$sum": "$n" },
                "sum0": { "$sum": "$f.qty.sum" },
                "min0": { "$min": "$f.qty.min" },
                "max0": { "$max": "$f.qty.max" },
            } },
        ];
        assert_eq!(stages, expected);
    }

    #[test]
    fn a_range_reads_the_buckets_of_its_windows() {
        let settings = Settings {
            windows: with_windows().windows,
            ..with_figures(&["qty"], &[], true)
        };
        let figures = settings.figures.as_ref().unwrap();
        let [from, until] = [1_698_335_223_000, 1_698_336_000_000].map(DateTime::from_millis);
        let of_range = totals(&settings, figures, &key(), Some((Some(from), Some(until))));
        let ids = doc! { "$gte": "123_1698332400", "$lt": "123_1698335999`" };
        assert_eq!(of_range[0], doc! { "$match": { "_id": ids, "customerId": 123 } });
        let all = totals(&settings, figures, &key(), None);
        let ids = doc! { "$gte": "123_", "$lt": "123`" };
        assert_eq!(all[0], doc! { "$match": { "_id": ids, "customerId": 123 } });
    }

    #[test]
    fn a_range_takes_the_items_of_the_buckets_at_its_ends() {
        let settings = with_figures(&["qty"], &["ticker"], true);
        let figures = settings.figures.as_ref().unwrap();
        let [from, until] = [5, 9].map(DateTime::from_millis);
        let stages = totals(&settings, figures, &key(), Some((Some(from), Some(until))));
        let current = are_current(figures, "$count");
        let overlaps = doc! { "$and": [
            { "$gte": ["$figures.date.last", from] },
            { "$lt": ["$figures.date.first", until] },
        ] };
        let filter = doc! { "$expr": { "$or": [{ "$not": [&current] }, overlaps] } };
        assert_eq!(stages[1], doc! { "$match": filter });
        let within = doc! { "$and": [
            { "$gte": ["$figures.date.first", from] },
            { "$lt": ["$figures.date.last", until] },
        ] };
        let chosen = stages[2]
            .get_document("$replaceWith")
            .unwrap()
            .get_array("$cond")
            .unwrap();
        assert_eq!(chosen[0], doc! { "$and": [current, within] }.into());
        let facets = stages[3].get_document("$facet").unwrap();
        assert_eq!(facets.keys().collect::<Vec<_>>(), ["all", "counts2"]);
    }
}
