use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::with_stored;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::DateTime;
use serde::Serialize;

use crate::BucketRepository;
use crate::form::item::{self, Item};
use crate::repository::Shared;
use crate::write::batch::StoreMany;
use crate::write::key_write::Write;

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends items to the history of a key: first to its open bucket, then in whole buckets.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let bought = doc! { "type": "buy", "ticker": "MDB", "qty": 419, "date": DateTime::now() };
    /// let sold = doc! { "type": "sell", "ticker": "MDB", "qty": 29, "date": DateTime::now() };
    /// let appended = trades.append_many(&123, &[bought, sold]).await?;
    /// println!("{} trades stored, {} pages opened", appended.items, appended.opened);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, all are stored once. When it fails, the error says [how many](Error::stored_count) are stored: always
    /// a prefix of the items. With an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field), items that are stored already, or stand in the
    /// batch twice, are [counted](AppendedMany::already_there) and not stored again, so a batch that failed may be repeated.
    ///
    /// # Order
    /// Consecutive items fill each bucket, and keep their order within it. The [policy](crate::IdPolicy) orders the
    /// buckets:
    ///
    /// - With [`IdPolicy::ItemTime`](crate::IdPolicy::ItemTime), the default, a bucket stands at the second of its first
    ///   item. So reads return the items in the order of the slice only if their times ascend. Forty items with descending
    ///   times are returned reversed at a page size of 1.
    /// - With [`IdPolicy::Monotonic`](crate::IdPolicy::Monotonic), each new bucket stands after those before it, so reads
    ///   return the items in the order of the slice, except for those that filled an open bucket among older ones.
    ///
    /// Items that others append meanwhile can stand between them.
    ///
    /// # Cost
    /// One round trip when all items fit the open bucket, or one page when there is none; else two for up to 1000
    /// buckets, and one more for each further 1000 buckets or 16 MiB. From 100 pages on one of them is a read where no
    /// bucket is open, and one more where one is. Where seconds of the items are taken already, or
    /// another writer opens a bucket meanwhile, two more. With [monotonic ids](crate::IdPolicy::Monotonic) or in a session,
    /// a read more. Where items are stored already, two more, and one more for each 1000 items of the rest of the batch.
    ///
    /// # In a session
    /// As for [`append`](Self::append): nothing is retried. A large batch in a transaction can exceed the server's limits
    /// of a transaction.
    ///
    /// # Cancel safety
    /// A prefix of the items is stored. With an item id field, call it again: it counts the items that are stored, and
    /// does not store them again. Without one, a second call may store items twice. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`append`](Self::append). For bad items nothing is stored:
    /// [`InvalidTime`](mongo_patterns_core::ErrorKind::InvalidTime),
    /// [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId),
    /// [`Encode`](mongo_patterns_core::ErrorKind::Encode), and [`TooLarge`](mongo_patterns_core::ErrorKind::TooLarge)
    /// when a page of them would pass 16 MiB.
    pub fn append_many<'a, Q>(&'a self, key: &Q, items: &'a [T]) -> AppendMany<'a, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        AppendMany {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            items,
            time: None,
            session: None,
        }
    }
}

/// Appends a batch; made by [`BucketRepository::append_many`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::{DateTime, Document, doc}};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let sold = [doc! { "ticker": "MDB", "qty": 29 }, doc! { "ticker": "MDB", "qty": 7 }];
/// trades.append_many(&123, &sold).at(DateTime::now()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct AppendMany<'a, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    items: &'a [T],
    time: Option<DateTime>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(AppendMany<'_, T>);

/// What a batch did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>, batch: Vec<Document>) -> mongo_patterns_core::Result<()> {
/// let appended = trades.append_many(&123, &batch).await?;
/// println!("{} new, {} stored before, {} pages", appended.items, appended.already_there, appended.opened);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedMany {
    /// How many items it stored: all of them but those that were there already.
    pub items: u64,
    /// How many items were not stored since they were already, by their ids, or were in the batch before.
    pub already_there: u64,
    /// How many buckets it opened for them.
    pub opened: u64,
}

impl<'a, T: Serialize> AppendMany<'a, T> {
    /// The time of all items, by which the buckets that they open are named, instead of that of their time field or
    /// now.
    pub fn at(mut self, time: impl Into<DateTime>) -> Self {
        self.time = Some(time.into());
        self
    }

    /// Appends in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    /// Encodes the items and checks all that can be checked before anything is sent.
    fn encode(&self) -> Result<Vec<Item>> {
        let settings = &self.shared.settings;
        let items = Item::encode_all(settings, self.items.iter(), self.time)?;
        item::check_sizes(settings, &items)?;
        Ok(items)
    }
}

impl<'a, T: Serialize> IntoFuture for AppendMany<'a, T> {
    type Output = Result<AppendedMany>;
    type IntoFuture = ActionFuture<'a, AppendedMany>;

    fn into_future(self) -> Self::IntoFuture {
        let encoded = self.encode();
        let Self {
            shared, key, session, ..
        } = self;
        run(shared.operation("append_many"), |span| async move {
            let key = key?;
            let items = encoded.map_err(|error| error.with_key(key.text()))?;
            let mut store = StoreMany::new(Write { shared, key: &key }, &span, &items);
            let mut session = Session::of_caller(session).await?;
            match store.run(session.as_mut()).await {
                Ok(()) => Ok(AppendedMany {
                    items: (items.len() - store.repeated.len()) as u64,
                    already_there: store.repeated.len() as u64,
                    opened: store.opened,
                }),
                Err(error) => Err(with_stored(error, store.stored(), session.as_ref()).with_key(key.text())),
            }
        })
    }
}
