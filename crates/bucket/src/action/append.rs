use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::DateTime;
use serde::Serialize;

use crate::BucketRepository;
use crate::form::item::Item;
use crate::repository::Shared;
use crate::write::key_write::Write;
use crate::write::store::{Store, Stored};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends an item to the history of a key: to its open bucket, or to a new one.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let trade = doc! { "type": "buy", "ticker": "MDB", "qty": 419, "date": DateTime::now() };
    /// let appended = trades.append(&123, &trade).await?;
    /// if let Some(bucket) = appended.opened {
    ///     println!("it is the first of a new page, {bucket}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the item is stored once, to the collection's write concern. An error means that it is not,
    /// unless [`is_outcome_unknown`](Error::is_outcome_unknown). With an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field) it may then be called again: an item whose id is
    /// stored for the key is [recognised](Appended::already_there), wherever in the history it is, and not stored again.
    ///
    /// Any number of writers may append to one key at a time: no bucket gets more than a page of items, and no key has
    /// two open buckets.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document at most. Writers that find the open bucket full at
    /// the same moment need a second one. An append with [monotonic ids](crate::IdPolicy::Monotonic) or in a session
    /// needs two more when it opens a bucket.
    ///
    /// With an item id field a repeated item takes two or three. One more is needed by the first write of a repository,
    /// to see that the index is there, by a write that met another at a full bucket, and by one in a session.
    ///
    /// # In a session
    /// Nothing is retried. When other writers are faster, this is [`Contention`], in a transaction with the labels by
    /// which the driver runs the transaction again. What a transaction appended is stored when it commits, and not when
    /// it aborts.
    ///
    /// # Cancel safety
    /// The item is stored or not, as a whole. With an item id field, call it again: it returns
    /// [`already_there`](Appended::already_there) where the item is stored. Without one, a second call may store the
    /// item twice. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`InvalidKey`], [`InvalidTime`], [`InvalidItemId`], [`Encode`], [`TooLarge`],
    /// [`IndexMissing`], [`Contention`], [`Corrupt`] when the key's open bucket has an `_id` that is not of this key,
    /// [`DuplicateKey`] by a unique index of your own, and [`ServerSelection`].
    ///
    /// [`InvalidKey`]: mongo_patterns_core::ErrorKind::InvalidKey
    /// [`InvalidTime`]: mongo_patterns_core::ErrorKind::InvalidTime
    /// [`InvalidItemId`]: mongo_patterns_core::ErrorKind::InvalidItemId
    /// [`Encode`]: mongo_patterns_core::ErrorKind::Encode
    /// [`TooLarge`]: mongo_patterns_core::ErrorKind::TooLarge
    /// [`IndexMissing`]: mongo_patterns_core::ErrorKind::IndexMissing
    /// [`Contention`]: mongo_patterns_core::ErrorKind::Contention
    /// [`Corrupt`]: mongo_patterns_core::ErrorKind::Corrupt
    /// [`DuplicateKey`]: mongo_patterns_core::ErrorKind::DuplicateKey
    /// [`ServerSelection`]: mongo_patterns_core::ErrorKind::ServerSelection
    pub fn append<'a, Q>(&'a self, key: &Q, item: &'a T) -> Append<'a, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Append {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            item,
            time: None,
            session: None,
        }
    }
}

/// Appends one item; made by [`BucketRepository::append`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::{DateTime, Document, doc}};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let trade = doc! { "ticker": "MDB", "qty": 419 };
/// trades.append(&123, &trade).at(DateTime::now()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Append<'a, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    item: &'a T,
    time: Option<DateTime>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Append<'_, T>);

/// What an append did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>, trade: Document) -> mongo_patterns_core::Result<()> {
/// let appended = trades.append(&123, &trade).await?;
/// match appended.opened {
///     _ if appended.already_there => println!("it was stored by an earlier call"),
///     Some(bucket) => println!("it opened {bucket}"),
///     None => println!("it is in the open bucket"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The `_id` of the bucket that the item opened; `None` when it went into one that was open, was not stored, or went
    /// out [together](crate::BatchingWriter) with others.
    pub opened: Option<String>,
    /// Whether an item with its id was stored before, so that nothing was stored now.
    pub already_there: bool,
}

impl<'a, T> Append<'a, T> {
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
}

impl<'a, T: Serialize> IntoFuture for Append<'a, T> {
    type Output = Result<Appended>;
    type IntoFuture = ActionFuture<'a, Appended>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            key,
            item,
            time,
            session,
        } = self;
        let item = Item::encode(&shared.settings, item, time);
        run(shared.operation("append"), |span| async move {
            let key = key?;
            let item = item.map_err(|error| error.with_key(key.text()))?;
            let store = Store {
                write: Write { shared, key: &key },
                span: &span,
                items: &[&item],
            };
            let mut session = Session::of_caller(session).await?;
            let _locked = match session {
                None => Some(shared.locks.shared(key.text()).await),
                Some(_) => None,
            };
            match store.run(session.as_mut()).await {
                Ok(Stored::New { opened, .. }) => Ok(Appended {
                    opened,
                    already_there: false,
                }),
                Ok(Stored::Repeated) => Ok(Appended {
                    opened: None,
                    already_there: true,
                }),
                Err(error) => Err(error.with_key(key.text())),
            }
        })
    }
}
