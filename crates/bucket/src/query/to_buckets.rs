//! The pipelines of a migration from flat documents to buckets.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::key::KeyExpressions;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::form::id::{LAST_SECOND, LAST_SUFFIX, SECOND_DIGITS, SUFFIX_DIGITS};
use crate::query::compare::{count_unless, one_unless, repeated};
use crate::query::figures::{figures_of, has_values};
use crate::query::time_format::TimeFormat;
use crate::settings::Settings;

/// A field of the pipeline, which takes the place of a field name of the user.
const KEY: &str = "$k";
/// The start of the window of a document, if there are windows.
const WINDOW: &str = "$w";

/// The reasons why documents are invalid.
const KEY_REASON: &str = "key";
const TIME_REASON: &str = "time";
const ITEM_ID_REASON: &str = "item_id";
const FIGURE_REASON: &str = "figure";

/// The form of flat documents, and of the buckets that they become.
pub(crate) struct ToBuckets<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) time: &'a FieldName,
    pub(crate) time_format: TimeFormat,
    /// The key field of a flat document.
    pub(crate) key: FieldName,
    pub(crate) keep_ids: bool,
    pub(crate) expressions: fn(&str) -> KeyExpressions,
}

impl ToBuckets<'_> {
    /// Returns the stages from flat documents to whole buckets, exactly as the repository writes them.
    pub(crate) fn pages(&self) -> Vec<Document> {
        const KEY_OF_PAGE: &str = "$_id.k";
        let Settings { key, count, items, .. } = self.settings;
        let encoded = (self.expressions)(KEY_OF_PAGE);
        let page = doc! { "$group": {
            "_id": self.page(),
            "s": { "$first": { "$floor": { "$divide": [{ "$toLong": "$o.t" }, 1000] } } },
            "i": { "$push": "$i" },
        } };
        // Pages of one key that were opened in one second are consecutive.
        let number_in_second = doc! { "$setWindowFields": {
            "partitionBy": { "k": "$_id.k", "s": "$s" },
            "sortBy": { "_id.p": 1 },
            "output": { "n": { "$documentNumber": {} } },
        } };
        let suffix = doc! { "$subtract": ["$n", 1] };
        let id = doc! { "$concat": [
            encoded.text,
            "_",
            digits("$s".into(), SECOND_DIGITS),
            { "$cond": [{ "$eq": ["$n", 1] }, "", { "$concat": ["_", digits(suffix.into(), SUFFIX_DIGITS)] }] },
        ] };
        // A document with these fields, in this order, whatever their names.
        let mut bucket = doc! { "_id": id, key.as_str(): encoded.value };
        if let Some(windows) = &self.settings.windows {
            bucket.insert(windows.field.as_str(), "$_id.w");
        }
        bucket.insert(count.as_str(), doc! { "$size": "$i" });
        bucket.insert(items.as_str(), "$i");
        if let Some(figures) = &self.settings.figures {
            bucket.insert(figures.field.as_str(), figures_of(figures, &"$i".into()));
        }
        let mut stages = self.numbered();
        stages.extend([page, number_in_second, doc! { "$replaceWith": bucket }]);
        stages
    }

    /// Counts the pages whose items exceed a limit.
    pub(crate) fn oversized_pages(&self, limit: i64) -> Vec<Document> {
        let mut stages = self.numbered();
        // An element of an array also has its type and its index.
        let bytes = doc! { "$sum": { "$add": [{ "$bsonSize": "$i" }, 12] } };
        stages.extend([
            doc! { "$group": { "_id": self.page(), "b": bytes } },
            doc! { "$match": { "b": { "$gt": limit } } },
            doc! { "$count": "n" },
        ]);
        stages
    }

    /// Returns key, window, order and item of each flat document, and its number in its key and window, from 1.
    fn numbered(&self) -> Vec<Document> {
        let mut item = without(self.key.as_str(), "$$ROOT".into());
        if !self.keep_ids {
            item = without("_id", item.into());
        }
        if self.time_format != TimeFormat::Date {
            let field = doc! { "$literal": self.time.as_str() };
            item = doc! { "$setField": { "field": field, "input": item, "value": self.date() } };
        }
        let order = doc! { "t": self.date(), "i": "$_id" };
        let mut project = doc! { "_id": 0, "k": format!("${}", self.key), "o": order, "i": item };
        let mut partition = Bson::from(KEY);
        if let Some(windows) = &self.settings.windows {
            let millis = i64::from(windows.seconds) * 1000;
            let time = self.date();
            let since_start = doc! { "$mod": [{ "$toLong": &time }, millis] };
            project.insert("w", doc! { "$subtract": [time, since_start] });
            partition = doc! { "k": KEY, "w": WINDOW }.into();
        }
        vec![
            doc! { "$project": project },
            doc! { "$setWindowFields": {
                "partitionBy": partition,
                "sortBy": { "o": 1 },
                "output": { "n": { "$documentNumber": {} } },
            } },
        ]
    }

    fn page(&self) -> Document {
        let before = doc! { "$subtract": ["$n", 1] };
        let mut page = doc! { "k": KEY };
        if self.settings.windows.is_some() {
            page.insert("w", WINDOW);
        }
        page.insert(
            "p",
            doc! { "$floor": { "$divide": [before, self.settings.page_size_bson()] } },
        );
        page
    }

    /// Counts the documents, and the documents that cannot be migrated, with the `_id` of one.
    pub(crate) fn inspection(&self) -> [Document; 1] {
        let [key, time, item_id, figure] = self.conditions();
        let mut group = doc! {
            "_id": null,
            "total": { "$sum": 1 },
            "keys": count_unless(&key),
            "key": one_unless(&key),
            "times": count_unless(&time),
            "time": one_unless(&time),
            "ids": count_unless(&item_id),
            "id": one_unless(&item_id),
            "largest": { "$max": { "$bsonSize": "$$ROOT" } },
        };
        if self.settings.figures.is_some() {
            group.insert("figures", count_unless(&figure));
            group.insert("figure", one_unless(&figure));
        }
        [doc! { "$group": group }]
    }

    /// Counts the valid documents, and the others by their reason.
    pub(crate) fn inspection_of_invalid(&self) -> Vec<Document> {
        let is = |reason: &str| doc! { "$sum": { "$cond": [{ "$eq": ["$r", reason] }, 1, 0] } };
        let mut group = doc! {
            "_id": null,
            "documents": { "$sum": 1 },
            "total": is(""),
            "keys": is(KEY_REASON),
            "times": is(TIME_REASON),
            "ids": is(ITEM_ID_REASON),
            "largest": { "$max": { "$cond": [{ "$eq": ["$r", ""] }, "$b", null] } },
        };
        if self.settings.figures.is_some() {
            group.insert("figures", is(FIGURE_REASON));
        }
        vec![
            doc! { "$project": { "_id": 0, "r": self.reason(), "b": { "$bsonSize": "$$ROOT" } } },
            doc! { "$group": group },
        ]
    }

    /// Returns an expression of the reason why a document is invalid, which is empty for a valid one.
    pub(crate) fn reason(&self) -> Bson {
        let [key, time, item_id, figure] = self.conditions();
        let unless = |condition: Bson, reason: &str, next: Bson| -> Bson {
            doc! { "$cond": [condition, next, { "$literal": reason }] }.into()
        };
        let valid: Bson = doc! { "$literal": "" }.into();
        let of_figure = match figure {
            Bson::Boolean(true) => valid,
            figure => unless(figure, FIGURE_REASON, valid),
        };
        let of_id = unless(item_id, ITEM_ID_REASON, of_figure);
        unless(key, KEY_REASON, unless(time, TIME_REASON, of_id))
    }

    pub(crate) fn valid(&self) -> Document {
        doc! { "$expr": self.is_valid() }
    }

    pub(crate) fn invalid(&self) -> Document {
        doc! { "$expr": { "$not": [self.is_valid()] } }
    }

    fn is_valid(&self) -> Document {
        let conditions = self.conditions().into_iter();
        let checked = conditions.filter(|condition| *condition != Bson::Boolean(true));
        doc! { "$and": checked.collect::<Vec<_>>() }
    }

    /// Returns whether key, time, item id and the values with figures of a document are valid, as expressions.
    fn conditions(&self) -> [Bson; 4] {
        let key = (self.expressions)(&format!("${}", self.key)).is_key;
        let time = self.date();
        let in_range = doc! { "$cond": [
            { "$eq": [{ "$type": &time }, "date"] },
            { "$and": [
                { "$gte": [&time, DateTime::from_millis(0)] },
                { "$lt": [&time, DateTime::from_millis((LAST_SECOND + 1) * 1000)] },
            ] },
            false,
        ] };
        let item_id = self.item_id().map_or(Bson::Boolean(true), |path| {
            let types = ["string", "int", "long", "objectId", "binData", "date"];
            doc! { "$in": [{ "$type": path }, types] }.into()
        });
        let figures = self.settings.figures.as_ref();
        let figure = figures.map_or(Bson::Boolean(true), |figures| has_values(figures, "$$ROOT").into());
        [key, in_range.into(), item_id, figure]
    }

    /// Counts the documents whose item id another document of the key has too.
    pub(crate) fn repeated_ids(&self) -> Option<[Document; 3]> {
        Some(repeated(doc! { "k": format!("${}", self.key), "i": self.item_id()? }))
    }

    /// Counts the documents of seconds that would open more buckets than there are suffixes.
    pub(crate) fn full_seconds(&self) -> [Document; 3] {
        let second = doc! { "$floor": { "$divide": [{ "$toLong": self.date() }, 1000] } };
        let mut stages = repeated(doc! { "k": format!("${}", self.key), "s": second });
        stages[1] = doc! { "$match": { "n": { "$gt": self.items_of_a_second() } } };
        stages
    }

    /// Returns the number of items of a second that always have free suffixes.
    pub(crate) fn items_of_a_second(&self) -> i64 {
        i64::from(LAST_SUFFIX) * i64::from(self.settings.page_size)
    }

    /// The date of a flat document, as an expression.
    fn date(&self) -> Bson {
        self.time_format.date(format!("${}", self.time))
    }

    fn item_id(&self) -> Option<String> {
        self.settings.item_id.as_ref().map(|field| format!("${field}"))
    }
}

/// Removes a field from a document. Unlike `$unset`, it does not take the name for a path.
fn without(field: &str, document: Bson) -> Document {
    doc! { "$unsetField": { "field": { "$literal": field }, "input": document } }
}

/// Formats a number from 0 as text of a fixed width.
fn digits(number: Bson, width: usize) -> Document {
    let ahead = 10_i64.pow(u32::try_from(width).unwrap_or_default());
    let width = i32::try_from(width).unwrap_or_default();
    doc! { "$substrBytes": [{ "$toString": { "$toLong": { "$add": [ahead, number] } } }, 1, width] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::with_windows;
    use mongo_patterns_core::Key;

    fn form(settings: &Settings) -> ToBuckets<'_> {
        ToBuckets {
            settings,
            time: settings.time.as_ref().unwrap(),
            time_format: TimeFormat::Date,
            key: settings.key.clone(),
            keep_ids: false,
            expressions: u32::expressions,
        }
    }

    #[test]
    fn the_pipeline_returns_buckets_of_the_manuals_form() {
        let settings = Settings::example();
        let stages = form(&settings).pages();
        let item = doc! { "$unsetField": {
            "field": { "$literal": "_id" },
            "input": { "$unsetField": { "field": { "$literal": "customerId" }, "input": "$$ROOT" } },
        } };
        let expected = [
            doc! { "$project": { "_id": 0, "k": "$customerId", "o": { "t": "$date", "i": "$_id" }, "i": item } },
            doc! { "$setWindowFields": {
                "partitionBy": "$k",
                "sortBy": { "o": 1 },
                "output": { "n": { "$documentNumber": {} } },
            } },
            doc! { "$group": {
                "_id": { "k": "$k", "p": { "$floor": { "$divide": [{ "$subtract": ["$n", 1] }, 10] } } },
                "s": { "$first": { "$floor": { "$divide": [{ "$toLong": "$o.t" }, 1000] } } },
                "i": { "$push": "$i" },
            } },
            doc! { "$setWindowFields": {
                "partitionBy": { "k": "$_id.k", "s": "$s" },
                "sortBy": { "_id.p": 1 },
                "output": { "n": { "$documentNumber": {} } },
            } },
        ];
        assert_eq!(stages[..4], expected);
        let bucket = stages[4].get_document("$replaceWith").unwrap();
        assert_eq!(
            bucket.keys().collect::<Vec<_>>(),
            ["_id", "customerId", "count", "history"]
        );
        assert_eq!(bucket.get_document("count").unwrap(), &doc! { "$size": "$i" });
    }

    #[test]
    fn pages_of_windows_are_numbered_in_each_window() {
        let settings = with_windows();
        let stages = form(&settings).pages();
        let window = doc! { "$subtract": ["$date", { "$mod": [{ "$toLong": "$date" }, 3_600_000_i64] }] };
        let project = stages[0].get_document("$project").unwrap();
        assert_eq!(project.get_document("w").unwrap(), &window);
        let numbers = stages[1].get_document("$setWindowFields").unwrap();
        assert_eq!(
            numbers.get_document("partitionBy").unwrap(),
            &doc! { "k": "$k", "w": "$w" }
        );
        let page = stages[2].get_document("$group").unwrap().get_document("_id").unwrap();
        assert_eq!(page.keys().collect::<Vec<_>>(), ["k", "w", "p"]);
        let bucket = stages[4].get_document("$replaceWith").unwrap();
        assert_eq!(
            bucket.keys().collect::<Vec<_>>(),
            ["_id", "customerId", "window", "count", "history"]
        );
        assert_eq!(bucket.get_str("window").unwrap(), "$_id.w");
    }

    #[test]
    fn ids_are_kept_on_request() {
        let settings = Settings::example();
        let mut form = form(&settings);
        form.keep_ids = true;
        let item = doc! { "$unsetField": { "field": { "$literal": "customerId" }, "input": "$$ROOT" } };
        let project = form.pages()[0].get_document("$project").unwrap().clone();
        assert_eq!(project.get_document("i").unwrap(), &item);
    }

    #[test]
    fn seconds_have_a_fixed_width() {
        let sum = doc! { "$add": [10_000_000_000_i64, "$s"] };
        assert_eq!(
            digits("$s".into(), 10),
            doc! { "$substrBytes": [{ "$toString": { "$toLong": sum } }, 1, 10] }
        );
    }

    #[test]
    fn a_second_with_too_many_items_is_found_by_key_and_second() {
        let settings = Settings::example();
        let [group, full, _] = form(&settings).full_seconds();
        let second = doc! { "$floor": { "$divide": [{ "$toLong": "$date" }, 1000] } };
        let id = doc! { "k": "$customerId", "s": second };
        assert_eq!(group, doc! { "$group": { "_id": id, "n": { "$sum": 1 } } });
        assert_eq!(full, doc! { "$match": { "n": { "$gt": 9_999_990_i64 } } });
    }
}
