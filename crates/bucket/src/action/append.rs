use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, record_attempts, run};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{self, Bson, DateTime, Document};
use mongodb::options::Hint;
use mongodb::results::UpdateResult;
use serde::Serialize;
use tracing::Span;

use crate::repository::Shared;
use crate::write::{Collision, Write, no_time};
use crate::{BucketRepository, IdPolicy, id, query};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends an item to the history of a key: to its open bucket, or to a new one.
    ///
    /// When it returns, the item is stored once, to the collection's write concern. An error means that it is not,
    /// unless [`is_outcome_unknown`](Error::is_outcome_unknown). Any number of writers may append to one key at a
    /// time: no bucket gets more than a page of items, and no key has two open buckets.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document at most. Writers that find the open bucket full at
    /// the same moment need a second one. [`IdPolicy::Monotonic`], and any append in a session, needs two more when it
    /// opens a bucket.
    ///
    /// # In a session
    /// Nothing is retried. When other writers are faster, this is [`ErrorKind::Contention`], in a transaction with the
    /// labels by which the driver runs the transaction again. What a transaction appended is stored when it commits,
    /// and not when it aborts.
    ///
    /// # Cancellation
    /// Dropping the future leaves open whether the item is stored. The session it ran in should not be used again.
    ///
    /// # Errors
    /// With nothing stored: [`InvalidKey`](ErrorKind::InvalidKey), [`InvalidTime`](ErrorKind::InvalidTime),
    /// [`Encode`](ErrorKind::Encode), [`TooLarge`](ErrorKind::TooLarge), [`IndexMissing`](ErrorKind::IndexMissing),
    /// [`Contention`](ErrorKind::Contention), [`Corrupt`](ErrorKind::Corrupt) when the key's open bucket has an `_id`
    /// that is not of this key, [`DuplicateKey`](ErrorKind::DuplicateKey) by a unique index of your own, and
    /// [`Unreachable`](ErrorKind::Unreachable).
    pub fn append<Q>(&self, key: &Q, item: &T) -> Append<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let item = bson::serialize_to_bson(item).map_err(|error| {
            Error::from_driver(
                ErrorKind::Encode,
                "the item cannot be written as BSON, nothing was stored: change its type",
                error.into(),
            )
        });
        Append {
            shared: self.shared(),
            input: key.encode_key().map_err(Error::from).and_then(|key| Ok((key, item?))),
            time: None,
            session: None,
        }
    }
}

/// Appends one item; made by [`BucketRepository::append`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Append<'a> {
    shared: &'a Shared,
    input: Result<(EncodedKey, Bson)>,
    time: Option<DateTime>,
    session: Option<&'a mut ClientSession>,
}

/// What an append did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The `_id` of the bucket that the item opened; `None` when it went into one that was open.
    pub opened: Option<String>,
}

impl<'a> Append<'a> {
    /// The item's time, by which a bucket that it opens is named, instead of that of its time field or now.
    pub fn at(mut self, time: impl Into<DateTime>) -> Self {
        self.time = Some(time.into());
        self
    }

    /// Appends in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self, span: Span) -> Result<Appended> {
        let (key, item) = self.input?;
        let write = Write {
            shared: self.shared,
            key: &key,
        };
        let time = match (self.time, &self.shared.settings.time) {
            (Some(time), _) => time,
            (None, None) => DateTime::now(),
            (None, Some(field)) => item
                .as_document()
                .and_then(|item| item.get_datetime(field.as_str()).ok())
                .copied()
                .ok_or_else(|| no_time(field))?,
        };
        let work = Work {
            write,
            span,
            second: id::second_text(time)?,
            push: query::push(&self.shared.settings, item),
        };
        let appended = match self.session {
            Some(session) => work.look_first(Some(session)).await,
            None if self.shared.settings.id_policy == IdPolicy::Monotonic => work.look_first(None).await,
            None => work.upsert_first().await,
        };
        appended.map_err(|error| error.with_key(key.text()))
    }
}

impl<'a> IntoFuture for Append<'a> {
    type Output = Result<Appended>;
    type IntoFuture = ActionFuture<'a, Appended>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("append"), |span| self.execute(span))
    }
}

struct Work<'a> {
    write: Write<'a>,
    span: Span,
    second: String,
    push: Document,
}

impl Work<'_> {
    /// One upsert, as in the manual. On a collision the next attempt names another bucket: it is opened only if there
    /// is still no open one.
    async fn upsert_first(&self) -> Result<Appended> {
        let Write { shared, key } = self.write;
        let suffixes = &shared.suffixes;
        let base = key.id(&self.second);
        let mut attempts = shared.settings.retry.start();
        let mut gate = None;
        let mut opened_by_others = 0_u32;
        loop {
            let suffix = suffixes.next(&base);
            let tail = id::with_suffix(&self.second, suffix)?;
            let error = match self.upsert(&tail, None).await {
                Ok(appended) => {
                    if suffix > 0 && appended.opened.is_some() {
                        suffixes.raise(&base, suffix + 1);
                    }
                    record_attempts(&self.span, attempts.made());
                    return Ok(appended);
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
                        suffixes.raise(&base, self.write.free_suffix(&self.second).await?);
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
    async fn look_first(&self, mut session: Option<&mut ClientSession>) -> Result<Appended> {
        let mut attempts = self.write.shared.settings.retry.start();
        let mut opened_by_others = 0_u32;
        loop {
            let update = self.update(self.push.clone(), false, session.as_deref_mut());
            if update.await.map_err(|error| self.write.failed(error))?.matched_count > 0 {
                record_attempts(&self.span, attempts.made());
                return Ok(Appended { opened: None });
            }
            let tail = self.write.free_tail(&self.second, session.as_deref_mut()).await?;
            let error = match self.upsert(&tail, session.as_deref_mut()).await {
                Ok(appended) => {
                    record_attempts(&self.span, attempts.made());
                    return Ok(appended);
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

    async fn upsert(&self, tail: &str, session: Option<&mut ClientSession>) -> mongodb::error::Result<Appended> {
        let Write { shared, key } = self.write;
        let id = key.id(tail);
        let mut update = self.push.clone();
        update.insert("$setOnInsert", query::on_insert(&shared.settings, key, &id));
        let result = self.update(update, true, session).await?;
        Ok(Appended {
            opened: result.upserted_id.map(|_| id),
        })
    }

    /// The hint makes the server refuse the write when the unique index is missing.
    async fn update(
        &self,
        update: Document,
        upsert: bool,
        session: Option<&mut ClientSession>,
    ) -> mongodb::error::Result<UpdateResult> {
        let Shared {
            collection, settings, ..
        } = self.write.shared;
        let mut action = collection
            .update_one(query::open_bucket(settings, self.write.key), update)
            .hint(Hint::Name(settings.open_index()));
        if upsert {
            action = action.upsert(true);
        }
        if let Some(session) = session {
            action = action.session(session);
        }
        action.await
    }
}
