use std::borrow::Borrow;
use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result, send};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{Part, Reader};
use crate::repository::Shared;
use crate::{Bucket, BucketRepository, query};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Page `number` of a key, from 1, the oldest; `None` past the last one.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(page) = trades.page(&123, 1).await? {
    ///     for trade in page.items {
    ///         println!("{trade}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. The server examines one document, and passes over `number - 1` index entries: for pages far
    /// from the first, [`pages`](Self::pages) with a token is the faster way. On a sharded cluster this asks every
    /// shard, and `pages` asks one.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for page 0, [`InvalidKey`](ErrorKind::InvalidKey),
    /// [`Corrupt`](ErrorKind::Corrupt) and [`Decode`](ErrorKind::Decode) for what is stored.
    pub fn page<Q>(&self, key: &Q, number: u64) -> GetPage<'_, K, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        GetPage {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            number,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads one page; made by [`BucketRepository::page`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let third = trades.page(&123, 3).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct GetPage<'a, K, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    number: u64,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::redacted_debug!(GetPage<'_, K, T>);

impl<'a, K: Key, T: DeserializeOwned> GetPage<'a, K, T> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Option<Bucket<K, T>>> {
        let key = self.key?;
        let skip = self
            .number
            .checked_sub(1)
            .filter(|skip| i64::try_from(*skip).is_ok())
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "pages are numbered from 1 to i64::MAX"))?;
        let options = FindOneOptions::builder()
            .sort(doc! { "_id": 1 })
            .skip(Some(skip).filter(|skip| *skip > 0))
            .build();
        let mut session = Session::of_caller(self.session).await?;
        let found = send::find_one(session.as_mut(), &self.shared.collection, query::buckets(&key), options).await?;
        let Some(found) = found else { return Ok(None) };
        let reader = Reader {
            settings: &self.shared.settings,
            key: &key,
            part: Part::Whole,
        };
        reader
            .read(&found)
            .map(Some)
            .map_err(|error| error.with_key(key.text()))
    }
}

impl<'a, K: Key, T: DeserializeOwned + 'a> IntoFuture for GetPage<'a, K, T> {
    type Output = Result<Option<Bucket<K, T>>>;
    type IntoFuture = ActionFuture<'a, Option<Bucket<K, T>>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("page"), |_| self.execute())
    }
}
