use std::borrow::Borrow;
use std::marker::PhantomData;

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, List, Page, PageSource};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use serde::de::DeserializeOwned;

use crate::form::document::{Bucket, SelectedItems};
use crate::form::token::PageToken;
use crate::query::buckets::{buckets_beyond, buckets_of_key, first_by_id};
use crate::repository::{BucketRepository, Shared};

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Reads the buckets of a key, as a [list](List) in the order of their `_id`, which is the order of their times.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, PageToken};
    /// # async fn f(trades: BucketRepository<u32, i32>, from_url: Option<&str>) -> mongo_patterns::Result<()> {
    /// let token = from_url.map(str::parse::<PageToken>).transpose()?;
    /// let page = trades.buckets(&123).newest_first().limit(1).after(token).page().await?;
    /// let link_to_next = page.next.map(|token| format!("/trades?after={token}"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The items of a bucket are in the order in which they were stored, also newest first.
    ///
    /// # Cost
    /// One round trip for each page. The server examines as many documents as it returns.
    pub fn buckets<Q: EncodeKey + ?Sized>(&self, key: &Q) -> List<'_, Bucket<K, T>, PageToken>
    where
        K: Borrow<Q>,
    {
        let (shared, types) = (self.shared(), PhantomData);
        let key = key.encode_key().map_err(Error::from);
        let buckets = key.map(|key| Buckets::<K, T> { shared, key, types });
        List::new(shared.operation("buckets"), buckets)
    }
}

/// The buckets of a key.
struct Buckets<'a, K, T> {
    shared: &'a Shared,
    key: EncodedKey,
    types: PhantomData<fn() -> (K, T)>,
}

impl<K: Key, T: DeserializeOwned> PageSource<Bucket<K, T>, PageToken> for Buckets<'_, K, T> {
    fn read<'c>(
        &'c self,
        page: Asked<PageToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<Bucket<K, T>, PageToken>>> {
        Box::pin(self.read_page(page, conn))
    }
}

impl<K: Key, T: DeserializeOwned> Buckets<'_, K, T> {
    async fn read_page(&self, page: Asked<PageToken>, conn: &mut Conn<'_>) -> Result<Page<Bucket<K, T>, PageToken>> {
        let (collection, settings) = self.shared.parts();
        let operator = if page.descends() { "$lt" } else { "$gt" };
        let filter = match page.start.position() {
            None => buckets_of_key(settings, &self.key),
            Some(token) => buckets_beyond(settings, &self.key, operator, token),
        };
        let options = first_by_id(page.descends(), page.limit, None);
        let mut found = conn.find_all(collection, filter, options).await?;
        if page.start.is_backward() {
            found.reverse();
        }
        let reader = self.shared.reader(&self.key, SelectedItems::All);
        let buckets: Result<Vec<Bucket<K, T>>> = found.iter().map(|document| reader.read(document)).collect();
        let buckets = buckets.map_err(|error| error.with_key(self.key.text()))?;
        let ends = buckets.first().zip(buckets.last());
        let ends = ends.map(|(first, last)| [first.token().clone(), last.token().clone()]);
        let has_more = buckets.len() == page.limit as usize;
        let edges = page.edges(PageToken::oldest(), PageToken::newest());
        Ok(Page::around(buckets, &page.start, ends, has_more, edges))
    }
}
