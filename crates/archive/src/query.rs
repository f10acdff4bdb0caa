//! The filters and pipelines, as pure functions.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::age::AgeLimit;
use mongo_patterns_core::migration::and;
use mongodb::bson::{Bson, Document, doc};

/// Counts the documents from before a time that are not kept, with the oldest. The newest with one value is kept.
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

/// Matches documents whose age field has another value than a date. Documents without a value are kept on purpose.
pub(crate) fn without_date(age: &str) -> Document {
    let other = doc! { "$or": [{ age: { "$not": { "$type": ["date", "null"] } } }, { age: { "$type": "array" } }] };
    and(other, doc! { age: { "$exists": true } })
}
