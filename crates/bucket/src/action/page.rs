use std::borrow::Borrow;
use std::marker::PhantomData;

use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{Bucket, SelectedItems};
use crate::query::buckets::{buckets, by_id};
use crate::repository::{BucketRepository, Shared};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns a page of a key by its number, from 1, the oldest. `None` after the last one.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
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
    /// One round trip. The server examines one document, and skips `number - 1` index entries, or with [`of`](GetPage::of)
    /// the entries behind the page if they are fewer. For pages far from both ends, and on a sharded cluster,
    /// [`buckets`](Self::buckets) with a token is faster.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: page 0 or one above `i64::MAX`.
    pub fn page<Q: EncodeKey + ?Sized>(&self, key: &Q, number: u64) -> GetPage<'_, K, T>
    where
        K: Borrow<Q>,
    {
        GetPage {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            number,
            total: None,
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads one page; returned by [`BucketRepository::page`].
    pub struct GetPage<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        number: u64,
        total: Option<u64>,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session, max_time;
    "page" => Option<Bucket<K, T>> where K: Key, T: DeserializeOwned + 'a
}

impl<K, T> GetPage<'_, K, T> {
    mongo_patterns_core::setters! {
        /// Sets the number of pages, as [`count_pages`](BucketRepository::count_pages) returns it. Then a page of the second
        /// half is read from the last page backwards. If `n` pages were added after the count, the call returns page `number
        /// + n`.
        ///
        /// ```no_run
        /// # use mongo_patterns::bucket::BucketRepository;
        /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
        /// let total = trades.count_pages(&123).await?;
        /// let last_but_one = trades.page(&123, total - 1).of(total).await?;
        /// # Ok(())
        /// # }
        /// ```
        of(pages: u64) => total = Some(pages);
    }

    /// Returns whether to read from the last page, and how many pages to skip.
    fn position(&self) -> Result<(bool, u64)> {
        // A router adds the page itself to those that it skips, and refuses more than i64::MAX.
        let number = Some(self.number).filter(|number| i64::try_from(*number).is_ok());
        let skip = number.and_then(|number| number.checked_sub(1)).ok_or_else(|| {
            Error::new(
                InvalidArgument,
                "the number of the page is out of range: pass one from 1 to i64::MAX",
            )
        })?;
        // A page beyond the total may have been added since.
        let behind = self.total.and_then(|total| total.checked_sub(self.number));
        Ok(match behind.filter(|behind| *behind < skip) {
            Some(behind) => (true, behind),
            None => (false, skip),
        })
    }
}

impl<K: Key, T: DeserializeOwned> GetPage<'_, K, T> {
    async fn execute(self) -> Result<Option<Bucket<K, T>>> {
        let (newest_first, skip) = self.position()?;
        let key = self.key?;
        let options = FindOneOptions::builder()
            .sort(by_id(newest_first))
            .skip(Some(skip).filter(|skip| *skip > 0))
            .build();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = conn.find_one(&self.shared.collection, buckets(&key), options).await?;
        let Some(found) = found else { return Ok(None) };
        let page = self.shared.reader(&key, SelectedItems::All).read(&found);
        page.map(Some).map_err(|error| error.with_key(key.text()))
    }
}
