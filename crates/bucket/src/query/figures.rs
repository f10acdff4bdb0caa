//! The figures of a bucket in updates and as expressions.

use mongo_patterns_core::number::TOLERANCE;
use mongodb::bson::{Bson, Decimal128, Document, doc};

use crate::form::figures::{COUNT, COUNTS, FIRST, LAST, MARK, MAX, MIN, SUM};
use crate::settings::Settings;
use crate::settings::figures::{Figure, Figures};

/// The types of values that are counted.
const LABELS: [&str; 7] = ["string", "bool", "int", "long", "objectId", "date", "binData"];

/// Adds an item to the figures, in the update that appends it.
pub(crate) fn count_item(update: &mut Document, figures: &Figures, item: &Bson) {
    let Some(item) = item.as_document() else { return };
    let mut add = |operator: &str, figure: &Figure, name: &str, value: Bson| {
        let path = format!("{}.{}.{name}", figures.field, figure.field);
        match update.get_document_mut(operator) {
            Ok(fields) => drop(fields.insert(path, value)),
            Err(_) => drop(update.insert(operator, doc! { path: value })),
        }
    };
    for figure in &figures.fields {
        let Some(value) = item.get(figure.field.as_str()) else {
            continue;
        };
        add("$inc", figure, COUNT, 1.into());
        let parts = [
            (figure.sum, "$inc", SUM),
            (figure.min, "$min", MIN),
            (figure.max, "$max", MAX),
            (figure.times, "$min", FIRST),
            (figure.times, "$max", LAST),
        ];
        for (_, operator, name) in parts.into_iter().filter(|(is_kept, ..)| *is_kept) {
            add(operator, figure, name, value.clone());
        }
    }
}

/// Marks the figures as not current, in an update that changes an item.
pub(crate) fn marked(figures: &Figures, mut update: Document) -> Document {
    let marks = figures.fields.iter();
    let marks = marks.map(|figure| (format!("{}.{}.{COUNT}", figures.field, figure.field), MARK.into()));
    match update.get_document_mut("$set") {
        Ok(set) => set.extend(marks),
        Err(_) => drop(update.insert("$set", Document::from_iter(marks))),
    }
    update
}

/// Returns the stage that computes the figures of a bucket from its items, after they have changed. None without figures.
pub(crate) fn recomputed(settings: &Settings) -> Option<Document> {
    let figures = settings.figures.as_ref()?;
    let computed = figures_of(figures, &items(settings));
    // A plain document would be set field by field, also in each element of an array.
    Some(doc! { "$set": { figures.field.as_str(): { "$mergeObjects": [computed] } } })
}

/// Matches the buckets whose figures are not those that [`recomputed`] stores.
pub(crate) fn outdated(settings: &Settings, recomputed: &Document) -> Document {
    let Ok(set) = recomputed.get_document("$set") else {
        return Document::new();
    };
    let differs = set
        .iter()
        .map(|(field, figures)| doc! { "$ne": [format!("${field}"), figures] });
    let mut conditions = vec![doc! { "$isArray": [format!("${}", settings.items)] }];
    conditions.extend(differs);
    doc! { "$expr": { "$and": conditions } }
}

/// Returns the items of a bucket, as an expression: none if they are not an array.
pub(crate) fn items(settings: &Settings) -> Bson {
    let items = format!("${}", settings.items);
    doc! { "$cond": [{ "$isArray": [&items] }, &items, []] }.into()
}

/// Returns the figures of an array of items, as an expression. Invalid values are left out.
pub(crate) fn figures_of(figures: &Figures, items: &Bson) -> Document {
    let fields = figures.fields.iter();
    fields
        .map(|figure| (figure.field.as_str().to_owned(), figure_of(figure, items).into()))
        .collect()
}

fn figure_of(figure: &Figure, items: &Bson) -> Document {
    let mut computed = doc! { COUNT: { "$size": items.clone() } };
    if figure.counts {
        computed.insert(COUNTS, counts(labels(figure, items)));
    }
    if figure.times {
        computed.insert(FIRST, doc! { "$min": [times(figure, items)] });
        computed.insert(LAST, doc! { "$max": [times(figure, items)] });
    }
    if figure.max {
        computed.insert(MAX, doc! { "$max": [numbers(figure, items)] });
    }
    if figure.min {
        computed.insert(MIN, doc! { "$min": [numbers(figure, items)] });
    }
    if figure.sum {
        computed.insert(SUM, doc! { "$sum": [numbers(figure, items)] });
    }
    computed
}

/// Returns the values of a field of the items that meet a condition.
fn values(figure: &Figure, items: &Bson, condition: Document) -> Document {
    let value = format!("$$this.{}", figure.field);
    let values = doc! { "$map": { "input": items.clone(), "in": value } };
    doc! { "$filter": { "input": values, "cond": condition } }
}

fn numbers(figure: &Figure, items: &Bson) -> Document {
    values(figure, items, is_number("$$this"))
}

fn times(figure: &Figure, items: &Bson) -> Document {
    values(figure, items, doc! { "$eq": [{ "$type": "$$this" }, "date"] })
}

fn labels(figure: &Figure, items: &Bson) -> Document {
    values(figure, items, is_label("$$this"))
}

/// NaN is below all numbers.
fn is_number(value: &str) -> Document {
    doc! { "$and": [
        { "$isNumber": value },
        { "$gt": [value, f64::NEG_INFINITY] },
        { "$lt": [value, f64::INFINITY] },
    ] }
}

fn is_label(value: &str) -> Document {
    doc! { "$in": [{ "$type": value }, LABELS.as_slice()] }
}

/// Counts values, in the order in which they first occur.
fn counts(labels: Document) -> Document {
    let distinct = doc! { "$reduce": {
        "input": "$$all",
        "initialValue": [],
        "in": { "$cond": [
            { "$in": ["$$this", "$$value"] },
            "$$value",
            { "$concatArrays": ["$$value", ["$$this"]] },
        ] },
    } };
    let equal = doc! { "$filter": { "input": "$$all", "cond": { "$eq": ["$$this", "$$one"] } } };
    let counted = doc! { "$map": {
        "input": distinct,
        "as": "one",
        "in": { "value": "$$one", "count": { "$size": equal } },
    } };
    doc! { "$let": { "vars": { "all": labels }, "in": counted } }
}

/// Returns whether all figures of a bucket are of as many items as it has, as an expression.
pub(crate) fn are_current(figures: &Figures, count: impl Into<Bson>) -> Document {
    let count = count.into();
    let equal = |figure: &Figure| doc! { "$eq": [path(figures, figure, COUNT), count.clone()] };
    doc! { "$and": figures.fields.iter().map(equal).collect::<Vec<_>>() }
}

/// Returns the path of a stored figure, as an expression.
pub(crate) fn path(figures: &Figures, figure: &Figure, name: &str) -> String {
    format!("${}.{}.{name}", figures.field, figure.field)
}

/// Returns whether the stored figures are the figures of the items, as an expression.
pub(crate) fn are_correct(figures: &Figures, items: &Bson) -> Document {
    let mut conditions = Vec::new();
    for figure in &figures.fields {
        for (name, expected) in figure_of(figure, items) {
            let stored = path(figures, figure, &name);
            conditions.push(match name.as_str() {
                SUM => is_sum(&stored, numbers(figure, items)),
                _ => doc! { "$eq": [stored, expected] },
            });
        }
    }
    doc! { "$and": conditions }
}

/// Compares a stored sum: exactly, or almost where numbers are rounded when they are added.
fn is_sum(stored: &str, numbers: Document) -> Document {
    let difference = |a: &str, b: &str| doc! { "$subtract": [a, b] };
    let size = doc! { "$max": ["$$this", { "$multiply": ["$$this", -1] }] };
    let sizes = doc! { "$sum": [{ "$map": { "input": "$$all", "in": size } }] };
    let types = doc! { "$map": { "input": "$$all", "in": { "$type": "$$this" } } };
    let digits: Option<Decimal128> = "1E-30".parse().ok();
    let tolerance = doc! { "$switch": {
        "branches": [
            { "case": { "$in": ["double", &types] }, "then": TOLERANCE },
            { "case": { "$in": ["decimal", &types] }, "then": digits },
        ],
        "default": 0,
    } };
    let within = |difference: Document| doc! { "$lte": [difference, { "$multiply": [&sizes, &tolerance] }] };
    let almost = doc! { "$and": [
        is_number(stored),
        within(difference(stored, "$$sum")),
        within(difference("$$sum", stored)),
    ] };
    doc! { "$let": { "vars": { "all": numbers }, "in": {
        "$let": { "vars": { "sum": { "$sum": ["$$all"] } }, "in": {
            "$or": [{ "$eq": [stored, "$$sum"] }, almost],
        } },
    } } }
}

/// Returns whether an item has a valid value in each field with figures, apart from times, as an expression of the variable.
pub(crate) fn has_values(figures: &Figures, item: &str) -> Document {
    let mut conditions = Vec::new();
    for figure in &figures.fields {
        let value = format!("{item}.{}", figure.field);
        if figure.counts {
            conditions.push(is_label(&value));
        }
        if figure.is_of_numbers() {
            conditions.push(is_number(&value));
        }
    }
    doc! { "$and": conditions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::append::push;
    use crate::settings::with_figures;
    use mongodb::bson::DateTime;

    #[test]
    fn an_append_keeps_the_figures_in_its_update() {
        let settings = with_figures(&["qty"], &[], true);
        let date = DateTime::from_millis(5);
        let item = doc! { "ticker": "MDB", "qty": 419, "date": date };
        let expected = doc! {
            "$push": { "history": &item },
            "$inc": { "count": 1, "figures.date.count": 1, "figures.qty.count": 1, "figures.qty.sum": 419 },
            "$min": { "figures.date.first": date, "figures.qty.min": 419 },
            "$max": { "figures.date.last": date, "figures.qty.max": 419 },
        };
        assert_eq!(push(&settings, item.into()), expected);
    }

    #[test]
    fn figures_are_computed_from_the_items() {
        let settings = with_figures(&["qty"], &["ticker"], true);
        let figures = settings.figures.as_ref().unwrap();
        let values = |field: &str, condition: Document| {
            let values = doc! { "$map": { "input": "$i", "in": format!("$$this.{field}") } };
            doc! { "$filter": { "input": values, "cond": condition } }
        };
        let number = doc! { "$and": [
            { "$isNumber": "$$this" },
            { "$gt": ["$$this", f64::NEG_INFINITY] },
            { "$lt": ["$$this", f64::INFINITY] },
        ] };
        let numbers = values("qty", number);
        let times = values("date", doc! { "$eq": [{ "$type": "$$this" }, "date"] });
        let computed = figures_of(figures, &"$i".into());
        assert_eq!(
            computed.get_document("date").unwrap(),
            &doc! { "count": { "$size": "$i" }, "first": { "$min": [&times] }, "last": { "$max": [&times] } }
        );
        assert_eq!(
            computed.get_document("qty").unwrap(),
            &doc! {
                "count": { "$size": "$i" },
                "max": { "$max": [&numbers] },
                "min": { "$min": [&numbers] },
                "sum": { "$sum": [&numbers] },
            }
        );
        let ticker = computed.get_document("ticker").unwrap();
        assert_eq!(ticker.keys().collect::<Vec<_>>(), ["count", "counts"]);
        let stage = recomputed(&settings).unwrap();
        assert_eq!(
            stage.get_document("$set").unwrap().keys().collect::<Vec<_>>(),
            ["figures"]
        );
        assert_eq!(recomputed(&Settings::example()), None);
    }

    #[test]
    fn figures_of_other_items_than_those_of_the_bucket_are_not_current() {
        let settings = with_figures(&["qty"], &["ticker"], false);
        assert_eq!(
            are_current(settings.figures.as_ref().unwrap(), "$count"),
            doc! { "$and": [
                { "$eq": ["$figures.qty.count", "$count"] },
                { "$eq": ["$figures.ticker.count", "$count"] },
            ] }
        );
    }
}
