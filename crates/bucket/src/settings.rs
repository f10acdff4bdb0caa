//! The checked settings of a repository.
//!
//! # Design
//!
//! ## Why does the name of the index contain its definition?
//!
//! Every write names the index in its hint. With the field names and the page size in the name, a write of one page
//! size cannot be served by the index of another.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

/// The policy that decides which second a new bucket has in its `_id`, and so its position among the buckets of its
/// key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdPolicy {
    /// The second of the item that opens the bucket, as in MongoDB's manual. An open needs no further round trip. A
    /// late item that opens a bucket opens it among older ones.
    #[default]
    ItemTime,
    /// The same second, but never before a bucket of the key that existed when the append was called. So pages are in
    /// the order in which they were opened, and a late item goes to the end. Two buckets that different writers open at
    /// the same moment can be in either order. An open needs two more round trips: an update that finds no open bucket,
    /// and a read of the newest one.
    ///
    /// While items are not later than the newest bucket, new buckets get suffixes of its second. After 1,000,000
    /// buckets of one second, an append that would open another one returns
    /// [`InvalidTime`](mongo_patterns_core::ErrorKind::InvalidTime).
    Monotonic,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) key: FieldName,
    pub(crate) items: FieldName,
    pub(crate) count: FieldName,
    pub(crate) time: Option<FieldName>,
    /// The field of an item that identifies it among the items of its key.
    pub(crate) item_id: Option<FieldName>,
    pub(crate) page_size: u32,
    pub(crate) id_policy: IdPolicy,
    pub(crate) retry: RetryPolicy,
    /// The name of the index on the open buckets.
    pub(crate) open_index: String,
}

/// Returns the name of the index on the open buckets.
pub(crate) fn open_index(key: &FieldName, count: &FieldName, page_size: u32) -> String {
    format!("{key}_1_{count}_lt_{page_size}")
}

impl Settings {
    /// Returns the page size as filters and the index have it.
    pub(crate) fn page_size_bson(&self) -> i32 {
        i32::try_from(self.page_size).unwrap_or(i32::MAX)
    }

    /// Returns the index that writes with this page size need.
    pub(crate) fn open_index_for(&self, page_size: u32) -> PlannedIndex {
        PlannedIndex::new(
            open_index(&self.key, &self.count, page_size),
            doc! { self.key.as_str(): 1 },
        )
        .unique()
        .partial(doc! { self.count.as_str(): { "$lt": i32::try_from(page_size).unwrap_or(i32::MAX) } })
    }

    /// Returns the path of the item ids in a bucket, such as `history.tradeId`.
    pub(crate) fn item_id_path(&self) -> Option<String> {
        let field = self.item_id.as_ref()?;
        Some(format!("{}.{field}", self.items))
    }

    /// Returns the name of the index on the item ids.
    pub(crate) fn item_index(&self) -> Option<String> {
        Some(format!("{}_1_{}_1", self.key, self.item_id_path()?))
    }

    /// Returns the indexes of a collection with these settings.
    pub(crate) fn index_plan(&self, collection: &str) -> IndexPlan {
        let mut indexes = vec![self.open_index_for(self.page_size)];
        if let (Some(name), Some(path)) = (self.item_index(), self.item_id_path()) {
            indexes.push(PlannedIndex::new(name, doc! { self.key.as_str(): 1, path: 1 }).unique());
        }
        IndexPlan::new(collection, indexes)
    }

    /// Returns the fields of a bucket, by their settings.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("key", self.key.as_str()),
            ("items", self.items.as_str()),
            ("count", self.count.as_str()),
        ]
    }

    /// Returns the start of the names of the indexes on open buckets, whatever the page size is.
    pub(crate) fn index_family(&self) -> Option<String> {
        Some(format!("{}_1_{}_lt_", self.key, self.count))
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self) -> Document {
        doc! {
            "key": self.key.as_str(),
            "items": self.items.as_str(),
            "count": self.count.as_str(),
            "time": self.time.as_ref().map(FieldName::as_str),
            "item_id": self.item_id.as_ref().map(FieldName::as_str),
            "page_size": self.page_size_bson(),
        }
    }

    /// Returns the same settings with another page size.
    pub(crate) fn stored_form_of_size(&self, page_size: u32) -> Document {
        let mut settings = self.stored_form();
        settings.insert("page_size", i32::try_from(page_size).unwrap_or(i32::MAX));
        settings
    }
}

#[cfg(any(test, feature = "__fuzzing"))]
impl Settings {
    /// Returns the settings of the manual's example.
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        Self {
            key: field("customerId"),
            items: field("history"),
            count: field("count"),
            time: Some(field("date")),
            item_id: None,
            page_size: 10,
            id_policy: IdPolicy::ItemTime,
            retry: RetryPolicy::default(),
            open_index: open_index(&field("customerId"), &field("count"), 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_named_by_its_definition() {
        let plan = Settings::example().index_plan("trades");
        assert_eq!(
            plan.to_string(),
            r#"db.getCollection("trades").createIndex({ "customerId": 1 }, { "name": "customerId_1_count_lt_10", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } })"#
        );
    }
}
