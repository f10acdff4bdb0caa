use std::borrow::Borrow;
use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, batch_size, run};
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::FindOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{Part, Reader};
use crate::repository::Shared;
use crate::{Bucket, BucketRepository, PageToken, query};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// The newest items of a key, the newest first: those at the end of its last pages, whatever times they carry.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// for trade in trades.newest(&123, 5).await? {
    ///     println!("{trade}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip where all pages but the last are full, as this crate leaves them. The server examines one
    /// document more than the items take, at most, and sends no more than `count` items of each.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a count of 0, [`InvalidKey`](ErrorKind::InvalidKey),
    /// [`Corrupt`](ErrorKind::Corrupt) and [`Decode`](ErrorKind::Decode) for what is stored.
    pub fn newest<Q>(&self, key: &Q, count: u32) -> Newest<'_, K, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Newest {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            count,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads the newest items; made by [`BucketRepository::newest`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let newest: Vec<Document> = trades.newest(&123, 5).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Newest<'a, K, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    count: u32,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::redacted_debug!(Newest<'_, K, T>);

impl<'a, K: Key, T: DeserializeOwned> Newest<'a, K, T> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Vec<T>> {
        let key = self.key?;
        if self.count == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "ask for at least 1 item"));
        }
        let Shared {
            collection, settings, ..
        } = self.shared;
        let mut session = Session::of_caller(self.session).await?;
        let wanted = self.count as usize;
        let mut items = Vec::new();
        let mut place: Option<PageToken> = None;
        loop {
            let missing = self.count - u32::try_from(items.len()).unwrap_or(u32::MAX);
            // The newest bucket holds one item at least, and those before it hold a page each.
            let buckets = (missing - 1).div_ceil(settings.page_size) + 1;
            let filter = match &place {
                None => query::buckets_of_key(settings, &key),
                Some(token) => query::buckets_beyond(settings, &key, "$lt", token),
            };
            let slice = i32::try_from(missing).ok().filter(|_| missing < settings.page_size);
            let options = FindOptions::builder()
                .sort(doc! { "_id": -1 })
                .limit(i64::from(buckets))
                .batch_size(batch_size(buckets))
                .projection(slice.map(|slice| doc! { settings.items.as_str(): { "$slice": -slice } }))
                .build();
            let found = find_all(session.as_mut(), collection, filter, options).await?;
            let reader = Reader {
                settings,
                key: &key,
                part: slice.map_or(Part::Whole, |slice| Part::Newest(slice as usize)),
            };
            for document in &found {
                let bucket: Bucket<K, T> = reader.read(document).map_err(|error| error.with_key(key.text()))?;
                place = Some(bucket.token().clone());
                items.extend(bucket.items.into_iter().rev().take(wanted - items.len()));
            }
            if items.len() == wanted || found.len() < buckets as usize {
                return Ok(items);
            }
        }
    }
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> IntoFuture for Newest<'a, K, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = ActionFuture<'a, Vec<T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("newest"), |_| self.execute())
    }
}
