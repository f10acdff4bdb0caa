use crate::action::prelude::*;
use crate::query::buckets::{buckets, counts};
use crate::results::Counts;

impl<K: Key, T> BucketRepository<K, T> {
    /// Counts the items and pages of a key exactly.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let counts = trades.counts(&123).await?;
    /// println!("{} trades on {} pages", counts.items, counts.pages);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. The server reads every bucket of the key. For the number of pages only,
    /// [`count_pages`](Self::count_pages) reads just the index.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`], and those of the driver.
    pub fn counts<Q: EncodeKey + ?Sized>(&self, key: &Q) -> CountItems<'_>
    where
        K: Borrow<Q>,
    {
        CountItems {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
            max_time: None,
        }
    }

    /// Counts the pages of a key.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let pages: u64 = trades.count_pages(&123).await?;
    /// println!("page 1 of {pages}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. The server examines as many index entries as there are pages, and no document. Of a sharded collection
    /// it examines the documents too.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`], and those of the driver.
    pub fn count_pages<Q: EncodeKey + ?Sized>(&self, key: &Q) -> CountPages<'_>
    where
        K: Borrow<Q>,
    {
        CountPages {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Counts items and pages; returned by [`BucketRepository::counts`].
    pub struct CountItems<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
    }
    with session, max_time;
    "counts" => Counts
}

impl CountItems<'_> {
    async fn execute(self) -> Result<Counts> {
        let key = self.key?;
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let pipeline = counts(&self.shared.settings, &key);
        let found = send::aggregate_all(&mut conn, &self.shared.collection, pipeline, None).await?;
        let found = found.first();
        let number = |field: &str| {
            let value = found.and_then(|found| found.get(field).ok().flatten());
            let value = value.and_then(stored_integer).unwrap_or(0);
            u64::try_from(value).unwrap_or(0)
        };
        Ok(Counts {
            items: number("items"),
            pages: number("pages"),
        })
    }
}

mongo_patterns_core::action! {
    /// Counts pages; returned by [`BucketRepository::count_pages`].
    pub struct CountPages<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
    }
    with session, max_time;
    "count_pages" => u64
}

impl CountPages<'_> {
    async fn execute(self) -> Result<u64> {
        let key = self.key?;
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        Ok(send::count_documents(&mut conn, &self.shared.collection, buckets(&key), None).await?)
    }
}
