use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{self, Bson, DateTime};
use serde::Serialize;
use tracing::Span;

use crate::item_id::ItemId;
use crate::repository::Shared;
use crate::store::{Content, Store, Stored};
use crate::write::{Write, second_of};
use crate::{BucketRepository, query};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends an item to the history of a key: to its open bucket, or to a new one.
    ///
    /// When it returns, the item is stored once, to the collection's write concern. An error means that it is not,
    /// unless [`is_outcome_unknown`](Error::is_outcome_unknown). With an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field) it may then be called again: an item whose id is
    /// stored for the key is [recognised](Appended::repeated), wherever in the history it is, and not stored again. Any number of writers may append to one key at a
    /// time: no bucket gets more than a page of items, and no key has two open buckets.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document at most. Writers that find the open bucket full at
    /// the same moment need a second one. An append with [monotonic ids](crate::IdPolicy::Monotonic) or in a session needs
    /// two more when it opens a bucket. A repeated item takes two or three. With an item id field, the first write of a
    /// repository takes one more, to see that the index is there, a write that met another at a full bucket one, and
    /// one in a session one.
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
    /// [`InvalidItemId`](ErrorKind::InvalidItemId), [`Encode`](ErrorKind::Encode), [`TooLarge`](ErrorKind::TooLarge), [`IndexMissing`](ErrorKind::IndexMissing),
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The `_id` of the bucket that the item opened; `None` when it went into one that was open, was not stored, or went
    /// out [together](crate::CombiningWriter) with others.
    pub opened: Option<String>,
    /// Whether the item was stored before, by its id, so that nothing was stored now.
    pub repeated: bool,
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
        let in_item = |field: &str| {
            item.as_document()
                .and_then(|item| item.get_datetime(field).ok().copied())
        };
        let settings = &self.shared.settings;
        let second = second_of(settings, self.time, in_item)?;
        let id = ItemId::of_item(settings, |field| item.as_document()?.get(field).cloned())?;
        let store = Store {
            write,
            span: &span,
            second: &second,
            content: Content::Item(query::push(settings, item)),
            ids: &id.iter().collect::<Vec<_>>(),
        };
        let stored = async {
            write.check_item_index().await?;
            store.run(self.session).await
        };
        let stored = stored.await.map_err(|error| error.with_key(key.text()))?;
        Ok(match stored {
            Stored::New { opened, .. } => Appended {
                opened,
                repeated: false,
            },
            Stored::Repeated => Appended {
                opened: None,
                repeated: true,
            },
        })
    }
}

impl<'a> IntoFuture for Append<'a> {
    type Output = Result<Appended>;
    type IntoFuture = ActionFuture<'a, Appended>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("append"), |span| self.execute(span))
    }
}
