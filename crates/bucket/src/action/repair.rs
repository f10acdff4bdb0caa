use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Contention, InvalidKey, Unsupported};
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
    /// - Counts become the numbers of items. Empty buckets are removed.
    /// - [Figures](crate::BucketRepositoryBuilder::sum) become those of the items.
    /// - From the first page with too many or too few items on, all items of the key are put into full pages, in their
    ///   order. So several open buckets become one.
    /// - An `_id` gets the encoded key and ten digits. A second before 1970 becomes the first second. An `_id` without
    ///   a valid second gets that of the bucket's first item, by the time field.
    /// - A missing key field is set from the `_id`.
    /// - With [windows](crate::BucketRepositoryBuilder::window), an item in a bucket of another window moves to the end of its
    ///   own window. The second in the `_id` of a bucket gives the start of its window. Full pages are made in each window.
    /// - Of items that are equal byte by byte and have the same [id](crate::BucketRepositoryBuilder::item_id_field),
    ///   one is kept.
    /// - Items that are `null`, or have no time or id where the repository has a field for it, stay as they are, and
    ///   are reported as `unrepaired`.
    /// - Fields that are not of the pattern stay in their buckets.
    ///
    /// Each key is repaired in one transaction. So others may write concurrently, and no reader sees a partly repaired
    /// key. When this process ends early, some keys are repaired and the others are unchanged: run it again. It may
    /// then have to wait for the server to end an abandoned transaction, which takes up to 90 seconds.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and five round trips for each key with findings. The buckets of such a key are
    /// read into memory as a whole. Those that change are written in one transaction, which the server ends after 60
    /// seconds. 4 keys are repaired concurrently. This process holds the names of such keys in memory, and the findings of
    /// buckets whose key field has no key of the type. A dry run needs one more round trip for a key whose buckets are read apart.
    ///
    /// # Cancel safety
    /// Each key is repaired as a whole or not at all: the running transactions have no effect, unless their commits
    /// have begun. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), [`Contention`], and [`Unsupported`] on a standalone server, with nothing changed,
    /// except in a [dry run](Repair::dry_run), as the last item of the stream. Each key is then repaired, or unchanged.
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        repair::<K>(self.shared(), Ok(None))
    }

    /// Repairs the buckets of a key, as [`repair`](Self::repair) does those of all keys.
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
    /// That of [`repair`](Self::repair), in which the server reads the buckets of this key only.
    ///
    /// # Cancel safety
    /// That of [`repair`](Self::repair).
    ///
    /// # Errors
    /// Those of [`repair`](Self::repair), and [`InvalidKey`].
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
