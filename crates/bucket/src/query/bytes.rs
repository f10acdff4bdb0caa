//! The bytes of a bucket in filters, updates and as expressions.

use crate::form::bytes::AROUND;
use crate::prelude::*;
use crate::settings::bytes::ByteBound;

/// Restricts the filter of an append to a bucket with room for an item of this size, and counts the item in the update.
pub(crate) fn count_bytes(bound: &ByteBound, size: usize, filter: &mut Document, update: &mut Document) {
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    // Below the bound also for an item of no bytes, or the index would not serve the filter.
    let room = bound.most.saturating_sub(size).min(bound.most - 1);
    filter.insert(bound.field.as_str(), doc! { "$lte": room });
    if let Ok(inc) = update.get_document_mut("$inc") {
        inc.insert(bound.field.as_str(), size);
    }
}

/// Returns how many of the offered items a bucket has room for by their bytes, as an expression. An empty one has room for
/// all, which are a page. Bytes that are no integer leave no room, because the client could not tell which.
pub(crate) fn room(bound: &ByteBound, sizes: &[usize], count: &Document) -> Document {
    let mut sum = 0;
    let sums = sizes.iter().map(|size| {
        sum += i64::try_from(*size).unwrap_or(i64::MAX);
        Bson::Int64(sum)
    });
    let sums: Vec<Bson> = sums.collect();
    let offered = i32::try_from(sizes.len()).unwrap_or(i32::MAX);
    let stored = format!("${}", bound.field);
    let is_integer = doc! { "$in": [{ "$type": &stored }, ["int", "long"]] };
    let left = doc! { "$cond": [is_integer, { "$subtract": [bound.most, &stored] }, -1] };
    let fit = doc! { "$filter": { "input": sums, "cond": { "$lte": ["$$this", left] } } };
    doc! { "$cond": [{ "$eq": [count, 0] }, offered, { "$size": fit }] }
}

/// Returns the bytes of an array of items, as an expression.
pub(crate) fn sum(items: &Bson) -> Document {
    let size = doc! { "$subtract": [{ "$bsonSize": { "i": "$$this" } }, AROUND] };
    doc! { "$sum": [{ "$map": { "input": items, "in": size } }] }
}

/// Returns the bytes of a bucket after its items have changed, as an expression. A full bucket stays full, and a bucket
/// of a program that does not count bytes stays so.
pub(crate) fn recomputed(bound: &ByteBound, items: &Bson) -> Document {
    let stored = format!("${}", bound.field);
    let (sum, full) = (sum(items), doc! { "$gte": [&stored, bound.most] });
    let computed = doc! { "$cond": [full, { "$max": [bound.most, &sum] }, &sum] };
    doc! { "$cond": [{ "$isNumber": &stored }, computed, &stored] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::append::{fill, open_bucket, push};
    use crate::query::tests::key;
    use crate::settings::with_bytes;

    #[test]
    fn an_append_is_to_a_bucket_with_room() {
        let settings = with_bytes(100);
        let bound = settings.bytes.as_ref().unwrap();
        let mut filter = open_bucket(&settings, &key(), None);
        assert_eq!(filter.get_document("bytes").unwrap(), &doc! { "$lt": 100 });
        let mut update = push(&settings, Bson::Int32(5));
        count_bytes(bound, 30, &mut filter, &mut update);
        assert_eq!(filter.get_document("bytes").unwrap(), &doc! { "$lte": 70 });
        assert_eq!(update.get_document("$inc").unwrap(), &doc! { "count": 1, "bytes": 30 });
        count_bytes(bound, 0, &mut filter, &mut update);
        assert_eq!(filter.get_document("bytes").unwrap(), &doc! { "$lte": 99 });
        count_bytes(bound, 101, &mut filter, &mut update);
        assert_eq!(filter.get_document("bytes").unwrap(), &doc! { "$lte": -1 });
    }

    #[test]
    fn a_fill_takes_the_items_that_fit_or_closes_the_bucket() {
        let settings = with_bytes(100);
        let items = vec![Bson::String("$bytes".into()), Bson::Int32(2)];
        let stages = fill(&settings, &key(), None, items, &[12, 4], false);
        let bucket = stages[0].get_document("$replaceWith").unwrap();
        let of_let = bucket.get_document("$let").unwrap();
        let is_integer = doc! { "$in": [{ "$type": "$bytes" }, ["int", "long"]] };
        let left = doc! { "$cond": [is_integer, { "$subtract": [100, "$bytes"] }, -1] };
        let fit = doc! { "$filter": { "input": [12_i64, 16_i64], "cond": { "$lte": ["$$this", left] } } };
        let count = doc! { "$ifNull": ["$count", 0] };
        let room = doc! { "$cond": [{ "$eq": [&count, 0] }, 2, { "$size": fit }] };
        let taken = doc! { "$toInt": { "$min": [{ "$subtract": [10, &count] }, room] } };
        assert_eq!(of_let.get_document("vars").unwrap(), &doc! { "taken": taken });
        let set = stages[1].get_document("$set").unwrap();
        assert_eq!(set.keys().collect::<Vec<_>>(), ["bytes"]);
    }
}
