//! Stores up to a page of items in the open bucket of a key, or in a bucket that they open.
//!
//! # Design
//!
//! ## Why are collisions retried, and never in a session of the caller?
//!
//! The server retries an upsert after a duplicate key by itself only where its filter is equality alone. So the client
//! retries, with a bound. In a transaction a collision would abort the transaction, and the next one too. So the write reads
//! a free `_id` first.

use std::borrow::Cow;

use mongo_patterns_core::action::record_attempts;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{Result, send};
use mongodb::bson::{Bson, Document};
use mongodb::options::{FindOneAndUpdateOptions, Hint, UpdateOptions};
use tracing::Span;

use crate::form::id;
use crate::form::item::Item;
use crate::form::item_id::ItemId;
use crate::query::append::{fill, on_insert, open_bucket_without, push};
use crate::query::item::only_count;
use crate::results::Appended;
use crate::settings::figures::Figures;
use crate::write::key_write::{Collision, KeyWrite};

/// The result of a store.
pub(crate) enum Stored {
    New {
        items: usize,
        /// The `_id` of the bucket that was opened for them.
        opened: Option<String>,
    },
    /// At least one of the items was stored before, and none was stored now.
    Repeated,
}

impl From<Stored> for Appended {
    fn from(stored: Stored) -> Self {
        let already_there = matches!(stored, Stored::Repeated);
        let opened = match stored {
            Stored::New { opened, .. } => opened,
            Stored::Repeated => None,
        };
        Self { opened, already_there }
    }
}

pub(crate) struct Store<'a> {
    pub(crate) write: KeyWrite<'a>,
    pub(crate) span: &'a Span,
    /// At most a page of items, of one window. As many are stored as there is room for, from the first.
    pub(crate) items: &'a [&'a Item],
}

impl Store<'_> {
    /// Stores the items. Rare cases are boxed: the future of a plain append stays small.
    pub(crate) async fn store(&self, conn: &mut Conn<'_>) -> Result<Stored> {
        let settings = &self.write.shared.settings;
        if settings.item_id.is_some() {
            Box::pin(self.write.check_item_index()).await?;
        }
        if conn.has_session() {
            return Box::pin(self.read_then_write(conn)).await;
        }
        let base = self.write.key.id(&self.items[0].second());
        let (suffix, attempted) = self.upsert(&base, conn).await?;
        match attempted {
            Ok(stored) => {
                record_attempts(self.span, 1);
                Ok(stored)
            }
            Err(error) => Box::pin(self.retry_upsert(&base, suffix, error, conn)).await,
        }
    }

    /// Sends one upsert, as in the manual, with the suffix that should be free.
    async fn upsert(&self, base: &str, conn: &mut Conn<'_>) -> Result<(u32, send::Result<Stored>)> {
        let suffixes = &self.write.shared.suffixes;
        let suffix = suffixes.next(base);
        let id = match suffix {
            0 => Cow::Borrowed(base),
            suffix => Cow::Owned(id::with_suffix(base, suffix)?),
        };
        let attempted = self.attempt(Some(&id), conn).await;
        if suffix > 0 && matches!(attempted, Ok(Stored::New { opened: Some(_), .. })) {
            suffixes.raise(base, suffix + 1);
        }
        Ok((suffix, attempted))
    }

    /// Retries after a collision, each time with another `_id`. A bucket is opened only if there is still no open one.
    async fn retry_upsert(
        &self,
        base: &str,
        mut suffix: u32,
        mut error: CommandError,
        conn: &mut Conn<'_>,
    ) -> Result<Stored> {
        let KeyWrite { shared, .. } = self.write;
        let suffixes = &shared.suffixes;
        let mut attempts = shared.settings.retry.start();
        let mut opens_by_others = 0_u32;
        loop {
            let Some(collision) = self.write.collision(&error) else {
                return Err(self.write.failed(error));
            };
            if self.is_repeated(&collision, conn).await? {
                record_attempts(self.span, attempts.made());
                return Ok(Stored::Repeated);
            }
            match collision {
                Collision::Id => {
                    let next = suffixes.raise(base, suffix + 1);
                    if attempts.made() > 1 && next == suffix + 1 {
                        // Another process took it, and it can have taken any number of them.
                        suffixes.raise(base, self.write.free_suffix(&self.items[0].second(), conn).await?);
                    }
                }
                Collision::Open => {
                    opens_by_others += 1;
                    self.write
                        .check_open_bucket(self.window(), opens_by_others, conn)
                        .await?;
                }
                Collision::Item => {}
            }
            attempts.next(error).await?;
            let attempted;
            (suffix, attempted) = self.upsert(base, conn).await?;
            match attempted {
                Ok(stored) => {
                    record_attempts(self.span, attempts.made());
                    return Ok(stored);
                }
                Err(failed) => error = failed,
            }
        }
    }

    /// Updates the open bucket. If there is none, reads a free `_id` and then upserts. For writes in a session, where a
    /// collision would abort the caller's transaction.
    async fn read_then_write(&self, conn: &mut Conn<'_>) -> Result<Stored> {
        if self.is_stored(conn).await? {
            return Ok(Stored::Repeated);
        }
        let failed = |error| self.write.failed(error);
        let mut stored = self.attempt(None, conn).await.map_err(failed)?;
        if let Stored::New { items: 0, .. } = stored {
            let second = self.items[0].second();
            let suffix = self.write.free_suffix(&second, conn).await?;
            let id = self.write.key.id(&id::with_suffix(&second, suffix)?);
            stored = self.attempt(Some(&id), conn).await.map_err(failed)?;
        }
        record_attempts(self.span, 1);
        Ok(stored)
    }

    /// Returns whether the collision is with a stored item. The filter does not match an open bucket that has the item, so
    /// the upsert fails as after another writer.
    async fn is_repeated(&self, collision: &Collision, conn: &mut Conn<'_>) -> Result<bool> {
        match (collision, self.items) {
            (Collision::Item, [_]) => Ok(true),
            _ => self.is_stored(conn).await,
        }
    }

    async fn is_stored(&self, conn: &mut Conn<'_>) -> Result<bool> {
        Ok(!self.write.stored_ids(&self.ids(), conn).await?.is_empty())
    }

    /// Returns the window of the items, if there are windows.
    fn window(&self) -> Option<i64> {
        self.items[0].window
    }

    /// Returns the ids of the items, if the settings have a field for them.
    fn ids(&self) -> Vec<&ItemId> {
        self.items.iter().filter_map(|item| item.id.as_ref()).collect()
    }

    /// Sends one command to the open bucket, or, with an `_id`, to a new one. The server refuses it when the unique index is
    /// missing.
    async fn attempt(&self, id: Option<&str>, conn: &mut Conn<'_>) -> send::Result<Stored> {
        let KeyWrite { shared, key } = self.write;
        let settings = &shared.settings;
        let filter = open_bucket_without(settings, key, self.window(), &self.ids());
        let hint = Hint::Name(settings.open_index.clone());
        let needs_pipeline = settings.figures.as_ref().is_some_and(Figures::need_pipeline);
        if let [item] = self.items
            && !needs_pipeline
        {
            let mut update = push(settings, item.to_bson()?);
            if let Some(id) = id {
                update.insert("$setOnInsert", on_insert(settings, key, id));
            }
            let options = UpdateOptions::builder().hint(hint).upsert(id.map(|_| true)).build();
            let result = conn.update_one(&shared.collection, filter, update, options).await?;
            let opened = result.upserted_id.and(id).map(str::to_owned);
            let items = usize::from(result.matched_count > 0 || opened.is_some());
            return Ok(Stored::New { items, opened });
        }
        Box::pin(self.fill(filter, hint, id, conn)).await
    }

    /// Stores as many of several items as there is room for.
    async fn fill(&self, filter: Document, hint: Hint, id: Option<&str>, conn: &mut Conn<'_>) -> send::Result<Stored> {
        let KeyWrite { shared, key } = self.write;
        let (collection, settings) = shared.parts();
        let items: mongodb::error::Result<Vec<Bson>> = self.items.iter().map(|item| item.to_bson()).collect();
        let pipeline = fill(settings, key, id, items?);
        let options = FindOneAndUpdateOptions::builder()
            .projection(only_count(settings))
            .hint(hint)
            .upsert(id.map(|_| true))
            .build();
        let offered = self.items.len();
        let before = conn.find_one_and_update(collection, filter, pipeline, options).await?;
        let Some(before) = before else {
            return Ok(Stored::New {
                items: if id.is_some() { offered } else { 0 },
                opened: id.map(str::to_owned),
            });
        };
        let count = before.get(settings.count.as_str()).ok().flatten();
        let count = count.and_then(stored_integer).unwrap_or(0);
        let room = usize::try_from(i64::from(settings.page_size) - count).unwrap_or(0);
        Ok(Stored::New {
            items: room.min(offered),
            opened: None,
        })
    }
}
