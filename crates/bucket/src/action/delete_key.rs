use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result, send};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::{FindOneOptions, ReadConcern, ReadPreference, SelectionCriteria};

use crate::repository::Shared;
use crate::{BucketRepository, query};

impl<K: Key, T> BucketRepository<K, T> {
    /// Deletes all buckets of a key, with their items.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let deleted = trades.delete_key(&123).await?;
    /// println!("there was a history: {}, of {} pages", deleted.found, deleted.buckets);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It deletes by equality on the key field and by the `_id`, in the encoded and in a hand-written form, so it never
    /// touches the buckets of another key. A bucket whose `_id` or key field does not name the key stays:
    /// [`verify`](Self::verify) finds it, and after a [`repair`](Self::repair) it is deleted too.
    ///
    /// # Guarantees
    /// - It is idempotent: called again, it deletes what is left, and `found` is `false` when nothing is.
    /// - When it returns, all buckets that existed when it was called are deleted, also where another process moved items
    ///   between them meanwhile.
    /// - An item that is appended concurrently is deleted, or is stored in a new bucket; an item is never left in part. A
    ///   batch of this process's clones of the repository is deleted or stored as a whole. A batch of another process, or
    ///   one in a session, that is stored by several commands can lose the items of its first ones.
    /// - Outside of a transaction the buckets are deleted one after the other, and readers can see a part of them.
    ///
    /// # Cost
    /// Two round trips: `deleteMany`, and a read that finds no bucket any more. Both are repeated while it finds one,
    /// because `deleteMany` skips a bucket that a concurrent transaction deletes and inserts again with the same `_id`. One
    /// round trip in a transaction. The server examines the buckets of the key.
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
    /// [`InvalidKey`](ErrorKind::InvalidKey) with nothing deleted, [`Contention`](ErrorKind::Contention) when others append
    /// to the key for as long as the [retry policy](crate::BucketRepositoryBuilder::retry) allows, so that it still has
    /// buckets, and those of the driver. Some buckets may be deleted then: call it again.
    pub fn delete_key<Q>(&self, key: &Q) -> DeleteKey<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        DeleteKey {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
        }
    }
}

/// Deletes the buckets of a key; made by [`BucketRepository::delete_key`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// trades.delete_key(&123).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteKey<'a> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(DeleteKey<'_>);

/// What the deletion of a key did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let deleted = trades.delete_key(&123).await?;
/// if !deleted.found {
///     println!("there is no such customer");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedKey {
    /// Whether the key had any buckets.
    pub found: bool,
    /// How many buckets were deleted.
    pub buckets: u64,
}

impl<'a> DeleteKey<'a> {
    /// Deletes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<DeletedKey> {
        let key = self.key?;
        let mut session = Session::of_caller(self.session).await?;
        let deleted = delete(self.shared, &key, session.as_mut()).await;
        deleted.map_err(|error| error.with_key(key.text()))
    }
}

impl<'a> IntoFuture for DeleteKey<'a> {
    type Output = Result<DeletedKey>;
    type IntoFuture = ActionFuture<'a, DeletedKey>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("delete_key"), |_| self.execute())
    }
}

async fn delete(shared: &Shared, key: &EncodedKey, mut session: Option<&mut Session<'_>>) -> Result<DeletedKey> {
    let in_transaction = session.as_deref().is_some_and(Session::is_in_transaction);
    // Not while a batch of this process is between two of its commands.
    let _locked = match in_transaction {
        true => LockedKeys::default(),
        false => shared.locks.exclusive(key.text()).await,
    };
    let mut attempts = shared.settings.retry.start();
    let mut deleted = DeletedKey::default();
    let mut passes = 0_u32;
    loop {
        let filter = query::buckets_to_delete(&shared.settings, key);
        let deletion = send::delete_many(session.as_deref_mut(), &shared.collection, filter, None).await?;
        passes += 1;
        deleted.buckets += deletion.deleted_count;
        deleted.found |= deletion.deleted_count > 0;
        if in_transaction || !has_buckets(shared, key, session.as_deref_mut()).await? {
            return Ok(deleted);
        }
        // A second pass is not a retry, so that a policy of one attempt allows it.
        if passes > 1 && !attempts.wait().await {
            return Err(attempts.tried(Error::new(
                ErrorKind::Contention,
                "others append to the key all the time, so that it has buckets again: stop them, and delete the key again",
            )));
        }
    }
}

/// Returns whether the key still has a bucket. A `deleteMany` that matched nothing does not prove the contrary: it waits for
/// a transaction that writes a bucket, and then skips the document that the transaction stored with the same `_id`.
async fn has_buckets(shared: &Shared, key: &EncodedKey, session: Option<&mut Session<'_>>) -> Result<bool> {
    let options = FindOneOptions::builder()
        .projection(doc! { "_id": 1 })
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(session.is_none().then(ReadConcern::local))
        .build();
    let filter = query::buckets_to_delete(&shared.settings, key);
    let bucket = send::find_one(session, &shared.collection, filter, options).await?;
    Ok(bucket.is_some())
}
