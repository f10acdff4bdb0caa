use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, record_attempts, run};
use mongo_patterns_core::error::{duplicate_key, is_bad_hint};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{self, Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{Hint, ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::results::UpdateResult;
use serde::Serialize;
use tracing::Span;

use crate::id::{self, Tail};
use crate::repository::Shared;
use crate::{BucketRepository, IdPolicy, query};

/// How often another writer may open the key's bucket under our hands before we look whether it is one that we cannot
/// append to.
const OPENED_BY_OTHERS: u32 = 3;

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
        let work = Work {
            shared: self.shared,
            span,
            key: &key,
            second: second(self.shared, self.time, &item)?,
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

/// The second of an item, as the `_id` of a bucket holds it.
fn second(shared: &Shared, time: Option<DateTime>, item: &Bson) -> Result<String> {
    let time = match (time, &shared.settings.time) {
        (Some(time), _) => time,
        (None, None) => DateTime::now(),
        (None, Some(field)) => item
            .as_document()
            .and_then(|item| item.get_datetime(field.as_str()).ok())
            .copied()
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidTime,
                    format!("the item has no BSON date in its time field `{field}`, nothing was stored: a type such as bson::DateTime is one"),
                )
            })?,
    };
    id::second_text(time)
}

/// The unique index on which two writers met.
enum Collision {
    /// The `_id` of the new bucket is taken.
    Id,
    /// The key has an open bucket by now.
    Open,
}

struct Work<'a> {
    shared: &'a Shared,
    span: Span,
    key: &'a EncodedKey,
    second: String,
    push: Document,
}

impl Work<'_> {
    /// One upsert, as in the manual. On a collision the next attempt names another bucket: it is opened only if there
    /// is still no open one.
    async fn upsert_first(&self) -> Result<Appended> {
        let suffixes = &self.shared.suffixes;
        let base = self.key.id(&self.second);
        let mut attempts = self.shared.settings.retry.start();
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
            match self.collision(&error) {
                Some(Collision::Id) => {
                    let next = suffixes.raise(&base, suffix + 1);
                    if gate.is_none() {
                        gate = Some(suffixes.gate(&base).await);
                    } else if next == suffix + 1 {
                        // Taken again, and not by this process: there may be any number of them.
                        suffixes.raise(&base, self.free_suffix().await?);
                    }
                }
                Some(Collision::Open) => {
                    opened_by_others += 1;
                    if opened_by_others.is_multiple_of(OPENED_BY_OTHERS) {
                        self.check_open_bucket().await?;
                    }
                }
                None => return Err(self.failed(error)),
            }
            attempts.next(error).await?;
        }
    }

    /// An update of the open bucket, and only if there is none a look at the newest bucket and an upsert: for where a
    /// collision must not happen, as it would abort the caller's transaction, or where the newest bucket matters.
    async fn look_first(&self, mut session: Option<&mut ClientSession>) -> Result<Appended> {
        let mut attempts = self.shared.settings.retry.start();
        let mut opened_by_others = 0_u32;
        loop {
            let update = self.update(self.push.clone(), false, session.as_deref_mut());
            if update.await.map_err(|error| self.failed(error))?.matched_count > 0 {
                record_attempts(&self.span, attempts.made());
                return Ok(Appended { opened: None });
            }
            let tail = self.free_tail(session.as_deref_mut()).await?;
            let error = match self.upsert(&tail, session.as_deref_mut()).await {
                Ok(appended) => {
                    record_attempts(&self.span, attempts.made());
                    return Ok(appended);
                }
                Err(error) => error,
            };
            if session.is_some() || self.collision(&error).is_none() {
                return Err(self.failed(error));
            }
            opened_by_others += 1;
            if opened_by_others.is_multiple_of(OPENED_BY_OTHERS) {
                self.check_open_bucket().await?;
            }
            attempts.next(error).await?;
        }
    }

    async fn upsert(&self, tail: &str, session: Option<&mut ClientSession>) -> mongodb::error::Result<Appended> {
        let id = self.key.id(tail);
        let mut update = self.push.clone();
        update.insert("$setOnInsert", query::on_insert(&self.shared.settings, self.key, &id));
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
        } = self.shared;
        let mut action = collection
            .update_one(query::open_bucket(settings, self.key), update)
            .hint(Hint::Name(settings.open_index()));
        if upsert {
            action = action.upsert(true);
        }
        if let Some(session) = session {
            action = action.session(session);
        }
        action.await
    }

    /// The suffix after the last one of the item's second.
    async fn free_suffix(&self) -> Result<u32> {
        match self.newest_tail(true, None).await? {
            Some(tail) => Ok(self.parse(&tail)?.suffix + 1),
            None => Ok(0),
        }
    }

    /// The tail of a bucket that does not exist: the item's second, with a suffix where that is taken, or, by policy,
    /// where the key has a later bucket.
    async fn free_tail(&self, session: Option<&mut ClientSession>) -> Result<String> {
        let any_second = self.shared.settings.id_policy == IdPolicy::Monotonic;
        match self.newest_tail(!any_second, session).await? {
            Some(newest) if newest.as_str() >= self.second.as_str() => self.parse(&newest)?.successor(),
            _ => Ok(self.second.clone()),
        }
    }

    async fn newest_tail(&self, of_second: bool, session: Option<&mut ClientSession>) -> Result<Option<String>> {
        let settings = &self.shared.settings;
        let filter = if of_second {
            query::buckets_of_second(settings, self.key, &self.second)
        } else {
            query::buckets_of_key(settings, self.key)
        };
        let found = self.look(filter, session).await?;
        let id = found.as_ref().and_then(|found| found.get_str("_id").ok());
        Ok(id.and_then(|id| self.key.tail(id)).map(str::to_owned))
    }

    /// The last `_id` that matches, as the primary has it now: where a write goes does not follow from a secondary's, or
    /// an older, state, whatever the collection's reads are set to.
    async fn look(&self, filter: Document, session: Option<&mut ClientSession>) -> Result<Option<RawDocumentBuf>> {
        let find = self.shared.collection.find_one(filter);
        let find = find.sort(doc! { "_id": -1 }).projection(doc! { "_id": 1 });
        let find = find.selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        Ok(match session {
            Some(session) => find.session(session).await?,
            None => find.read_concern(ReadConcern::local()).await?,
        })
    }

    fn parse<'t>(&self, tail: &'t str) -> Result<Tail<'t>> {
        Tail::parse(tail).ok_or_else(|| self.foreign_id(Bson::String(self.key.id(tail))))
    }

    /// An open bucket whose `_id` is not of this key would keep us from opening one, and we would never find it.
    async fn check_open_bucket(&self) -> Result<()> {
        let filter = query::open_bucket_of_any_id(&self.shared.settings, self.key);
        let open = self.look(filter, None).await?;
        let id = open.and_then(|open| open.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()));
        match id {
            Some(id) if id.as_str().and_then(|id| self.key.tail(id)).is_none() => Err(self.foreign_id(id)),
            _ => Ok(()),
        }
    }

    fn foreign_id(&self, id: Bson) -> Error {
        Error::corrupt(
            id,
            "_id",
            "the `_id` of a bucket of this key is not the encoded key, `_`, and the second at which it was opened, so it cannot be appended to, nothing was stored: repair it",
        )
    }

    fn collision(&self, error: &DriverError) -> Option<Collision> {
        let settings = &self.shared.settings;
        let duplicate = duplicate_key(error)?;
        match duplicate.fields.as_slice() {
            [field] if field == "_id" => Some(Collision::Id),
            [field] if field == settings.key.as_str() => {
                let ours = duplicate.index.is_none_or(|index| index == settings.open_index());
                ours.then_some(Collision::Open)
            }
            _ => None,
        }
    }

    fn failed(&self, error: DriverError) -> Error {
        if is_bad_hint(&error) {
            let message = format!(
                "the index `{}` is missing, nothing was stored: call ensure_indexes() once before the first append",
                self.shared.settings.open_index()
            );
            return Error::from_driver(ErrorKind::IndexMissing, message, error);
        }
        let other = duplicate_key(&error).filter(|_| self.collision(&error).is_none());
        let Some(other) = other else { return error.into() };
        let name = other.index.unwrap_or_default();
        let (kind, advice) = if other.fields == [self.shared.settings.key.as_str()] {
            (ErrorKind::IndexMismatch, "it is of another page size: drop it")
        } else {
            (ErrorKind::DuplicateKey, "it is an index of your own")
        };
        let message = format!("the unique index `{name}` refused the write, nothing was stored: {advice}");
        Error::from_driver(kind, message, error)
    }
}
