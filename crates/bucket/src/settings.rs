//! What a builder was told, checked.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::doc;

use crate::IdPolicy;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) key: FieldName,
    pub(crate) items: FieldName,
    pub(crate) count: FieldName,
    pub(crate) time: Option<FieldName>,
    /// The field of an item that identifies it among those of its key.
    pub(crate) item_id: Option<FieldName>,
    pub(crate) page_size: u32,
    pub(crate) id_policy: IdPolicy,
    pub(crate) retry: RetryPolicy,
    /// The name of the index over the open buckets. It tells the definition, as writes rely on it by name.
    pub(crate) open_index: String,
}

pub(crate) fn open_index(key: &FieldName, count: &FieldName, page_size: u32) -> String {
    format!("{key}_1_{count}_lt_{page_size}")
}

impl Settings {
    /// The page size as it stands in filters and in the index.
    pub(crate) fn page_size_bson(&self) -> i32 {
        i32::try_from(self.page_size).unwrap_or(i32::MAX)
    }

    /// The index on which writes with this page size rely.
    pub(crate) fn open_index_for(&self, page_size: u32) -> PlannedIndex {
        PlannedIndex::new(
            open_index(&self.key, &self.count, page_size),
            doc! { self.key.as_str(): 1 },
        )
        .unique()
        .partial(doc! { self.count.as_str(): { "$lt": i32::try_from(page_size).unwrap_or(i32::MAX) } })
    }

    /// Where the ids of items are in a bucket, such as `history.tradeId`.
    pub(crate) fn item_id_path(&self) -> Option<String> {
        let field = self.item_id.as_ref()?;
        Some(format!("{}.{field}", self.items))
    }

    pub(crate) fn item_index(&self) -> Option<String> {
        Some(format!("{}_1_{}_1", self.key, self.item_id_path()?))
    }

    pub(crate) fn index_plan(&self, collection: &str) -> IndexPlan {
        let mut indexes = vec![self.open_index_for(self.page_size)];
        if let (Some(name), Some(path)) = (self.item_index(), self.item_id_path()) {
            indexes.push(PlannedIndex::new(name, doc! { self.key.as_str(): 1, path: 1 }).unique());
        }
        IndexPlan::new(collection, indexes)
    }
}

#[cfg(any(test, feature = "__fuzzing"))]
impl Settings {
    /// Those of the manual's example.
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
