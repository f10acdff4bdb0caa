use crate::action::prelude::*;
use crate::form::document::{Bucket, Part};
use crate::query::buckets::{buckets, by_id};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns a page of a key by its number, from 1, the oldest. `None` after the last one.
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
    /// One round trip. The server examines one document, and skips `number - 1` index entries. For pages far from the
    /// first, [`pages`](Self::pages) with a token is faster. On a sharded cluster this call reads from every shard, and
    /// `pages` from one.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for page 0, [`InvalidKey`], [`Corrupt`] and [`Decode`] for the stored document.
    pub fn page<Q: EncodeKey + ?Sized>(&self, key: &Q, number: u64) -> GetPage<'_, K, T>
    where
        K: Borrow<Q>,
    {
        GetPage {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            number,
            types: PhantomData,
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads one page; returned by [`BucketRepository::page`].
    pub struct GetPage<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        number: u64,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session;
    "page" => Option<Bucket<K, T>> where K: Key, T: DeserializeOwned + 'a
}

impl<K: Key, T: DeserializeOwned> GetPage<'_, K, T> {
    async fn execute(self) -> Result<Option<Bucket<K, T>>> {
        let key = self.key?;
        let skip = self.number.checked_sub(1).filter(|skip| i64::try_from(*skip).is_ok());
        let skip = skip.ok_or_else(|| {
            Error::new(
                InvalidArgument,
                "the number of the page is out of range: pass one from 1 to i64::MAX",
            )
        })?;
        let options = FindOneOptions::builder()
            .sort(by_id(false))
            .skip(Some(skip).filter(|skip| *skip > 0))
            .build();
        let mut session = Session::of_caller(self.session).await?;
        let found = send::find_one(session.as_mut(), &self.shared.collection, buckets(&key), options).await?;
        let Some(found) = found else { return Ok(None) };
        let page = self.shared.reader(&key, Part::Whole).read(&found);
        page.map(Some).map_err(|error| error.with_key(key.text()))
    }
}
