//! The filters and pipelines, as pure functions.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::age::AgeLimit;
use mongo_patterns_core::migration::and;
use mongodb::bson::{Bson, DateTime, Document, doc};

/// Counts the documents from before a time that are not kept, with the oldest. Of those with one value, the newest is kept.
pub(crate) fn due(limit: &AgeLimit, newest_by: Option<&FieldName>) -> Vec<Document> {
    let group = |id: Bson, documents: Bson, oldest: String| {
        doc! { "$group": { "_id": id, "documents": { "$sum": documents }, "oldest": { "$min": oldest } } }
    };
    let (one, age) = (Bson::Int64(1), format!("${}", limit.field));
    let matched = doc! { "$match": limit.before(limit.time()) };
    let Some(by) = newest_by else {
        return vec![matched, group(Bson::Null, one, age)];
    };
    let older = doc! { "$subtract": ["$documents", 1_i64] };
    vec![
        matched,
        doc! { "$match": { by.as_str(): { "$ne": Bson::Null } } },
        group(format!("${by}").into(), one, age),
        doc! { "$match": { "documents": { "$gt": 1 } } },
        group(Bson::Null, older.into(), "$oldest".to_owned()),
    ]
}

/// Matches documents whose age field has another value than a date. Those without a value are kept on purpose.
pub(crate) fn without_date(age: &str) -> Document {
    let other = doc! { "$or": [{ age: { "$not": { "$type": ["date", "null"] } } }, { age: { "$type": "array" } }] };
    and(other, doc! { age: { "$exists": true } })
}

/// Where a page begins, in the index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) min: Document,
    pub(crate) max: Document,
}

/// Returns the bounds of a page of one collection: all dates, or those after a time in the order of the page. Of the
/// documents with this time, those after an `_id`.
pub(crate) fn bounds(date: &str, after: Option<(DateTime, Option<&Bson>)>, newest_first: bool) -> Bounds {
    let keys = |time: DateTime, id: Bson| doc! { date: time, "_id": id };
    let mut bounds = Bounds {
        min: keys(DateTime::MIN, Bson::MinKey),
        max: keys(DateTime::MAX, Bson::MaxKey),
    };
    match (after, newest_first) {
        (None, _) => {}
        (Some((time, id)), true) => bounds.max = keys(time, id.cloned().unwrap_or(Bson::MaxKey)),
        (Some((time, id)), false) => bounds.min = keys(time, id.cloned().unwrap_or(Bson::MinKey)),
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_the_ids_of_its_collection_at_that_time() {
        let time = DateTime::from_millis(5);
        let keys = |age: DateTime, id: Bson| doc! { "date": age, "_id": id };
        let all = bounds("date", None, true);
        assert_eq!(all.min, keys(DateTime::MIN, Bson::MinKey));
        assert_eq!(all.max, keys(DateTime::MAX, Bson::MaxKey));
        let id = Bson::Int32(7);
        assert_eq!(
            bounds("date", Some((time, Some(&id))), true).max,
            keys(time, id.clone())
        );
        assert_eq!(bounds("date", Some((time, None)), true).max, keys(time, Bson::MaxKey));
        assert_eq!(bounds("date", Some((time, Some(&id))), false).min, keys(time, id));
        assert_eq!(bounds("date", Some((time, None)), false).min, keys(time, Bson::MinKey));
    }
}
