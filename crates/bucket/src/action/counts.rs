use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result, send};
use mongodb::ClientSession;

use crate::repository::Shared;
use crate::{BucketRepository, query};

impl<K: Key, T> BucketRepository<K, T> {
    /// How many items and pages a key has, exactly, whatever is in the buckets.
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
    /// One round trip. The server reads every bucket of the key. For the number of pages alone,
    /// [`count_pages`](Self::count_pages) reads the index only.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey), and those of the driver.
    pub fn counts<Q>(&self, key: &Q) -> CountItems<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        CountItems {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
        }
    }

    /// How many pages a key has.
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
    /// One round trip. The server examines as many index entries as there are pages, and no document.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey), and those of the driver.
    pub fn count_pages<Q>(&self, key: &Q) -> CountPages<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        CountPages {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            session: None,
        }
    }
}

/// How much a key has.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let counts = trades.counts(&123).await?;
/// println!("{} trades on {} pages", counts.items, counts.pages);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The sum of the counts of its buckets.
    pub items: u64,
    /// The number of its buckets.
    pub pages: u64,
}

/// Counts items and pages; made by [`BucketRepository::counts`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let counts = trades.counts(&123).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct CountItems<'a> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(CountItems<'_>);

impl<'a> CountItems<'a> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Counts> {
        let key = self.key?;
        let Shared {
            collection, settings, ..
        } = self.shared;
        let mut session = Session::of_caller(self.session).await?;
        let pipeline = query::counts(settings, &key);
        let found = send::aggregate_all(session.as_mut(), collection, pipeline.into(), None).await?;
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

impl<'a> IntoFuture for CountItems<'a> {
    type Output = Result<Counts>;
    type IntoFuture = ActionFuture<'a, Counts>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("counts"), |_| self.execute())
    }
}

/// Counts pages; made by [`BucketRepository::count_pages`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let pages = trades.count_pages(&123).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct CountPages<'a> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(CountPages<'_>);

impl<'a> CountPages<'a> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<u64> {
        let key = self.key?;
        let mut session = Session::of_caller(self.session).await?;
        let filter = query::buckets(&key);
        Ok(send::count_documents(session.as_mut(), &self.shared.collection, filter, None).await?)
    }
}

impl<'a> IntoFuture for CountPages<'a> {
    type Output = Result<u64>;
    type IntoFuture = ActionFuture<'a, u64>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("count_pages"), |_| self.execute())
    }
}
