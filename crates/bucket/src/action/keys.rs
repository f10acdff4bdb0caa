use std::borrow::Borrow;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;

use futures::Stream;
use futures::future::ready;
use futures::stream::{once, unfold};
use mongo_patterns_core::action::run;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};
use mongodb::options::{FindOptions, Hint};

use crate::BucketRepository;
use crate::repair::check::key_of_id;
use crate::repository::Shared;

/// How many index entries the first read returns, and a read at most.
const ENTRIES_AT_FIRST: u32 = 100;
const ENTRIES_AT_ONCE: u32 = 1000;

impl<K: Key, T> BucketRepository<K, T> {
    /// Returns the keys that have buckets, each once, as a stream in the order of their buckets' `_id`: strings, and
    /// integers as text, so 10 comes before 9.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut keys = trades.keys().stream();
    /// while let Some(customer) = keys.try_next().await? {
    ///     println!("customer {customer}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The key is that in the `_id`; the key field is not read. The stream holds no cursor on the server between round
    /// trips, so it may be read slowly. A key that gets its first bucket, or loses its last one, while the stream is read
    /// may be returned or not.
    ///
    /// A bucket whose `_id` has no key of the repository's type is an error that names it, and the next item of the stream
    /// is the next key. Of those whose `_id` is no string, the first one is named. A hand-written `_id` that reads as one
    /// of another key may be skipped: [`verify`](Self::verify) finds all of them.
    ///
    /// # Cost
    /// A loose scan of the `_id` index, which skips the other buckets of a key. The server examines no documents, and some
    /// 16 index entries a key at most. One round trip returns up to 1000 keys that have a bucket or two each, and one key
    /// where keys have hundreds of buckets. This process holds at most 1000 keys. On a sharded cluster each round trip
    /// asks every shard, and examines documents in place of index entries.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) for a bucket that names no key, after which the stream
    /// continues. [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey) for [`after`](Keys::after), and those of the
    /// driver, as the last item of the stream.
    pub fn keys(&self) -> Keys<'_, K> {
        Keys {
            shared: self.shared(),
            after: Ok(None),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads keys; made by [`BucketRepository::keys`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let keys: Vec<u32> = trades.keys().after(&123).session(session).stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Keys<'a, K> {
    shared: &'a Shared,
    after: Result<Option<EncodedKey>>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> K>,
}

mongo_patterns_core::redacted_debug!(Keys<'_, K>);

/// A stream of keys; made by [`Keys::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongo_patterns_bucket::action::KeyStream;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut keys: KeyStream<'_, u32> = trades.keys().stream();
/// let is_empty = keys.try_next().await?.is_none();
/// # Ok(())
/// # }
/// ```
pub type KeyStream<'a, K> = Pin<Box<dyn Stream<Item = Result<K>> + Send + 'a>>;

impl<'a, K: Key> Keys<'a, K> {
    /// Returns only the keys that come after this one in the order of the stream, whether it has buckets or not: to resume.
    pub fn after<Q>(mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        self.after = key.encode_key().map(Some).map_err(Error::from);
        self
    }

    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    /// Returns the stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. When the
    /// stream itself is dropped while it reads, a [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn stream(self) -> KeyStream<'a, K>
    where
        K: 'a,
    {
        let shared = self.shared;
        let from = match self.after {
            Ok(after) => after.map_or(Bson::MinKey, |after| Bson::String(after.end())),
            Err(error) => return Box::pin(once(ready(Err(shared.operation("keys").name(error))))),
        };
        let scan = LooseScan {
            shared,
            session: self.session,
            from,
            entries: ENTRIES_AT_FIRST,
            found: VecDeque::new(),
            ended: false,
        };
        Box::pin(unfold(scan, move |mut scan| async move {
            loop {
                if let Some(key) = scan.found.pop_front() {
                    return Some((key.map_err(|error| shared.operation("keys").name(error)), scan));
                }
                if scan.ended {
                    return None;
                }
                if let Err(error) = run(shared.operation("keys"), |_| scan.fetch()).await {
                    scan.ended = true;
                    return Some((Err(error), scan));
                }
            }
        }))
    }
}

/// Reads the `_id` index some entries at a time, and seeks past the rest of the last key.
struct LooseScan<'a, K> {
    shared: &'a Shared,
    session: Option<&'a mut ClientSession>,
    /// The smallest `_id` that is still to be read, of any type.
    from: Bson,
    /// How many entries the next read returns.
    entries: u32,
    found: VecDeque<Result<K>>,
    ended: bool,
}

impl<K: Key> LooseScan<'_, K> {
    async fn fetch(&mut self) -> Result<()> {
        // A comparison in a filter sees one type only; an index bound orders all.
        let options = FindOptions::builder()
            .min(doc! { "_id": self.from.clone() })
            .sort(doc! { "_id": 1 })
            .hint(Hint::Keys(doc! { "_id": 1 }))
            .projection(doc! { "_id": 1 })
            .limit(i64::from(self.entries))
            .batch_size(self.entries)
            .build();
        let mut session = Session::of_caller(self.session.as_deref_mut()).await?;
        let read = find_all(session.as_mut(), &self.shared.collection, doc! {}, options).await?;
        drop(session);
        let mut key_end: Option<String> = None;
        for bucket in &read {
            let Some(id) = bucket.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()) else {
                continue;
            };
            let Bson::String(text) = &id else {
                self.pass_other_types(id);
                return Ok(());
            };
            if key_end.as_ref().is_some_and(|end| text < end) {
                continue;
            }
            if let Some((key, encoded)) = key_in_id::<K>(text) {
                let end = encoded.end();
                self.from = Bson::String(end.clone());
                key_end = Some(end);
                self.found.push_back(Ok(key));
            } else {
                // The first string after this one.
                self.from = Bson::String(format!("{text}\0"));
                self.found.push_back(Err(no_key(id)));
            }
        }
        self.ended |= read.len() < self.entries as usize;
        self.adapt(read.len());
        Ok(())
    }

    /// At an `_id` of another type: names the first of those before the strings, and of those after them.
    fn pass_other_types(&mut self, id: Bson) {
        let is_before = matches!(
            id,
            Bson::MinKey
                | Bson::Undefined
                | Bson::Null
                | Bson::Int32(_)
                | Bson::Int64(_)
                | Bson::Double(_)
                | Bson::Decimal128(_)
        );
        self.found.push_back(Err(no_key(id)));
        if is_before {
            self.from = Bson::String(String::new());
        } else {
            self.ended = true;
        }
    }

    /// Few entries where keys have many buckets, many where they have few.
    fn adapt(&mut self, read: usize) {
        if self.found.len() * 16 < read {
            self.entries = (self.entries / 4).max(1);
        } else if self.found.len() * 2 >= read {
            self.entries = (self.entries * 4).min(ENTRIES_AT_ONCE);
        }
    }
}

fn key_in_id<K: Key>(id: &str) -> Option<(K, EncodedKey)> {
    let (encoded, _) = key_of_id::<K>(id)?;
    // A text such as `007` would lead to the place of 7.
    encoded.tail(id)?;
    Some((K::decode_key(encoded.text())?, encoded))
}

fn no_key(id: Bson) -> Error {
    Error::corrupt(
        id,
        "_id",
        "the `_id` of a bucket is not a key of the repository's type, `_`, and the second at which it was opened: repair it",
    )
}
