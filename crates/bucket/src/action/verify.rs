use std::borrow::Borrow;
use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidKey, SettingsMismatch};
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::{checked, each, scan};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};

use crate::repair::finding::Finding;
use crate::repair::scan::Scan;
use crate::repository::{BucketRepository, Shared};

impl<K: Key, T> BucketRepository<K, T> {
    /// Checks the stored buckets, key by key.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = trades.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. It needs no index.
    ///
    /// Items are not decoded as the item type. It finds items that are `null`, or have no time or id where the
    /// repository has a field for it. It does not find other fields of a wrong type.
    ///
    /// # Cost
    /// One aggregation, and one more round trip for each key with findings. The server reads every bucket, and sorts
    /// about a hundred bytes of each by key, on disk beyond 100 MB: a progress callback is first called after that. This
    /// process holds the summaries of the buckets of one key in memory, with the ids of its items if the repository has an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field). With [`key`](Verify::key) the server reads the
    /// buckets of that key only.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidKey`], [`SettingsMismatch`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, K> {
        Verify::create(self.shared(), Ok(None), PhantomData)
    }
}

mongo_patterns_core::action! {
    /// Checks the stored buckets; returned by [`BucketRepository::verify`].
    pub struct Verify<'a, K> {
        shared: &'a Shared,
        key: Result<Option<EncodedKey>>,
        types: PhantomData<fn() -> K>,
    }
    with on_progress;
}

impl<'a, K: Key> Verify<'a, K> {
    /// Checks this key only. Documents with this key neither in the `_id` nor in the key field are not found then, nor
    /// those whose key field has a value that is neither the key, nor its text, nor null.
    pub fn key<Q: EncodeKey + ?Sized>(mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
    {
        self.key = key.encode_key().map(Some).map_err(Error::from);
        self
    }

    /// Returns the stream. It sends nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: see [the module](mongo_patterns_core::verify#cancel-safety).
    pub fn stream(self) -> ActionStream<'a, Finding> {
        let shared = self.shared;
        let findings = self.key.map(|key| {
            let keys = Scan::<K>::new(shared, key, Reporter::new(self.on_progress));
            each(scan(move |results| keys.run(results)), 1, move |suspect| {
                Box::pin(async move { suspect.confirm::<K>(shared).await })
            })
        });
        checked(shared.ensure(), "verify", true, findings)
    }
}
