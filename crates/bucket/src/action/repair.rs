use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::Unsupported;
use mongo_patterns_core::verify::Repair;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};

use crate::repair::finding::{Problem, Unrepaired};
use crate::repair::run::repairs;
use crate::repair::scan::Scan;
use crate::repository::{BucketRepository, Shared};

/// The number of keys that are repaired concurrently. Their buckets are in memory.
const CONCURRENCY: usize = 4;

impl<K: Key, T> BucketRepository<K, T> {
    /// Repairs the findings of [`verify`](Self::verify), key by key, as far as that needs no guess and loses no item.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let mut keys = trades.repair().dry_run().stream();
    /// while let Some(repaired) = keys.try_next().await? {
    ///     println!("would write {} buckets and delete {}", repaired.written, repaired.deleted);
    ///     if let Some(unrepaired) = repaired.unrepaired {
    ///         println!("must be repaired by hand: {unrepaired}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It also repairs a collection that the manual's shell commands wrote. Afterwards
    /// [`ensure_indexes`](crate::Repository::ensure_indexes) succeeds, unless something was not repaired.
    ///
    /// - Counts and [figures](crate::BucketRepositoryBuilder::sum) are computed from the items. Empty buckets are removed.
    /// - From the first page with too many or too few items on, all items of the key are put into full pages, in their
    ///   order. So several open buckets become one.
    /// - An `_id` gets the encoded key and ten digits. A second before 1970 becomes the first second. An `_id` without a
    ///   valid second gets the time of the bucket's first item.
    /// - A missing key field is set from the `_id`.
    /// - With [windows](crate::BucketRepositoryBuilder::window), an item in a bucket of another window moves to the end of
    ///   its own window. The second in the `_id` of a bucket gives the start of its window.
    /// - Of items that are equal byte by byte, with the same [id](crate::BucketRepositoryBuilder::item_id_field), one is
    ///   kept.
    /// - Items that are `null`, or lack a time or an id, stay, and are reported as `unrepaired`.
    /// - Fields of your own stay in their buckets.
    ///
    /// Each key is repaired in one transaction. So others may write concurrently, and no reader sees a partly repaired key.
    /// After an interruption, run it again. It may then wait up to 90 seconds, until the server ends an abandoned
    /// transaction.
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and five round trips for each key with findings. Four keys are repaired concurrently.
    /// The buckets of such a key are in memory as a whole, and are written in one transaction, which the server ends after
    /// 60 seconds. A dry run needs one more for a key whose buckets are read apart.
    ///
    /// # Cancel safety
    /// Each key is repaired as a whole or not at all. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// After an error, each key is repaired or unchanged.
    ///
    /// - [`Unsupported`]: the server is a standalone, and this is no [dry run](Repair::dry_run).
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        repair::<K>(self.shared(), Ok(None))
    }

    /// Repairs the buckets of a key, as [`repair`](Self::repair) repairs all keys.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::{BucketRepository, Repaired};
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let repaired: Vec<Repaired> = trades.repair_key(&123).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It repairs what [`verify_key`](Self::verify_key) finds.
    ///
    /// # Cost
    /// As [`repair`](Self::repair), for the buckets of this key.
    ///
    /// # Cancel safety
    /// As [`repair`](Self::repair).
    pub fn repair_key<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Repair<'_, Problem, Unrepaired>
    where
        K: Borrow<Q>,
    {
        repair::<K>(self.shared(), key.encode_key().map(Some).map_err(Error::from))
    }
}

fn repair<K: Key>(shared: &Shared, key: Result<Option<EncodedKey>>) -> Repair<'_, Problem, Unrepaired> {
    let repair = key.map(|key| {
        move |reporter, dry_run| repairs(shared, Scan::<K>::new(shared, key, reporter), dry_run, CONCURRENCY)
    });
    Repair::try_new(shared.ensure(), repair)
}
