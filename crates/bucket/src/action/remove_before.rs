use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, InvalidKey};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::settings::{check_bound, configuration};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;

use crate::query::buckets::{first_by_id, only_id};
use crate::query::expiry::{all_before, these_before};
use crate::repository::{BucketRepository, Shared};
use crate::results::RemovedBuckets;
use crate::settings::Settings;
use crate::write::old_items::OldItems;

const CHUNK: u32 = 1000;

impl<K: Key, T> BucketRepository<K, T> {
    /// Removes the buckets of a key whose items are all before a time, by their time field.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start_of_year: DateTime) -> mongo_patterns::Result<()> {
    /// let removed = trades.remove_before(&123, start_of_year).await?;
    /// println!("{} pages of older trades were removed", removed.buckets);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A bucket with a later item stays as a whole, with its older items: every page but the last stays full, and no item
    /// moves. With [`exact`](RemoveBefore::exact) they are removed too. An item without a date is not before any time.
    ///
    /// # Cost
    /// One round trip. The server reads every bucket of the key. With [`exact`](RemoveBefore::exact) about seven, in which
    /// all pages from the first with an older item to the last are read and rewritten at once.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller all of these buckets are removed, or none.
    ///
    /// # Cancel safety
    /// All, some or none of these buckets are removed, each as a whole. With [`exact`](RemoveBefore::exact) all items are
    /// removed or none. Call it again: it removes the rest. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`Configuration`] without a time field, and [`InvalidKey`], with nothing removed. Those of the driver, after which
    /// some of the buckets can be removed: call it again. With [`exact`](RemoveBefore::exact) also those of
    /// [`remove_item`](Self::remove_item), with nothing removed.
    pub fn remove_before<Q: EncodeKey + ?Sized>(&self, key: &Q, time: DateTime) -> RemoveBefore<'_>
    where
        K: Borrow<Q>,
    {
        RemoveBefore {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            time,
            exact: false,
            session: None,
        }
    }

    /// Removes the buckets of all keys whose items are all before a time, in chunks. For each key it does what
    /// [`remove_before`](Self::remove_before) does.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start_of_year: DateTime) -> mongo_patterns::Result<()> {
    /// let removal = trades.remove_all_before(start_of_year).chunk_buckets(500);
    /// let removed = removal.on_progress(|at| println!("{} pages", at.buckets)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Others may read and write concurrently. A bucket that gets a later item in the meantime stays. To remove old buckets
    /// continuously, let the server do it: [`expire_after`](crate::BucketRepositoryBuilder::expire_after).
    ///
    /// # Cost
    /// Two round trips a chunk, and one at the end. The server reads every bucket once, and those of a chunk again.
    ///
    /// # Cancel safety
    /// Some of these buckets are removed, each as a whole. Call it again: it removes the rest.
    ///
    /// # Errors
    /// [`Configuration`] without a time field, or with a chunk of no buckets, with nothing removed. Those of the driver,
    /// after which some of the buckets are removed: call it again.
    pub fn remove_all_before(&self, time: DateTime) -> RemoveAllBefore<'_> {
        RemoveAllBefore {
            shared: self.shared(),
            time,
            chunk_buckets: CHUNK,
            on_progress: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Removes the old buckets of a key; returned by [`BucketRepository::remove_before`].
    pub struct RemoveBefore<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        time: DateTime,
        exact: bool,
    }
    with session;
    "remove_before" => RemovedBuckets
}

impl RemoveBefore<'_> {
    mongo_patterns_core::setters! {
        /// Removes the older items of the other buckets too, in one transaction, and moves the items after them up. Not on
        /// a standalone, which has no transactions.
        exact() => exact = true;
    }

    async fn execute(self) -> Result<RemovedBuckets> {
        let key = self.key?;
        check_time_field(&self.shared.settings)?;
        let old = OldItems {
            shared: self.shared,
            key: &key,
            time: self.time,
        };
        let mut conn = self.shared.enter(&key, self.session).await?;
        let removed = if self.exact {
            old.remove(&mut conn).await
        } else {
            let buckets = old.remove_buckets(&mut conn).await;
            buckets.map(|buckets| RemovedBuckets { buckets, items: 0 })
        };
        removed.map_err(|error| error.with_key(key.text()))
    }
}

mongo_patterns_core::action! {
    /// Removes the old buckets of all keys; returned by [`BucketRepository::remove_all_before`].
    pub struct RemoveAllBefore<'a> {
        shared: &'a Shared,
        time: DateTime,
        chunk_buckets: u32,
        on_progress: Option<Box<dyn FnMut(RemovedBuckets) + Send + 'a>>,
    }
    "remove_all_before" => RemovedBuckets
}

impl<'a> RemoveAllBefore<'a> {
    mongo_patterns_core::setters! {
        /// Sets the most buckets that one command removes; 1000 by default.
        chunk_buckets(buckets: u32) => chunk_buckets = buckets;
        /// Sets a progress callback, which is called after each chunk.
        on_progress(call: impl FnMut(RemovedBuckets) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    async fn execute(mut self) -> Result<RemovedBuckets> {
        let (collection, settings) = self.shared.parts();
        check_time_field(settings)?;
        check_bound("number of buckets of a chunk", self.chunk_buckets)?;
        let mut removed = RemovedBuckets::default();
        let mut after: Option<String> = None;
        loop {
            let options = first_by_id(false, self.chunk_buckets, Some(only_id()));
            let filter = all_before(settings, after.as_deref(), self.time);
            let found = Conn::new().find_all(collection, filter, options).await?;
            let ids: Vec<String> = found
                .iter()
                .flat_map(|found| found.get_str("_id"))
                .map(str::to_owned)
                .collect();
            let Some(last) = ids.last() else { return Ok(removed) };
            after = Some(last.clone());
            let filter = these_before(settings, &ids, self.time);
            removed.buckets += Conn::new().delete_many(collection, filter, None).await?.deleted_count;
            if let Some(call) = &mut self.on_progress {
                call(removed);
            }
        }
    }
}

fn check_time_field(settings: &Settings) -> Result<()> {
    match settings.time {
        Some(_) => Ok(()),
        None => Err(configuration(
            "the repository has no time field, by which items are old: call time_field(..) on the builder",
        )),
    }
}
