//! The filters of a deletion of old buckets.

use mongo_patterns_core::EncodedKey;
use mongodb::bson::{DateTime, Document, doc};

use crate::query::buckets::buckets_of_range;
use crate::settings::Settings;

/// Filters the buckets of a key whose items are all before a time.
pub(crate) fn buckets_before(settings: &Settings, key: &EncodedKey, time: DateTime) -> Document {
    before(settings, buckets_of_range(settings, key, None, Some(time)), time)
}

/// Filters the buckets of a key that have an item before a time.
pub(crate) fn bucket_with_older(settings: &Settings, key: &EncodedKey, time: DateTime) -> Document {
    let items = format!("${}", settings.items);
    let any = doc! { "$anyElementTrue": [{ "$map": { "input": &items, "in": is_before(settings, time) } }] };
    let mut filter = buckets_of_range(settings, key, None, Some(time));
    filter.insert("$expr", doc! { "$cond": [{ "$isArray": [&items] }, any, false] });
    filter
}

/// Filters the buckets of all keys whose items are all before a time, after an `_id`.
pub(crate) fn all_before(settings: &Settings, after: Option<&str>, time: DateTime) -> Document {
    let ids = match after {
        // The `_id` of each bucket is a string.
        None => doc! { "$gte": "" },
        Some(after) => doc! { "$gt": after },
    };
    before(settings, doc! { "_id": ids }, time)
}

/// Filters some buckets whose items are still all before a time.
pub(crate) fn these_before(settings: &Settings, ids: &[String], time: DateTime) -> Document {
    before(settings, doc! { "_id": { "$in": ids } }, time)
}

/// An item without a date is not before any time.
fn before(settings: &Settings, mut filter: Document, time: DateTime) -> Document {
    let items = format!("${}", settings.items);
    let all = doc! { "$allElementsTrue": [{ "$map": { "input": &items, "in": is_before(settings, time) } }] };
    let is_array = doc! { "$isArray": [&items] };
    filter.insert(
        "$expr",
        doc! { "$cond": [is_array, { "$and": [{ "$ne": [&items, []] }, all] }, false] },
    );
    filter
}

fn is_before(settings: &Settings, time: DateTime) -> Document {
    let field = settings.time.as_ref().map_or("", |time| time.as_str());
    let date = format!("$$this.{field}");
    doc! { "$and": [{ "$eq": [{ "$type": &date }, "date"] }, { "$lt": [&date, time] }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::tests::{key, regex};

    #[test]
    fn only_buckets_of_old_items_are_removed() {
        let settings = Settings::example();
        let time = DateTime::from_millis(5000);
        let is_before =
            doc! { "$and": [{ "$eq": [{ "$type": "$$this.date" }, "date"] }, { "$lt": ["$$this.date", time] }] };
        let all = doc! { "$allElementsTrue": [{ "$map": { "input": "$history", "in": is_before } }] };
        let condition = doc! { "$cond": [
            { "$isArray": ["$history"] },
            { "$and": [{ "$ne": ["$history", []] }, all] },
            false,
        ] };
        assert_eq!(
            buckets_before(&settings, &key(), time),
            doc! { "_id": regex("^123_"), "customerId": 123, "$expr": &condition }
        );
        assert_eq!(
            all_before(&settings, None, time),
            doc! { "_id": { "$gte": "" }, "$expr": &condition }
        );
        assert_eq!(
            all_before(&settings, Some("123_5"), time),
            doc! { "_id": { "$gt": "123_5" }, "$expr": condition }
        );
    }
}
