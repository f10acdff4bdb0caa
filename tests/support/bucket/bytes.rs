//! Buckets with a bound of bytes.

use mongo_patterns::bucket::BucketRepositoryBuilder;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use crate::bucket::figures::plain_builder;
use crate::common::*;

/// The bound of most tests: three items of 300 bytes fit, and a fourth does not.
pub const BOUND: u32 = 1000;

/// Item `n` of this many bytes, in second `n`.
pub fn sized(n: i64, bytes: usize) -> Document {
    let mut item = doc! { "n": n, "date": at(SECOND + n), "text": "" };
    let empty = bytes_of(&item);
    item.insert("text", "x".repeat(bytes - empty));
    assert_eq!(bytes_of(&item), bytes);
    item
}

pub fn bytes_of(item: &Document) -> usize {
    RawDocumentBuf::try_from(item).unwrap().as_bytes().len()
}

pub fn bounded(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Document> {
    plain_builder(db).page_size(5).max_bucket_bytes(BOUND)
}

/// Returns the violations of the invariants, of buckets that no update has made larger.
pub fn violations_of(buckets: &[Document], bound: u32, page_size: usize) -> Vec<String> {
    let mut violations = Vec::new();
    let mut open = std::collections::HashMap::<String, u32>::new();
    for bucket in buckets {
        let items = bucket.get_array("history").unwrap();
        let sum: usize = items.iter().map(|item| bytes_of(item.as_document().unwrap())).sum();
        let stored = usize::try_from(bucket.get_i32("bytes").unwrap()).unwrap();
        let bound = bound as usize;
        let is_right = stored == sum || stored == bound && sum < bound;
        let is_counted = bucket.get_i32("count").unwrap() as usize == items.len();
        if !is_right || !is_counted || items.is_empty() || items.len() > page_size || sum > bound && items.len() > 1 {
            violations.push(format!(
                "{}: {stored} bytes, {sum} of {} items",
                bucket.get("_id").unwrap(),
                items.len()
            ));
        }
        if items.len() < page_size && stored < bound {
            *open
                .entry(format!(
                    "{} {:?}",
                    bucket.get("customerId").unwrap(),
                    bucket.get("window")
                ))
                .or_default() += 1;
        }
    }
    violations.extend(
        open.into_iter()
            .filter(|(_, open)| *open > 1)
            .map(|(key, open)| format!("{key}: {open} open")),
    );
    violations
}
