use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;

use futures::future::ready;
use futures::stream::{once, try_unfold};
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};

use crate::repair::scan::{OnProgress, Scan};
use crate::repository::Shared;
use crate::{BucketRepository, Finding};

impl<K: Key, T> BucketRepository<K, T> {
    /// Everything that is wrong with the stored buckets, as a stream of [findings](Finding), key by key.
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
    /// It writes nothing, and needs no index. It may run while others write: a key in which something seems wrong is
    /// looked at again before it is reported. Items are not decoded as the item type: it finds those that are `null`, or have
    /// no time or id where the repository has a field for it, but not a field that has another type than in yours.
    ///
    /// # Cost
    /// One aggregation. The server reads every bucket, and sorts some hundred bytes of each by key, on disk beyond
    /// 100 MB. One more round trip a key in which something is wrong. This process holds what it knows of the buckets of
    /// one key, with the ids of its items where the repository has an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field). With [`key`](Verify::key) the server reads the
    /// buckets of that key alone.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey), and those of the driver, as the last item of the
    /// stream.
    pub fn verify(&self) -> Verify<'_, K> {
        Verify {
            shared: self.shared(),
            key: Ok(None),
            on_progress: None,
            types: PhantomData,
        }
    }
}

/// Looks for what is wrong; made by [`BucketRepository::verify`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::{BucketRepository, Finding};
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let verify = trades.verify().key(&123).on_progress(|buckets| println!("{buckets} buckets"));
/// let findings: Vec<Finding> = verify.stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a, K> {
    shared: &'a Shared,
    key: Result<Option<EncodedKey>>,
    on_progress: Option<OnProgress<'a>>,
    types: PhantomData<fn() -> K>,
}

/// A stream of findings; made by [`Verify::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongo_patterns_bucket::action::FindingStream;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings: FindingStream<'_> = trades.verify().stream();
/// let is_sound = findings.try_next().await?.is_none();
/// # Ok(())
/// # }
/// ```
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a, K: Key> Verify<'a, K> {
    /// Only this key. What has neither its `_id` nor its key field from it is not seen then.
    pub fn key<Q>(mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        self.key = key.encode_key().map(Some).map_err(Error::from);
        self
    }

    /// Is called for each bucket, with how many were looked at. The first ones come when the server has read and sorted
    /// all.
    pub fn on_progress(mut self, call: impl FnMut(u64) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> FindingStream<'a> {
        let operation = self.shared.operation("verify");
        let key = match self.key {
            Ok(key) => key,
            Err(error) => return Box::pin(once(ready(Err(operation.name(error))))),
        };
        let shared = self.shared;
        let state = (Scan::<K>::new(shared, key, self.on_progress), VecDeque::new());
        let findings = try_unfold(state, move |(mut scan, mut found)| async move {
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
        Box::pin(findings.map_err(move |error: Error| operation.name(error)))
    }
}

impl<K> fmt::Debug for Verify<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("shared", self.shared)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
