//! The removal of one item, which moves the items after it up.
//!
//! # Design
//!
//! ## Why does a transaction that lost once lock documents first?
//!
//! A transaction that reads the buckets of a key and then writes them conflicts with every append in between. Under load it
//! did not commit within 120 seconds. When it runs again, its first command writes to the open bucket, so the appends wait.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::transaction::{self, lock_documents};
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::{Bson, RawBsonRef, RawDocumentBuf};
use mongodb::options::{FindOneOptions, FindOptions};

use crate::form::chain::Chain;
use crate::form::item_id::ItemId;
use crate::query::append::open_bucket;
use crate::query::buckets::{buckets_from, by_id, only_id};
use crate::query::item::{in_bucket, is_open_with_others, is_single, pull};
use crate::repository::Shared;
use crate::write::one_item::OneItem;

/// The bucket of an item.
struct Found {
    bucket: Bson,
    /// The number of its items, if that is stored.
    count: Option<i64>,
}

/// The removal of an item.
#[derive(Clone, Copy)]
pub(crate) struct Removal<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) item: &'a OneItem,
}

impl Removal<'_> {
    /// Removes the item. Returns whether the key had it.
    pub(crate) async fn remove(self, conn: &mut Conn<'_>) -> Result<bool> {
        let (collection, settings) = self.shared.parts();
        let page_size = i64::from(settings.page_size);
        let Some(found) = self.find(conn).await? else {
            return Ok(false);
        };
        if found.count.is_some_and(|count| count < page_size || count == 1)
            && self.remove_from_open(&found, conn).await?
        {
            return Ok(true);
        }
        let tail = found.bucket.as_str().and_then(|id| self.item.key.tail(id));
        let window = tail.and_then(|tail| settings.window_of(tail));
        let context = (self, window, false);
        transaction::run(
            collection,
            &settings.retry,
            conn,
            context,
            |conn, (removal, window, is_again)| {
                Box::pin(async move {
                    if std::mem::replace(is_again, true) {
                        lock_open_bucket(removal.shared, &removal.item.key, *window, conn).await?;
                    }
                    removal.move_up(conn).await
                })
            },
        )
        .await
    }

    async fn find(self, conn: &mut Conn<'_>) -> Result<Option<Found>> {
        let settings = &self.shared.settings;
        let bucket = self.item.find(self.shared, conn).await?;
        let found = |bucket: RawDocumentBuf| -> Option<Found> {
            let count = bucket.get(settings.count.as_str()).ok().flatten();
            Some(Found {
                bucket: bucket.get("_id").ok()??.try_into().ok()?,
                count: count.and_then(stored_integer),
            })
        };
        Ok(bucket.and_then(found))
    }

    /// Removes the item from a bucket that is open and stays open, or deletes the bucket of a single item. Returns whether
    /// the bucket was still so.
    async fn remove_from_open(self, found: &Found, conn: &mut Conn<'_>) -> Result<bool> {
        let (collection, settings) = self.shared.parts();
        let item = self.item;
        let failed = |error| item.failed(self.shared, error);
        if found.count == Some(1) {
            let filter = in_bucket(settings, item.filter(settings), &found.bucket, is_single());
            let deleted = conn.delete_one(collection, filter, None).await;
            return Ok(deleted.map_err(failed)?.deleted_count > 0);
        }
        let condition = is_open_with_others(settings);
        let filter = in_bucket(settings, item.filter(settings), &found.bucket, condition);
        let update = pull(settings, &item.field, &item.id);
        let pulled = conn.update_one(collection, filter, update, None).await;
        Ok(pulled.map_err(failed)?.matched_count > 0)
    }

    /// In a transaction: removes the item, and moves the items after it up.
    async fn move_up(self, conn: &mut Conn<'_>) -> Result<bool> {
        let Some(found) = self.find(conn).await? else {
            return Ok(false);
        };
        let key = &self.item.key;
        let Some(tail) = found.bucket.as_str().and_then(|id| key.tail(id)) else {
            return Err(Error::corrupt(
                found.bucket,
                "_id",
                "the `_id` of the item's bucket is not of its key, nothing was changed: repair the bucket",
            ));
        };
        let chain = load(self.shared, key, tail, conn).await?;
        let mut items = chain.items()?;
        let is_item = |value: RawBsonRef<'_>| {
            let id = value
                .as_document()
                .and_then(|item| item.get(self.item.field.as_str()).ok().flatten());
            id.and_then(ItemId::from_stored).as_ref() == Some(&self.item.id)
        };
        let Some(position) = items.iter().position(|item| is_item(item.value)) else {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the id of the item is stored in a form that this crate does not write, nothing was changed: replace the item first",
            )
            .of_document(found.bucket, self.item.path.as_str()));
        };
        items.remove(position);
        chain.plan(&items)?.apply(conn, &self.shared.collection).await?;
        Ok(true)
    }
}

/// In a repeated transaction: locks the open bucket of a window, or of a key without windows, so that appends do not abort
/// it.
pub(super) async fn lock_open_bucket(
    shared: &Shared,
    key: &EncodedKey,
    window: Option<i64>,
    conn: &mut Conn<'_>,
) -> Result<()> {
    let filter = open_bucket(&shared.settings, key, window);
    lock_documents(conn, &shared.collection, &filter).await
}

/// Reads the buckets from the one with this tail on, to the end of its window, or from the open bucket on if it is before.
/// The rewrite may leave one page that is not full, and a window has at most one. One to three round trips.
pub(super) async fn load<'a>(
    shared: &'a Shared,
    key: &'a EncodedKey,
    tail: &str,
    conn: &mut Conn<'_>,
) -> Result<Chain<'a>> {
    let settings = &shared.settings;
    let chain = load_from(shared, key, tail, conn).await?;
    if chain.has_open_bucket() {
        return Ok(chain);
    }
    let first = FindOneOptions::builder()
        .sort(by_id(false))
        .projection(only_id())
        .build();
    let filter = open_bucket(settings, key, settings.window_of(tail));
    let open = conn.find_one(&shared.collection, filter, first).await?;
    let open = open.as_ref().and_then(|open| open.get_str("_id").ok());
    match open.and_then(|id| key.tail(id)) {
        Some(open) => load_from(shared, key, open, conn).await,
        None => Ok(chain),
    }
}

async fn load_from<'a>(shared: &'a Shared, key: &'a EncodedKey, tail: &str, conn: &mut Conn<'_>) -> Result<Chain<'a>> {
    let filter = buckets_from(&shared.settings, key, tail, shared.settings.window_of(tail));
    let ascending = FindOptions::builder().sort(by_id(false)).build();
    let mut chain = Chain::new(&shared.settings, key);
    for document in conn.find_all(&shared.collection, filter, ascending).await? {
        chain.push(document)?;
    }
    Ok(chain)
}
