use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Contention, Corrupt, InvalidArgument, InvalidItemId, InvalidTime};
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
    /// - When it returns, the item is stored once, to the collection's write concern. After an error it is not stored,
    ///   unless [`is_outcome_unknown`](Error::is_outcome_unknown) is true.
    /// - With an [item id field](crate::BucketRepositoryBuilder::item_id_field) it is idempotent: an item whose id the key
    ///   has already is not stored again. [`already_there`](Appended::already_there) tells so.
    /// - A bucket never exceeds the page size, and a key never has more than one open bucket, for any number of concurrent
    ///   writers.
    ///
    /// # Cost
    /// One round trip, in which the server examines at most one document. Concurrent appends to one key share commands: see
    /// [lanes](crate#lanes).
    ///
    /// One more round trip for writers that find the open bucket full at the same moment, and one or two more for a repeated
    /// item. The first write of a repository, and each write in a session, checks the index with one more. An append in a
    /// session that opens a bucket needs two more.
    ///
    /// # Cancel safety
    /// The item is stored or not. With an item id field, call it again. Without one, a second call can store the item twice.
    ///
    /// # Errors
    /// - [`InvalidTime`], [`InvalidItemId`]: the item has no valid time or id.
    /// - [`InvalidArgument`]: a field with [figures](crate::BucketRepositoryBuilder::sum) has no valid value.
    /// - [`Corrupt`]: the `_id` of the key's open bucket is of another key.
    /// - [`Contention`]: in a transaction of the caller, another writer conflicts.
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
        /// Sets the time of the item, which names a bucket that it opens. By default it is the time field, or now.
        ///
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
