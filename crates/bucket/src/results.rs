//! The results of calls.

mod totals;

use mongo_patterns_core::InvalidDocuments;
use mongodb::bson::Document;
use serde::Serialize;

pub use self::totals::Totals;

/// The result of an append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The `_id` of the bucket that the item opened. `None` when the item went to the open bucket, or was not stored.
    pub opened: Option<String>,
    /// Whether an item with its id was stored before, so that nothing was stored now.
    pub already_there: bool,
}

/// The result of an append of several items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedMany {
    /// The number of stored items, without `already_there`.
    pub items: u64,
    /// The number of items that were not stored, because the key or the batch has an item with their id before.
    pub already_there: u64,
    /// The number of opened buckets.
    pub opened: u64,
}

/// The progress of [`append_stream`](crate::BucketRepository::append_stream).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendProgress {
    /// The number of items that were read from the stream.
    pub read: u64,
    /// The number of read items that are stored, now or before.
    pub stored: u64,
}

/// The numbers of items and pages of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The sum of the counts of its buckets.
    pub items: u64,
    /// The number of its buckets.
    pub pages: u64,
}

/// The result of a [refresh of the figures](crate::BucketRepository::refresh_figures).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshedFigures {
    /// The number of buckets whose figures changed.
    pub documents: u64,
}

/// The result, or the progress, of a deletion of old items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedItems {
    /// The number of deleted buckets, whose items were all old.
    pub documents: u64,
    /// The number of items that were removed from other buckets.
    pub items: u64,
}

/// The result of a migration. Of a plan, it has no keys and no documents, unless the migration has finished already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of migrated items, as counted on both sides at the end. Not counted for another page size.
    pub items: u64,
    /// The number of their keys.
    pub keys: u64,
    /// The number of buckets that contain them, or that were written for another page size.
    pub documents: u64,
    /// Whether an earlier call began the migration.
    pub resumed: bool,
    /// The documents that were [skipped](crate::action::MigrateFromFlat::skip_invalid) because they are invalid.
    pub skipped: InvalidDocuments,
}

/// An item with its key; see [`BucketRepository::find_items`](crate::BucketRepository::find_items).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundItem<K, T> {
    /// The key.
    pub key: K,
    /// The item.
    pub item: T,
}

/// What the server did to find items; see [`FindItems::explain`](crate::action::FindItems::explain).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ItemsPlan {
    /// The names of the indexes that it used.
    pub indexes: Vec<String>,
    /// The number of buckets that it read.
    pub documents_examined: u64,
    /// The number of index entries that it read.
    pub keys_examined: u64,
    /// If it read the whole collection: the fields of an index that the filter would use. `None` where the filter compares
    /// no field with a value or a range, so that no index helps.
    pub advice: Option<Document>,
}
