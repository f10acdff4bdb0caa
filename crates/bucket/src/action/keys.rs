use std::borrow::Borrow;
use std::marker::PhantomData;

use futures::future::ready;
use futures::stream::{once, unfold};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, InvalidArgument};
use mongo_patterns_core::action::{ActionStream, run};
use mongo_patterns_core::pages::check_limit;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};

use crate::read::keys::LooseScan;
use crate::repository::{BucketRepository, Shared};

impl<K: Key, T> BucketRepository<K, T> {
    /// Reads the keys that have buckets, each once, in the order of their buckets' `_id`.
    ///
    /// Integers are in the order of their texts, so 10 comes before 9. Awaited it returns a `Vec`, and
    /// [`stream`](Keys::stream) a stream that holds at most 1000 keys.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let first: Vec<u32> = trades.keys().limit(10).await?;
    ///
    /// let mut keys = trades.keys().stream();
    /// while let Some(customer) = keys.try_next().await? {
    ///     println!("customer {customer}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It reads the key from the `_id`. The stream holds no cursor on the server between round trips, so it can be read
    /// slowly. A key that gets its first bucket, or loses its last one, in the meantime may be returned or not.
    ///
    /// A bucket whose `_id` has no key of the repository's type is an error that names it, and the next item of a stream is
    /// the next key. A hand-written `_id` that can be read as a key may be skipped: [`verify`](Self::verify) finds it.
    ///
    /// # Cost
    /// The server skips through the `_id` index: about 16 index entries a key, and no documents. One round trip returns up
    /// to 1000 keys with a bucket or two, or one key with hundreds. On a sharded cluster it examines documents.
    ///
    /// # Errors
    /// - [`Corrupt`]: a bucket that names no key, after which a stream continues.
    /// - [`InvalidArgument`]: a limit of 0.
    pub fn keys(&self) -> Keys<'_, K> {
        Keys::create(self.shared(), Ok(None), None, PhantomData)
    }
}

mongo_patterns_core::action! {
    /// Reads keys; returned by [`BucketRepository::keys`].
    pub struct Keys<'a, K> {
        shared: &'a Shared,
        after: Result<Option<EncodedKey>>,
        limit: Option<u32>,
        types: PhantomData<fn() -> K>,
    }
    with session, max_time;

    /// Sets the most keys, at least 1. All by default.
    limit(keys: u32) => limit = Some(keys);

    "keys" => Vec<K> where K: Key + 'a
}

impl<'a, K: Key> Keys<'a, K> {
    /// Reads only the keys after this one, which need not have buckets. It resumes an earlier read.
    pub fn after<Q: EncodeKey + ?Sized>(mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
    {
        self.after = key.encode_key().map(Some).map_err(Error::from);
        self
    }

    /// Returns the stream. It sends nothing before it is polled.
    pub fn stream(self) -> ActionStream<'a, K>
    where
        K: 'a,
    {
        let shared = self.shared;
        let name = move |error: Error| shared.operation("keys").name(error);
        let scan = match self.scan() {
            Ok(scan) => scan,
            Err(error) => return Box::pin(once(ready(Err(name(error))))),
        };
        Box::pin(unfold(scan, move |mut scan| async move {
            loop {
                if let Some(key) = scan.pop() {
                    return Some((key.map_err(name), scan));
                }
                match run(shared.operation("keys"), scan.fetch()).await {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => return Some((Err(error), scan)),
                }
            }
        }))
    }

    async fn execute(self) -> Result<Vec<K>> {
        let mut scan = self.scan()?;
        let mut keys = Vec::new();
        loop {
            while let Some(key) = scan.pop() {
                keys.push(key?);
            }
            if !scan.fetch().await? {
                return Ok(keys);
            }
        }
    }

    fn scan(self) -> Result<LooseScan<'a, K>> {
        self.limit.map_or(Ok(()), check_limit)?;
        let after = self.after?;
        Ok(LooseScan::new(
            self.shared,
            after.as_ref(),
            self.limit,
            self.session,
            self.max_time,
        ))
    }
}
