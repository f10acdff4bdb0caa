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
    /// Pages of a key by cursor: the first ones, or those after or before a token, oldest first unless told otherwise.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::{BucketRepository, PageToken};
    /// # async fn f(trades: BucketRepository<u32, i32>, from_url: Option<&str>) -> mongo_patterns_core::Result<()> {
    /// let token = from_url.map(str::parse::<PageToken>).transpose()?;
    /// let slice = trades.pages(&123).newest_first().after(token).await?;
    /// let link_to_next = slice.next.map(|token| format!("/trades?after={token}"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines as many documents as it returns, wherever the token stands.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a limit of 0, [`InvalidKey`](ErrorKind::InvalidKey),
    /// [`Corrupt`](ErrorKind::Corrupt) and [`Decode`](ErrorKind::Decode) for what is stored.
    pub fn pages<Q>(&self, key: &Q) -> Pages<'_, K, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Pages::new(self.shared(), key.encode_key().map_err(Error::from))
    }
}

#[derive(Debug)]
enum From {
    Start,
    After(PageToken),
    Before(PageToken),
}

/// Reads pages by cursor; made by [`BucketRepository::pages`].
///
/// ```no_run
/// # use mongo_patterns_bucket::{BucketRepository, PageToken};
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// #     after: Option<PageToken>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let slice = trades.pages(&123).newest_first().limit(3).after(after).session(session).await?;
/// let back = trades.pages(&123).newest_first().limit(3).before(slice.previous).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Pages<'a, K, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    from: From,
    newest_first: bool,
    limit: u32,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::redacted_debug!(Pages<'_, K, T>);

/// Some consecutive pages of a key, and the ways on from there.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let slice = trades.pages(&123).newest_first().limit(3).await?;
/// for page in &slice.pages {
///     println!("{} trades", page.items.len());
/// }
/// let link_to_older = slice.next.map(|token| format!("/trades?after={token}"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageSlice<K, T> {
    /// The pages, in the order that was asked for.
    pub pages: Vec<Bucket<K, T>>,
    /// For [`after`](Pages::after), to go on; `None` when fewer pages came than the limit allows, so that there are no
    /// more for now. When the pages end just at the limit, the next slice is empty.
    pub next: Option<PageToken>,
    /// For [`before`](Pages::before), to go back; `None` at the start, or when fewer pages came than the limit allows.
    pub previous: Option<PageToken>,
}

impl<'a, K: Key, T: DeserializeOwned> Pages<'a, K, T> {
    pub(super) fn new(shared: &'a Shared, key: Result<EncodedKey>) -> Self {
        Self {
            shared,
            key,
            from: From::Start,
            newest_first: false,
            limit: 1,
            session: None,
            types: PhantomData,
        }
    }

    /// The pages that follow the token's, in the order that is asked for. `None` means from the start.
    pub fn after(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.from = token.into().map_or(From::Start, From::After);
        self
    }

    /// The pages that lead up to the token's, in the order that is asked for. `None` means from the start.
    pub fn before(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.from = token.into().map_or(From::Start, From::Before);
        self
    }

    /// Orders the pages, and so what is after and before, from the newest to the oldest. The items of a page stay in
    /// the order in which they were stored.
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// How many pages at most; 1 by default.
    pub fn limit(mut self, pages: u32) -> Self {
        self.limit = pages;
        self
    }

    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<PageSlice<K, T>> {
        let key = self.key?;
        if self.limit == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the limit must be at least 1 page",
            ));
        }
        let Shared {
            collection, settings, ..
        } = self.shared;
        let backwards = matches!(self.from, From::Before(_));
        let descending = self.newest_first != backwards;
        let operator = if descending { "$lt" } else { "$gt" };
        let filter = match &self.from {
            From::Start => query::buckets_of_key(settings, &key),
            From::After(token) | From::Before(token) => query::buckets_beyond(settings, &key, operator, token),
        };
        let options = FindOptions::builder()
            .sort(doc! { "_id": if descending { -1 } else { 1 } })
            .limit(i64::from(self.limit))
            .batch_size(batch_size(self.limit))
            .build();
        let mut session = Session::of_caller(self.session).await?;
        let found = find_all(session.as_mut(), collection, filter, options).await?;
        let reader = Reader {
            settings,
            key: &key,
            part: Part::Whole,
        };
        let pages: Result<Vec<Bucket<K, T>>> = found.iter().map(|document| reader.read(document)).collect();
        let mut pages = pages.map_err(|error| error.with_key(key.text()))?;
        if backwards {
            pages.reverse();
        }
        let more = pages.len() == self.limit as usize;
        let start = matches!(self.from, From::Start);
        Ok(PageSlice {
            next: pages
                .last()
                .filter(|_| more || backwards)
                .map(|page| page.token().clone()),
            previous: pages
                .first()
                .filter(|_| !start && (more || !backwards))
                .map(|page| page.token().clone()),
            pages,
        })
    }
}

impl<'a, K: Key, T: DeserializeOwned + 'a> IntoFuture for Pages<'a, K, T> {
    type Output = Result<PageSlice<K, T>>;
    type IntoFuture = ActionFuture<'a, PageSlice<K, T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("pages"), |_| self.execute())
    }
}
