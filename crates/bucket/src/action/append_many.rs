use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Encode, InvalidArgument, InvalidItemId, InvalidTime, TooLarge};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::transaction::with_stored;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;
use serde::Serialize;
use tracing::Span;

use crate::form::item::{Item, check_sizes};
use crate::repository::{BucketRepository, Shared};
use crate::results::AppendedMany;
use crate::write::batch::StoreBatch;
use crate::write::key_write::KeyWrite;

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends items to the history of a key: first to its open bucket, then in whole buckets.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// let bought = doc! { "type": "buy", "ticker": "MDB", "qty": 419, "date": DateTime::now() };
    /// let sold = doc! { "type": "sell", "ticker": "MDB", "qty": 29, "date": DateTime::now() };
    /// let appended = trades.append_many(&123, &[bought, sold]).await?;
    /// println!("{} trades stored, {} pages opened", appended.items, appended.opened);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// - When it returns, all items are stored once. After an error, the first [`stored_count`](Error::stored_count) items
    ///   are stored.
    /// - With an [item id field](crate::BucketRepositoryBuilder::item_id_field) it is safe to retry: repeated items are not
    ///   stored again. [`already_there`](AppendedMany::already_there) counts them.
    ///
    /// # Order
    /// Consecutive items fill each bucket, and keep their order in it. A bucket is named by the second of its first item. So
    /// reads return the items in the order of the slice only if their times ascend. Items of concurrent writers can be
    /// between them.
    ///
    /// # Cost
    /// One round trip when all items fit into the open bucket, or into one page if no bucket is open. Otherwise two for up
    /// to 1000 buckets, and one for each further 1000 buckets or 16 MiB.
    ///
    /// One or two more from 100 pages on, in a session, or where another writer opens a bucket concurrently. Two more where
    /// items are stored already, and one for each 1000 items after them.
    ///
    /// # Sessions and transactions
    /// A large batch can exceed the server's limits of a transaction.
    ///
    /// # Cancel safety
    /// A prefix of the items is stored. With an item id field, call it again. Without one, a second call can store items
    /// twice.
    ///
    /// # Errors
    /// - The errors of [`append`](Self::append). After these, nothing is stored: [`InvalidTime`], [`InvalidItemId`],
    ///   [`Encode`], [`InvalidArgument`] and [`TooLarge`].
    pub fn append_many<Q: EncodeKey + ?Sized>(&self, key: &Q, items: &[T]) -> AppendMany<'_>
    where
        K: Borrow<Q>,
    {
        AppendMany {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            items: Encoded::all(items.iter()),
            time: None,
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Appends several items; returned by [`BucketRepository::append_many`].
    pub struct AppendMany<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        items: Result<Vec<Encoded>>,
        time: Option<DateTime>,
    }
    with session;
    "append_many" => AppendedMany
}

impl AppendMany<'_> {
    mongo_patterns_core::setters! {
        /// Sets the time of all items, which names the buckets that they open. By default it is their time field, or now.
        ///
        /// With [windows](crate::BucketRepositoryBuilder::window) it must be in the window of the time field.
        at(time: impl Into<DateTime>) => time = Some(time.into());
    }

    async fn execute(self) -> Result<AppendedMany> {
        let span = Span::current();
        let (shared, key) = (self.shared, self.key?);
        let settings = &shared.settings;
        let items = self.items.and_then(|items| Item::all(settings, items, self.time));
        let checked = items.and_then(|items| check_sizes(settings, &items).map(|()| items));
        let items = checked.map_err(|error| error.with_key(key.text()))?;
        let mut store = StoreBatch::new(KeyWrite { shared, key: &key }, &span, &items);
        let mut conn = shared.enter(&key, self.session).await?;
        match store.store(&mut conn).await {
            Ok(()) => Ok(AppendedMany {
                items: (items.len() - store.repeated.len()) as u64,
                already_there: store.repeated.len() as u64,
                opened: store.opened,
            }),
            Err(error) => Err(with_stored(error, store.stored(), &conn).with_key(key.text())),
        }
    }
}
