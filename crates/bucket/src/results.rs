//! The results of calls.

mod totals;

use mongo_patterns_core::InvalidDocuments;
use mongodb::bson::Document;
use serde::Serialize;

pub use self::totals::Totals;
use crate::form::document::Bucket;
use crate::form::token::{ItemToken, PageToken};

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
    /// The number of stored items: all but those of `already_there`.
    pub items: u64,
    /// The number of items that were not stored, because an item with their id was stored before, or is earlier in the
    /// batch.
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
    /// The number of these that are stored, now or before.
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

/// The result of a [rebuild of the figures](crate::BucketRepository::rebuild_figures).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebuiltFigures {
    /// The number of buckets whose figures changed.
    pub buckets: u64,
}

/// The result, or the progress, of a removal of old buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedBuckets {
    /// The number of removed buckets, whose items were all old.
    pub buckets: u64,
    /// The number of items that were removed from other buckets.
    pub items: u64,
}

/// The result of the deletion of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedKey {
    /// Whether the key had any buckets.
    pub found: bool,
    /// The number of deleted buckets.
    pub buckets: u64,
}

/// Consecutive pages of a key, and the tokens of the adjacent ones.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageSlice<K, T> {
    /// The pages, in the requested order.
    pub pages: Vec<Bucket<K, T>>,
    /// The token for [`after`](crate::action::Pages::after). `None` when there are fewer pages than the limit, so that
    /// no more follow for now. When the pages end exactly at the limit, the next slice is empty.
    pub next: Option<PageToken>,
    /// The token for [`before`](crate::action::Pages::before). `None` at the start, or when there are fewer pages than
    /// the limit.
    pub previous: Option<PageToken>,
}

/// A page of items of any size, and the tokens of the adjacent ones.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ItemPage<T> {
    /// The items, in the requested order.
    pub items: Vec<T>,
    /// The token for [`after`](crate::action::Items::after). `None` when no more items follow for now.
    pub next: Option<ItemToken>,
    /// The token for [`before`](crate::action::GetItemPage::before). `None` when nothing was read or skipped before
    /// these items. The page before can be empty.
    pub previous: Option<ItemToken>,
    /// The position after the last of these items, also when no more follow for now, to [poll for later
    /// items](crate::BucketRepository::items). Without items it is the given token, if there was one.
    pub last_token: Option<ItemToken>,
}

/// The result of a migration. Of a plan, it has no keys and no buckets, unless the migration has finished already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of migrated items, as counted on both sides at the end. Not counted for another page size.
    pub items: u64,
    /// The number of their keys.
    pub keys: u64,
    /// The number of buckets that contain them, or that were written for another page size.
    pub buckets: u64,
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
