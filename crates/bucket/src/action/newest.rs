use crate::action::prelude::*;
use crate::form::document::{Bucket, Part};
use crate::form::token::PageToken;
use crate::query::buckets::{buckets_beyond, buckets_of_key, first_by_id, last_items};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns the newest items of a key, the newest first: those at the end of its last pages, whatever their times.
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
    /// One round trip if all pages but the last are full, as this crate leaves them. The server examines at most one
    /// document more than the items need, and sends at most `count` items of each.
    ///
    /// With [windows](crate::BucketRepositoryBuilder::window), whose last buckets can have few items, it needs more round
    /// trips, each of which reads four times the buckets of the previous one at most.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a count of 0, [`InvalidKey`], [`Corrupt`] and [`Decode`] for stored documents.
    pub fn newest<Q: EncodeKey + ?Sized>(&self, key: &Q, count: u32) -> Newest<'_, K, T>
    where
        K: Borrow<Q>,
    {
        Newest {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            count,
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads the newest items; returned by [`BucketRepository::newest`].
    pub struct Newest<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        count: u32,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session, max_time;
    "newest" => Vec<T> where K: Key, T: DeserializeOwned + Send + 'a
}

impl<K: Key, T: DeserializeOwned> Newest<'_, K, T> {
    async fn execute(self) -> Result<Vec<T>> {
        let key = self.key?;
        if self.count == 0 {
            let message = "the number of items is 0: ask for 1 item or more";
            return Err(Error::new(InvalidArgument, message));
        }
        let (collection, settings) = self.shared.parts();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let wanted = self.count as usize;
        let mut items = Vec::new();
        let mut position: Option<PageToken> = None;
        let mut growth = 1_u32;
        loop {
            let missing = self.count - u32::try_from(items.len()).unwrap_or(u32::MAX);
            // The newest bucket has at least one item, and those before it have a page each.
            let mut buckets = (missing - 1).div_ceil(settings.page_size) + 1;
            if settings.windows.is_some() {
                // The last bucket of each window can have one item only.
                buckets = buckets.saturating_mul(growth).min(missing);
                growth = growth.saturating_mul(4);
            }
            let filter = match &position {
                None => buckets_of_key(settings, &key),
                Some(token) => buckets_beyond(settings, &key, "$lt", token),
            };
            let slice = i32::try_from(missing).ok().filter(|_| missing < settings.page_size);
            let options = first_by_id(true, buckets, slice.map(|slice| last_items(settings, slice)));
            let found = find_all(&mut conn, collection, filter, options).await?;
            let part = slice.map_or(Part::Whole, |slice| Part::Newest(slice as usize));
            let reader = self.shared.reader(&key, part);
            for document in &found {
                let bucket: Bucket<K, T> = reader.read(document).map_err(|error| error.with_key(key.text()))?;
                position = Some(bucket.token().clone());
                items.extend(bucket.items.into_iter().rev().take(wanted - items.len()));
            }
            if items.len() == wanted || found.len() < buckets as usize {
                return Ok(items);
            }
        }
    }
}
