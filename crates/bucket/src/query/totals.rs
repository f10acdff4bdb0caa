//! The pipeline that adds the figures of the buckets of a key.

use mongo_patterns_core::EncodedKey;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::form::figures::{COUNT, COUNTS, FIRST, LAST, MAX, MIN, SUM};
use crate::query::buckets::buckets_of_range;
use crate::query::figures::{are_current, figures_of, items, path};
use crate::query::range::items_between;
use crate::settings::Settings;
use crate::settings::figures::{Figure, Figures};
use crate::settings::window::TimeUnit;

/// A range of time: its first time, and the first after it.
pub(crate) type Range = (Option<DateTime>, Option<DateTime>);

/// The figures of a bucket, and the number of their items.
const FIGURES: &str = "f";
const ITEMS: &str = "n";
/// The start of a period, and in a row of a counted value the position of the figure, the value and its number of items.
pub(crate) const PERIOD: &str = "p";
pub(crate) const FIGURE: &str = "i";
pub(crate) const VALUE: &str = "v";
const COUNTED: &str = "c";

/// Adds the figures of all buckets of a key, or of their items in a range. Buckets with figures of another number of items,
/// or at an end of the range, contribute the figures of their items.
pub(crate) fn totals(settings: &Settings, figures: &Figures, key: &EncodedKey, range: Option<Range>) -> Vec<Document> {
    let mut stages = buckets(settings, figures, key, range);
    let is_current = are_current(figures, count(settings));
    let (all, is_whole) = match range.zip(figures.times()) {
        None => (items(settings), is_current),
        Some((range, times)) => {
            let is_whole = doc! { "$and": [is_current, is_within(figures, times, range)] };
            (of_range(settings, range), is_whole)
        }
    };
    let read = doc! { ITEMS: { "$size": &all }, FIGURES: figures_of(figures, &all) };
    let stored = doc! { ITEMS: count(settings), FIGURES: format!("${}", figures.field) };
    stages.push(doc! { "$replaceWith": { "$cond": [is_whole, stored, read] } });
    stages.extend(added(figures));
    stages
}

/// Adds the figures of each period, in order: a row, and then one for each counted value. A bucket with items of several
/// periods, or at an end of the range, contributes the figures of its items.
pub(crate) fn totals_by(
    settings: &Settings,
    figures: &Figures,
    key: &EncodedKey,
    range: Option<Range>,
    unit: TimeUnit,
) -> Vec<Document> {
    let mut stages = buckets(settings, figures, key, range);
    let (Some(times), Some(time)) = (figures.times(), &settings.time) else {
        return stages;
    };
    let range = range.unwrap_or_default();
    let [first, last] = [FIRST, LAST].map(|part| period(&path(figures, times, part), unit));
    let is_whole = doc! { "$and": [
        are_current(figures, count(settings)),
        is_within(figures, times, range),
        { "$eq": [&first, last] },
    ] };
    let stored = doc! { PERIOD: first, ITEMS: count(settings), FIGURES: format!("${}", figures.field) };
    let of_item = period(&format!("$$this.{time}"), unit);
    let part = doc! { "$filter": { "input": "$$all", "cond": { "$eq": [&of_item, "$$period"] } } };
    let of_part = doc! {
        PERIOD: "$$period",
        ITEMS: { "$size": "$$part" },
        FIGURES: figures_of(figures, &"$$part".into()),
    };
    let read = doc! { "$let": { "vars": { "all": of_range(settings, range) }, "in": { "$map": {
        "input": { "$setUnion": [{ "$map": { "input": "$$all", "in": of_item } }] },
        "as": "period",
        "in": { "$let": { "vars": { "part": part }, "in": of_part } },
    } } } };
    stages.extend(each(doc! { "$cond": [is_whole, [stored], read] }));
    if figures.need_pipeline() {
        let mut rows = vec![Bson::from(vec!["$$ROOT"])];
        for (position, figure) in figures.fields.iter().enumerate().filter(|(_, figure)| figure.counts) {
            let of_value = doc! {
                PERIOD: format!("${PERIOD}"),
                FIGURE: { "$literal": i32::try_from(position).unwrap_or(i32::MAX) },
                VALUE: "$$this.value",
                COUNTED: format!("$$this.{COUNT}"),
            };
            let counts = part_path(figure, COUNTS);
            let counts = doc! { "$cond": [{ "$isArray": [&counts] }, &counts, []] };
            rows.push(doc! { "$map": { "input": counts, "in": of_value } }.into());
        }
        stages.extend(each(doc! { "$concatArrays": rows }));
    }
    let mut group = sums(figures);
    group.insert(
        "_id",
        doc! { PERIOD: format!("${PERIOD}"), FIGURE: format!("${FIGURE}"), VALUE: format!("${VALUE}") },
    );
    group.insert("n", doc! { "$sum": format!("${COUNTED}") });
    stages.extend([
        doc! { "$group": group },
        doc! { "$sort": {
            format!("_id.{PERIOD}"): 1,
            format!("_id.{FIGURE}"): 1,
            "n": -1,
            format!("_id.{VALUE}"): 1,
        } },
    ]);
    stages
}

/// Returns stages that return each document of an array.
fn each(array: Document) -> [Document; 3] {
    [
        doc! { "$project": { "_id": 0, "rows": array } },
        doc! { "$unwind": "$rows" },
        doc! { "$replaceWith": "$rows" },
    ]
}

/// Returns the start of the period of a time, as an expression; null for another value.
fn period(time: &str, unit: TimeUnit) -> Document {
    let date = doc! { "$cond": [{ "$eq": [{ "$type": time }, "date"] }, time, null] };
    doc! { "$dateTrunc": { "date": date, "unit": unit.name() } }
}

/// Selects the buckets of a key that can have items of a range.
fn buckets(settings: &Settings, figures: &Figures, key: &EncodedKey, range: Option<Range>) -> Vec<Document> {
    let (from, until) = range.unwrap_or_default();
    let mut stages = vec![doc! { "$match": buckets_of_range(settings, key, from, until) }];
    if let Some((range, times)) = range.zip(figures.times()) {
        stages.push(doc! { "$match": { "$expr": { "$or": [
            { "$not": [are_current(figures, count(settings))] },
            overlaps(figures, times, range),
        ] } } });
    }
    stages
}

fn count(settings: &Settings) -> String {
    format!("${}", settings.count)
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

/// Adds the figures of documents. Counts by value are beside the `all` other totals.
fn added(figures: &Figures) -> Vec<Document> {
    let mut group = doc! { "_id": null };
    group.extend(sums(figures));
    let group = doc! { "$group": group };
    if !figures.need_pipeline() {
        return vec![group];
    }
    let mut facets = doc! { "all": [group] };
    for (position, figure) in figures.fields.iter().enumerate().filter(|(_, figure)| figure.counts) {
        let counts = part_path(figure, COUNTS);
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

/// Returns the path of a figure in a document with the figures of a bucket, or of a part of it.
fn part_path(figure: &Figure, name: &str) -> String {
    format!("${FIGURES}.{}.{name}", figure.field)
}

/// Returns the fields of a `$group` that add all figures but the counts by value.
fn sums(figures: &Figures) -> Document {
    let mut group = doc! { "items": { "$sum": format!("${ITEMS}") } };
    for (position, figure) in figures.fields.iter().enumerate() {
        let parts = [
            (figure.sum, SUM, "$sum"),
            (figure.min, MIN, "$min"),
            (figure.max, MAX, "$max"),
            (figure.times, FIRST, "$min"),
            (figure.times, LAST, "$max"),
        ];
        for (_, part, operator) in parts.into_iter().filter(|(is_kept, ..)| *is_kept) {
            group.insert(name(position, part), doc! { operator: part_path(figure, part) });
        }
    }
    group
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
    fn totals_by_time_take_the_items_of_buckets_with_several_periods() {
        let settings = with_figures(&["qty"], &["ticker"], true);
        let figures = settings.figures.as_ref().unwrap();
        let stages = totals_by(&settings, figures, &key(), None, TimeUnit::Month);
        let rows = stages[1]
            .get_document("$project")
            .unwrap()
            .get_document("rows")
            .unwrap();
        let chosen = rows.get_array("$cond").unwrap();
        let period = |time: &str| {
            let date = doc! { "$cond": [{ "$eq": [{ "$type": time }, "date"] }, time, null] };
            doc! { "$dateTrunc": { "date": date, "unit": "month" } }
        };
        let [first, last] = ["$figures.date.first", "$figures.date.last"].map(period);
        let is_whole = doc! { "$and": [
            are_current(figures, "$count"),
            { "$and": [] },
            { "$eq": [&first, last] },
        ] };
        assert_eq!(chosen[0], is_whole.into());
        assert_eq!(
            chosen[1],
            vec![doc! { "p": first, "n": "$count", "f": "$figures" }].into()
        );
        let group = stages[7].get_document("$group").unwrap();
        assert_eq!(
            group.get_document("_id").unwrap(),
            &doc! { "p": "$p", "i": "$i", "v": "$v" }
        );
        assert_eq!(group.get_document("sum1").unwrap(), &doc! { "$sum": "$f.qty.sum" });
        assert_eq!(
            stages[8],
            doc! { "$sort": { "_id.p": 1, "_id.i": 1, "n": -1, "_id.v": 1 } }
        );
        // Without counts by value, each part is a row.
        let settings = with_figures(&["qty"], &[], true);
        let figures = settings.figures.as_ref().unwrap();
        assert_eq!(totals_by(&settings, figures, &key(), None, TimeUnit::Day).len(), 6);
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
