use std::borrow::Borrow;
use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, Decode, InvalidArgument, InvalidKey};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::{PageStart, Tokens, check_limit};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use serde::de::DeserializeOwned;

use crate::form::document::{Bucket, SelectedItems};
use crate::form::token::PageToken;
use crate::query::buckets::{buckets_beyond, buckets_of_key, first_by_id};
use crate::repository::{BucketRepository, Shared};
use crate::results::PageSlice;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns pages of a key by cursor: the first ones, or those after or before a token. Oldest first by default.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, PageToken};
    /// # async fn f(trades: BucketRepository<u32, i32>, from_url: Option<&str>) -> mongo_patterns::Result<()> {
    /// let token = from_url.map(str::parse::<PageToken>).transpose()?;
    /// let slice = trades.pages(&123).newest_first().after(token).await?;
    /// let link_to_next = slice.next.map(|token| format!("/trades?after={token}"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines as many documents as it returns, at any position of the token.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a limit of 0, [`InvalidKey`], [`Corrupt`] and [`Decode`] for stored documents.
    pub fn pages<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Pages<'_, K, T>
    where
        K: Borrow<Q>,
    {
        Pages {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            tokens: Tokens::default(),
            newest_first: false,
            limit: 1,
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads pages by cursor; returned by [`BucketRepository::pages`].
    pub struct Pages<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        tokens: Tokens<PageToken>,
        newest_first: bool,
        limit: u32,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session, max_time;
    "pages" => PageSlice<K, T> where K: Key, T: DeserializeOwned + 'a
}

impl<K, T> Pages<'_, K, T> {
    mongo_patterns_core::token_setters!("pages" of PageToken);

    mongo_patterns_core::setters! {
        /// Orders the pages, and so the meaning of after and before, from the newest to the oldest. The items of a page
        /// stay in the order in which they were stored.
        newest_first() => newest_first = true;
        /// Sets the most pages to return; 1 by default.
        limit(pages: u32) => limit = pages;
    }
}

impl<K: Key, T: DeserializeOwned> Pages<'_, K, T> {
    async fn execute(self) -> Result<PageSlice<K, T>> {
        let key = self.key?;
        check_limit(self.limit)?;
        let (collection, settings) = self.shared.parts();
        let start = self.tokens.start()?;
        let is_backwards = matches!(start, PageStart::Before(_));
        let descending = self.newest_first != is_backwards;
        let operator = if descending { "$lt" } else { "$gt" };
        let filter = match start.position() {
            None => buckets_of_key(settings, &key),
            Some(token) => buckets_beyond(settings, &key, operator, token),
        };
        let options = first_by_id(descending, self.limit, None);
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = conn.find_all(collection, filter, options).await?;
        let reader = self.shared.reader(&key, SelectedItems::All);
        let pages: Result<Vec<Bucket<K, T>>> = found.iter().map(|document| reader.read(document)).collect();
        let mut pages = pages.map_err(|error| error.with_key(key.text()))?;
        if is_backwards {
            pages.reverse();
        }
        let more = pages.len() == self.limit as usize;
        let is_start = matches!(start, PageStart::First);
        let has_previous = !is_start && (more || !is_backwards);
        let token = |page: &Bucket<K, T>| page.token().clone();
        Ok(PageSlice {
            next: pages.last().filter(|_| more || is_backwards).map(token),
            previous: pages.first().filter(|_| has_previous).map(token),
            pages,
        })
    }
}
