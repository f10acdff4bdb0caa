use std::collections::VecDeque;

use futures::TryStreamExt;
use futures::future::ready;
use futures::stream::{once, try_unfold};
use mongo_patterns_core::catalog::after;

use crate::action::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::scan::{OnProgress, Scan};

impl<K: Key, T> BucketRepository<K, T> {
    /// Checks the stored buckets, and returns every problem as a stream of [findings](Finding), key by key.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = trades.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing, and needs no index. It is safe while others write: the buckets of a key are not all read at
    /// one moment, so it reads a key with findings again before it reports them.
    ///
    /// Items are not decoded as the item type. It finds items that are `null`, or have no time or id where the
    /// repository has a field for it. It does not find other fields of a wrong type.
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// One aggregation, and one more round trip for each key with findings. The server reads every bucket, and sorts
    /// about a hundred bytes of each by key, on disk beyond 100 MB. This process holds the summaries of the buckets of
    /// one key in memory, with the ids of its items if the repository has an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field). With [`key`](Verify::key) the server reads the buckets of
    /// that key only.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidKey`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, K> {
        Verify {
            shared: self.shared(),
            key: Ok(None),
            on_progress: None,
            types: PhantomData,
        }
    }
}

mongo_patterns_core::action! {
    /// Checks the stored buckets; returned by [`BucketRepository::verify`].
    pub struct Verify<'a, K> {
        shared: &'a Shared,
        key: Result<Option<EncodedKey>>,
        on_progress: Option<OnProgress<'a>>,
        types: PhantomData<fn() -> K>,
    }
}

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

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

    mongo_patterns_core::setters! {
        /// Sets a progress callback, which is called for each bucket, with the number of buckets that were read. The
        /// first call comes after the server has read and sorted all.
        on_progress(call: impl FnMut(u64) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    /// Returns the stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> FindingStream<'a> {
        let (shared, operation) = (self.shared, self.shared.operation("verify"));
        let scan = match self.key {
            Ok(key) => Scan::<K>::new(shared, key, self.on_progress),
            Err(error) => return Box::pin(once(ready(Err(operation.name(error))))),
        };
        let findings = try_unfold((scan, VecDeque::new()), move |(mut scan, mut found)| async move {
            loop {
                if let Some(finding) = found.pop_front() {
                    return Ok(Some((finding, (scan, found))));
                }
                match scan.next().await? {
                    Some(suspect) => found.extend(suspect.confirm::<K>(shared).await?),
                    None => return Ok(None),
                }
            }
        });
        let checked = after(async move { shared.ensure().check_settings().await }, findings);
        Box::pin(checked.map_err(move |error: Error| operation.name(error)))
    }
}
