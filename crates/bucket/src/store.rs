//! Stores items in the open bucket of a key, or in one that it opens.

use mongo_patterns_core::Result;
use mongo_patterns_core::action::record_attempts;
use mongo_patterns_core::key::stored_integer;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Hint;
use tracing::Span;

use crate::repository::Shared;
use crate::write::{Collision, Write};
use crate::{IdPolicy, id, query};

/// What is stored.
pub(crate) enum Content {
    /// One item, as the update that pushes it.
    Item(Document),
    /// As many of these items as there is room for, from the first. At most a page of them.
    Items(Vec<Bson>),
}

/// What was stored, and where.
pub(crate) struct Stored {
    pub(crate) items: usize,
    /// The `_id` of the bucket that was opened for them.
    pub(crate) opened: Option<String>,
}

pub(crate) struct Store<'a> {
    pub(crate) write: Write<'a>,
    pub(crate) span: &'a Span,
    /// The second of the first item.
    pub(crate) second: &'a str,
    pub(crate) content: Content,
}

impl Store<'_> {
    pub(crate) async fn run(&self, session: Option<&mut ClientSession>) -> Result<Stored> {
        if session.is_some() || self.write.shared.settings.id_policy == IdPolicy::Monotonic {
            self.look_first(session).await
        } else {
            self.upsert_first().await
        }
    }

    /// One upsert, as in the manual. On a collision the next attempt names another bucket: it is opened only if there
    /// is still no open one.
    async fn upsert_first(&self) -> Result<Stored> {
        let Write { shared, key } = self.write;
        let suffixes = &shared.suffixes;
        let base = key.id(self.second);
        let mut attempts = shared.settings.retry.start();
        let mut gate = None;
        let mut opened_by_others = 0_u32;
        loop {
            let suffix = suffixes.next(&base);
            let tail = id::with_suffix(self.second, suffix)?;
            let error = match self.attempt(Some(&tail), None).await {
                Ok(stored) => {
                    if suffix > 0 && stored.opened.is_some() {
                        suffixes.raise(&base, suffix + 1);
                    }
                    record_attempts(self.span, attempts.made());
                    return Ok(stored);
                }
                Err(error) => error,
            };
            match self.write.collision(&error) {
                Some(Collision::Id) => {
                    let next = suffixes.raise(&base, suffix + 1);
                    if gate.is_none() {
                        gate = Some(suffixes.gate(&base).await);
                    } else if next == suffix + 1 {
                        // Taken again, and not by this process: there may be any number of them.
                        suffixes.raise(&base, self.write.free_suffix(self.second).await?);
                    }
                }
                Some(Collision::Open) => {
                    opened_by_others += 1;
                    self.write.check_open_bucket(opened_by_others).await?;
                }
                None => return Err(self.write.failed(error)),
            }
            attempts.next(error).await?;
        }
    }

    /// An update of the open bucket, and only if there is none a look at the newest bucket and an upsert: for where a
    /// collision must not happen, as it would abort the caller's transaction, or where the newest bucket matters.
    async fn look_first(&self, mut session: Option<&mut ClientSession>) -> Result<Stored> {
        let mut attempts = self.write.shared.settings.retry.start();
        let mut opened_by_others = 0_u32;
        loop {
            let stored = self.attempt(None, session.as_deref_mut()).await;
            let stored = stored.map_err(|error| self.write.failed(error))?;
            if stored.items > 0 {
                record_attempts(self.span, attempts.made());
                return Ok(stored);
            }
            let tail = self.write.free_tail(self.second, session.as_deref_mut()).await?;
            let error = match self.attempt(Some(&tail), session.as_deref_mut()).await {
                Ok(stored) => {
                    record_attempts(self.span, attempts.made());
                    return Ok(stored);
                }
                Err(error) => error,
            };
            if session.is_some() || self.write.collision(&error).is_none() {
                return Err(self.write.failed(error));
            }
            opened_by_others += 1;
            self.write.check_open_bucket(opened_by_others).await?;
            attempts.next(error).await?;
        }
    }

    /// One command: to the open bucket, or, with a tail, to a new one of that `_id`. The hint makes the server refuse
    /// it when the unique index is missing.
    async fn attempt(&self, tail: Option<&str>, session: Option<&mut ClientSession>) -> mongodb::error::Result<Stored> {
        let Write { shared, key } = self.write;
        let Shared {
            collection, settings, ..
        } = shared;
        let filter = query::open_bucket(settings, key);
        let hint = Hint::Name(settings.open_index());
        let id = tail.map(|tail| key.id(tail));
        match &self.content {
            Content::Item(push) => {
                let mut update = push.clone();
                if let Some(id) = &id {
                    update.insert("$setOnInsert", query::on_insert(settings, key, id));
                }
                let mut action = collection.update_one(filter, update).hint(hint);
                if id.is_some() {
                    action = action.upsert(true);
                }
                if let Some(session) = session {
                    action = action.session(session);
                }
                let result = action.await?;
                let opened = result.upserted_id.and(id);
                let items = usize::from(result.matched_count > 0 || opened.is_some());
                Ok(Stored { items, opened })
            }
            Content::Items(items) => {
                let pipeline = query::fill(settings, key, id.as_deref(), items.clone());
                let mut action = collection
                    .find_one_and_update(filter, pipeline.to_vec())
                    .projection(doc! { settings.count.as_str(): 1 })
                    .hint(hint);
                if id.is_some() {
                    action = action.upsert(true);
                }
                if let Some(session) = session {
                    action = action.session(session);
                }
                let offered = items.len();
                Ok(match action.await? {
                    None if id.is_none() => Stored { items: 0, opened: None },
                    None => Stored {
                        items: offered,
                        opened: id,
                    },
                    Some(before) => {
                        let count = before.get(settings.count.as_str()).ok().flatten();
                        let count = count.and_then(stored_integer).unwrap_or(0);
                        let room = usize::try_from(i64::from(settings.page_size) - count).unwrap_or(0);
                        Stored {
                            items: room.min(offered),
                            opened: None,
                        }
                    }
                })
            }
        }
    }
}
