//! The deletion of old items, which moves the items after them up.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{EncodedKey, Result, transaction};
use mongodb::bson::DateTime;

use crate::query::buckets::{first_by_id, only_id};
use crate::query::expiry::{bucket_with_older, buckets_before};
use crate::repository::Shared;
use crate::results::DeletedItems;
use crate::write::removal::{load, lock_open_bucket};

/// The items of a key that are before a time.
#[derive(Clone, Copy)]
pub(crate) struct OldItems<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) key: &'a EncodedKey,
    pub(crate) time: DateTime,
}

impl OldItems<'_> {
    /// Deletes the buckets whose items are all old.
    pub(crate) async fn delete_buckets(self, conn: &mut Conn<'_>) -> Result<u64> {
        let (collection, settings) = self.shared.parts();
        let filter = buckets_before(settings, self.key, self.time);
        Ok(conn.delete_many(collection, filter, None).await?.deleted_count)
    }

    /// Deletes all old items, in one transaction.
    pub(crate) async fn delete(self, conn: &mut Conn<'_>) -> Result<DeletedItems> {
        let (collection, settings) = self.shared.parts();
        let windows = settings.windows.as_ref();
        let window = windows.map(|windows| windows.of_time(self.time));
        let context = (self, window, false);
        transaction::run(
            collection,
            &settings.retry,
            conn,
            context,
            |conn, (old, window, is_again)| {
                Box::pin(async move {
                    if std::mem::replace(is_again, true) {
                        lock_open_bucket(old.shared, old.key, *window, conn).await?;
                    }
                    let documents = old.delete_buckets(conn).await?;
                    let mut items = 0;
                    loop {
                        let removed = old.move_up(conn).await?;
                        items += removed;
                        // Without windows the first pass removes all.
                        if removed == 0 || window.is_none() {
                            break;
                        }
                    }
                    Ok(DeletedItems { documents, items })
                })
            },
        )
        .await
    }

    /// In a transaction: removes the old items of the first bucket that has some and of later buckets, to the end of its
    /// window, and moves the items after them up. Returns their number.
    async fn move_up(self, conn: &mut Conn<'_>) -> Result<u64> {
        let (collection, settings) = self.shared.parts();
        let filter = bucket_with_older(settings, self.key, self.time);
        let found = conn
            .find_all(collection, filter, first_by_id(false, 1, Some(only_id())))
            .await?;
        let tail = found.first().and_then(|found| found.get_str("_id").ok());
        let Some(tail) = tail.and_then(|id| self.key.tail(id)) else {
            return Ok(0);
        };
        let chain = load(self.shared, self.key, tail, conn).await?;
        let mut items = chain.items()?;
        let before = items.len();
        let field = settings.time.as_ref().map_or("", |time| time.as_str());
        items.retain(|item| {
            let date = item.value.as_document().and_then(|item| item.get_datetime(field).ok());
            date.is_none_or(|date| date >= self.time)
        });
        chain.plan(&items)?.apply(conn, collection).await?;
        Ok((before - items.len()) as u64)
    }
}
