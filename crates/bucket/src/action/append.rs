use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Contention, Corrupt, DuplicateKey, Encode, IndexMissing, InvalidArgument, InvalidItemId, InvalidKey, InvalidTime,
    ServerSelection, TooLarge,
};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::lanes::{BatchOutcome, Entered, Lane, Target};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;
use serde::Serialize;
use tracing::Span;

use crate::form::item::{Item, check_sizes};
use crate::repository::{BucketRepository, History, Shared};
use crate::results::Appended;
use crate::write::batch::StoreBatch;
use crate::write::key_write::KeyWrite;
use crate::write::store::Store;

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends an item to the history of a key: to its open bucket, or to a new one.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// let trade = doc! { "type": "buy", "ticker": "MDB", "qty": 419, "date": DateTime::now() };
    /// let appended = trades.append(&123, &trade).await?;
    /// if let Some(bucket) = appended.opened {
    ///     println!("the trade is the first of the new page {bucket}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// - When it returns, the item is stored once, to the collection's write concern. After an error the item is not
    ///   stored, unless [`is_outcome_unknown`](Error::is_outcome_unknown) is true.
    /// - With an [item id field](crate::BucketRepositoryBuilder::item_id_field) it is idempotent: an item whose id is
    ///   stored anywhere in the history of the key is not stored again, and reported as
    ///   [`already_there`](Appended::already_there).
    /// - Safe for concurrent writers: a bucket never exceeds the page size, and a key never has more than one open
    ///   bucket.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document at most. Writers that find the open bucket full at the
    /// same moment need a second one. An append in a session needs two more when it opens a
    /// bucket. Concurrent appends to one key share commands: see [lanes](crate#lanes).
    ///
    /// With an item id field a repeated item needs two or three. The first write of a repository needs one more, to
    /// check that the index exists. So does a write that met another one at a full bucket, and a write in a session.
    ///
    /// # Sessions and transactions
    /// As for [all actions](mongo_patterns_core::action#sessions-and-transactions). A conflict with another writer is
    /// [`Contention`].
    ///
    /// # Cancel safety
    /// The item is stored or not, as a whole. With an item id field, call it again: it returns
    /// [`already_there`](Appended::already_there) if the item is stored. Without one, a second call can store the item
    /// twice. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`InvalidKey`], [`InvalidTime`], [`InvalidItemId`], [`Encode`], [`TooLarge`],
    /// [`InvalidArgument`] when a field with [figures](crate::BucketRepositoryBuilder::sum) has no valid value,
    /// [`IndexMissing`], [`Contention`], [`Corrupt`] when the `_id` of the key's open bucket is not of this key,
    /// [`DuplicateKey`] by a unique index that is not of the pattern, and [`ServerSelection`].
    pub fn append<Q: EncodeKey + ?Sized>(&self, key: &Q, item: &T) -> Append<'_>
    where
        K: Borrow<Q>,
    {
        Append {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            item: Encoded::one(item),
            time: None,
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Appends one item; returned by [`BucketRepository::append`].
    pub struct Append<'a> {
        shared: &'a Arc<Shared>,
        key: Result<EncodedKey>,
        item: Result<Encoded>,
        time: Option<DateTime>,
    }
    with session;
    "append" => Appended
}

impl Append<'_> {
    mongo_patterns_core::setters! {
        /// Sets the time of the item, which names a bucket that it opens, in place of its time field or now.
        /// With [windows](crate::BucketRepositoryBuilder::window) it must be in the window of the time field.
        at(time: impl Into<DateTime>) => time = Some(time.into());
    }

    async fn execute(self) -> Result<Appended> {
        let span = Span::current();
        let (shared, key) = (self.shared, self.key?);
        let item = self.item.and_then(|item| Item::new(&shared.settings, item, self.time));
        let item = item.map_err(|error| error.with_key(key.text()))?;
        let appended = match self.session {
            None => append(shared, &key, item, span).await,
            session => {
                let mut conn = shared.enter(&key, session).await?;
                append_alone(shared, &key, &item, &span, &mut conn).await
            }
        };
        appended.map_err(|error| error.with_key(key.text()))
    }
}

/// Appends an item in the lane of its key.
async fn append(shared: &Arc<Shared>, key: &EncodedKey, item: Item, span: Span) -> Result<Appended> {
    let queue = || key.text().as_bytes().to_owned();
    let history = || History {
        shared: Arc::clone(shared),
        key: key.clone(),
        span: span.clone(),
    };
    match shared.appends.enter(key.text(), queue, item, history).await {
        Entered::Alone(lane, item) => append_alone(shared, key, &item, &span, &mut Conn::in_lane(lane)).await,
        Entered::Joined(appended) => appended,
    }
}

/// Appends an item by itself.
async fn append_alone(
    shared: &Shared,
    key: &EncodedKey,
    item: &Item,
    span: &Span,
    conn: &mut Conn<'_>,
) -> Result<Appended> {
    let write = KeyWrite { shared, key };
    let items = &[item];
    let store = Store { write, span, items };
    Ok(store.store(conn).await?.into())
}

impl Target for History {
    type Item = Item;
    type Output = Appended;

    const INTERRUPTED: &'static str = "the tokio runtime of a call that appends for this one ended, the item may or may not be stored: append it again";

    fn bytes(item: &Item) -> usize {
        item.bytes()
    }

    async fn store(&self, items: &[Item], lane: Lane) -> BatchOutcome<Appended> {
        if let Err(error) = check_sizes(&self.shared.settings, items) {
            return BatchOutcome {
                results: Vec::new(),
                error: Some(error),
            };
        }
        let (shared, key) = (&*self.shared, &self.key);
        let mut store = StoreBatch::new(KeyWrite { shared, key }, &self.span, items);
        store.opened_by = Some(HashMap::new());
        let error = store.store(&mut Conn::in_lane(lane)).await.err();
        let mut opened_by = store.opened_by.take().unwrap_or_default();
        let appended = |position| {
            Ok(Appended {
                opened: opened_by.remove(&position),
                already_there: store.repeated.contains(&position),
            })
        };
        BatchOutcome {
            results: (0..store.stored()).map(appended).collect(),
            error,
        }
    }
}
