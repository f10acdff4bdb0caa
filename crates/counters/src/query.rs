//! The update of one counter.
//!
//! # Design
//!
//! ## Why does the document have the number of the batch?
//!
//! After a broken connection it is unknown whether an increment took effect. With the number of the last batch of each
//! process in the same update, the server ignores the increment when it comes again. A filter on the number would do the
//! same, but an upsert whose filter has more than the `_id` fails when two processes count a new document.
//!
//! ## Why a product with 1?
//!
//! `$add` takes dates. `$multiply` takes numbers alone, so the update of a date or a text fails.
//!
//! ## Why does each count of a batch have a place?
//!
//! The server can take two ids for one, by the values of numbers or by the collation of the collection. Then two counts of
//! a batch are of one document, which must not take the second one for a repetition of the first.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use crate::pending::Count;
use crate::settings::Settings;

/// How long a document keeps the number of a process that counts it no longer.
const KEPT_MILLIS: i64 = 60 * 60 * 1000;

/// Returns the statement that adds a count to a document, once for each batch.
pub(crate) fn increment(settings: &Settings, writer: ObjectId, batch: i64, count: &Count) -> Document {
    let Count { id, count, place, .. } = count;
    let (field, batches) = (settings.field.as_str(), settings.batches.as_str());
    let path = format!("${batches}");
    // The update of a value that is not an array fails.
    let known = doc! { "$ifNull": [&path, []] };
    let is_own = doc! { "$eq": ["$$this.w", writer] };
    let is_same = doc! { "$and": [{ "$eq": ["$$this.n", batch] }, { "$eq": ["$$this.k", place] }] };
    let is_later = doc! { "$gt": ["$$this.n", batch] };
    let is_applied = doc! { "$and": [&is_own, { "$or": [is_same, is_later] }] };
    let applied = doc! { "$ne": [{ "$filter": { "input": &known, "cond": is_applied } }, []] };
    let is_replaced = doc! { "$and": [is_own, { "$lt": ["$$this.n", batch] }] };
    let is_recent = doc! { "$gt": ["$$this.at", { "$subtract": ["$$NOW", KEPT_MILLIS] }] };
    let others = doc! { "$and": [{ "$not": [is_replaced] }, is_recent] };
    let others = doc! { "$filter": { "input": known, "cond": others } };
    let own = doc! { "w": writer, "n": batch, "k": place, "at": "$$NOW" };
    let value = format!("${field}");
    let number = doc! { "$multiply": [{ "$ifNull": [&value, 0_i64] }, 1] };
    let update = doc! { "$set": {
        field: { "$cond": [&applied, value, { "$add": [number, count] }] },
        batches: { "$cond": [applied, path, { "$concatArrays": [others, [own]] }] },
    } };
    doc! { "q": { "_id": { "$eq": id } }, "u": [update], "upsert": settings.upsert }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    #[test]
    fn an_id_with_operators_is_a_value() {
        let id = Bson::from(doc! { "$gt": "" });
        let count = Count {
            id: id.clone(),
            count: 2,
            place: 0,
            unknown_since: None,
        };
        let statement = increment(&Settings::example(), ObjectId::new(), 1, &count);
        assert_eq!(statement.get_document("q").unwrap(), &doc! { "_id": { "$eq": id } });
        assert!(!statement.get_bool("upsert").unwrap());
    }
}
