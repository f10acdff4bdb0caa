use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{self, Configuration, InvalidArgument};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;

use crate::query::buckets::{first_by_id, only_id};
use crate::query::expiry::{all_before, these_before};
use crate::repository::{BucketRepository, Shared};
use crate::results::DeletedItems;
use crate::settings::Settings;
use crate::write::old_items::OldItems;

const CHUNK: u32 = 1000;

impl<K: Key, T> BucketRepository<K, T> {
    /// Deletes the buckets of a key whose items are all before a time, by their time field.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start_of_year: DateTime) -> mongo_patterns::Result<()> {
    /// let deleted = trades.delete_key_before(&123, start_of_year).await?;
    /// println!("{} pages of older trades were deleted", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A bucket with a later item stays as a whole, so every bucket but the last stays full, and no item moves.
    /// [`exact`](DeleteKeyBefore::exact) removes its older items too. An item without a date is not before any time.
    ///
    /// # Cost
    /// One round trip. The server reads every bucket of the key. About seven with [`exact`](DeleteKeyBefore::exact), which
    /// reads and rewrites all buckets from the first with an older item on.
    ///
    /// # Cancel safety
    /// All, some or none of these buckets are deleted. With [`exact`](DeleteKeyBefore::exact), all items are removed or
    /// none. Call it again.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no time field.
    /// - With [`exact`](DeleteKeyBefore::exact), the errors of [`remove_item`](Self::remove_item).
    ///
    /// After an error of the driver, some buckets can be deleted: call it again.
    pub fn delete_key_before<Q: EncodeKey + ?Sized>(&self, key: &Q, time: DateTime) -> DeleteKeyBefore<'_>
    where
        K: Borrow<Q>,
    {
        let key = key.encode_key().map_err(Error::from);
        DeleteKeyBefore::create(self.shared(), key, time, false)
    }

    /// Deletes the buckets of all keys whose items are all before a time, in chunks. For each key it does what
    /// [`delete_key_before`](Self::delete_key_before) does.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, start_of_year: DateTime) -> mongo_patterns::Result<()> {
    /// let deletion = trades.delete_before(start_of_year).chunk(500);
    /// let deleted = deletion.on_progress(|at| println!("{} pages", at.documents)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Others may read and write concurrently. A bucket that gets a later item in the meantime stays.
    /// [`expire_after`](crate::BucketRepositoryBuilder::expire_after) lets the server delete old buckets continuously.
    ///
    /// # Cost
    /// Two round trips a chunk, and one at the end. The server reads every bucket once, and the buckets of a chunk again.
    ///
    /// # Cancel safety
    /// Some of these buckets are deleted. Call it again.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no time field, or the chunk is 0.
    ///
    /// After an error of the driver, some buckets are deleted: call it again.
    pub fn delete_before(&self, time: DateTime) -> DeleteBefore<'_> {
        DeleteBefore::create(self.shared(), time, CHUNK, None)
    }
}

mongo_patterns_core::action! {
    /// Deletes the old buckets of a key; returned by [`BucketRepository::delete_key_before`].
    pub struct DeleteKeyBefore<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        time: DateTime,
        exact: bool,
    }
    with session;
    "delete_key_before" => DeletedItems
}

impl DeleteKeyBefore<'_> {
    mongo_patterns_core::setters! {
        /// Removes the older items of the other buckets too, in one transaction, and moves the items after them up. Not on a
        /// standalone.
        exact() => exact = true;
    }

    async fn execute(self) -> Result<DeletedItems> {
        let key = self.key?;
        check_time_field(&self.shared.settings)?;
        let old = OldItems {
            shared: self.shared,
            key: &key,
            time: self.time,
        };
        let mut conn = self.shared.enter(&key, self.session).await?;
        let deleted = if self.exact {
            old.delete(&mut conn).await
        } else {
            let documents = old.delete_buckets(&mut conn).await;
            documents.map(|documents| DeletedItems { documents, items: 0 })
        };
        deleted.map_err(|error| error.with_key(key.text()))
    }
}

mongo_patterns_core::action! {
    /// Deletes the old buckets of all keys; returned by [`BucketRepository::delete_before`].
    pub struct DeleteBefore<'a> {
        shared: &'a Shared,
        time: DateTime,
        chunk: u32,
        on_progress: Option<Box<dyn FnMut(DeletedItems) + Send + 'a>>,
    }
    "delete_before" => DeletedItems
}

impl<'a> DeleteBefore<'a> {
    mongo_patterns_core::setters! {
        /// Sets the most buckets that one command deletes; 1000 by default.
        chunk(buckets: u32) => chunk = buckets;
        /// Sets a progress callback, which is called after each chunk.
        on_progress(call: impl FnMut(DeletedItems) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    async fn execute(mut self) -> Result<DeletedItems> {
        let (collection, settings) = self.shared.parts();
        check_time_field(settings)?;
        if self.chunk == 0 {
            let text = "the number of buckets of a chunk is 0, nothing was deleted: set it to 1 or more";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let mut deleted = DeletedItems::default();
        let mut after: Option<String> = None;
        loop {
            let options = first_by_id(false, self.chunk, Some(only_id()));
            let filter = all_before(settings, after.as_deref(), self.time);
            let found = Conn::new().find_all(collection, filter, options).await?;
            let ids: Vec<String> = found
                .iter()
                .flat_map(|found| found.get_str("_id"))
                .map(str::to_owned)
                .collect();
            let Some(last) = ids.last() else { return Ok(deleted) };
            after = Some(last.clone());
            let filter = these_before(settings, &ids, self.time);
            deleted.documents += Conn::new().delete_many(collection, filter, None).await?.deleted_count;
            if let Some(call) = &mut self.on_progress {
                call(deleted);
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
