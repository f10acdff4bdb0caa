use crate::action::prelude::*;
use crate::results::DeletedKey;
use crate::write::delete::delete;

impl<K: Key, T> BucketRepository<K, T> {
    /// Deletes all buckets of a key, with their items.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let deleted = trades.delete_key(&123).await?;
    /// println!("the key had a history: {}, of {} pages", deleted.found, deleted.buckets);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It deletes by equality on the key field and by the `_id`, in the encoded and in a hand-written form. So it never
    /// deletes a bucket of another key. A bucket whose `_id` or key field does not name the key stays:
    /// [`verify`](Self::verify) finds it, and after a [`repair`](Self::repair) it is deleted too.
    ///
    /// # Guarantees
    /// - It is idempotent: a second call deletes what is left, and `found` is `false` if nothing is.
    /// - When it returns, all buckets that existed at the call are deleted, also if another process moved items between
    ///   them concurrently.
    /// - An item that is appended concurrently is deleted, or stored in a new bucket. An item is never left in part. A
    ///   batch of this process's clones of the repository is deleted or stored as a whole. A batch of several commands
    ///   of another process, or in a session, can lose the items of its first commands.
    /// - Outside of a transaction the buckets are deleted one after the other, and readers can see a part of them.
    ///
    /// # Cost
    /// Two round trips: `deleteMany`, and a read that finds no bucket any more. Both are repeated while it finds one.
    /// One round trip in a transaction. The server examines the buckets of the key.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller all buckets are deleted at once, in one round trip, or none. The server ends a
    /// transaction after 60 seconds. A concurrent append to the open bucket conflicts with it.
    ///
    /// # Cancel safety
    /// All, some or no buckets are deleted, each as a whole. Call it again: it deletes the rest. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`] with nothing deleted, [`Contention`] when other writers append to the key for as long as the
    /// [retry policy](crate::BucketRepositoryBuilder::retry) allows, so that it still has buckets, and those of the
    /// driver. Some buckets can be deleted then: call it again.
    pub fn delete_key<Q: EncodeKey + ?Sized>(&self, key: &Q) -> DeleteKey<'_>
    where
        K: Borrow<Q>,
    {
        DeleteKey {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Deletes the buckets of a key; returned by [`BucketRepository::delete_key`].
    pub struct DeleteKey<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
    }
    with session;
    "delete_key" => DeletedKey
}

impl DeleteKey<'_> {
    async fn execute(self) -> Result<DeletedKey> {
        let key = self.key?;
        let mut conn = self.shared.enter(&key, self.session).await?;
        let deleted = delete(self.shared, &key, &mut conn).await;
        deleted.map_err(|error| error.with_key(key.text()))
    }
}
