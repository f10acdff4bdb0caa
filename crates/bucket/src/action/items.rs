use std::borrow::Borrow;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream::try_unfold;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::DateTime;
use serde::de::DeserializeOwned;

use crate::read::items::{Walk, Wanted};
use crate::read::time_range::TimeRange;
use crate::repository::Shared;
use crate::{BucketRepository, ItemToken};

const HOUR: Duration = Duration::from_secs(60 * 60);
const ITEMS_OF_A_PAGE: u64 = 25;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// The items of a key, whatever the size of the buckets that they are in: all of them as a
    /// [`stream`](Items::stream), or a [`page`](Items::page) of any size; those of a range of time, from any place on. In
    /// the order of the pages and within each page in the order in which they were stored, or in the reverse of that.
    ///
    /// That is the order of the appends only with [`IdPolicy::Monotonic`](crate::IdPolicy::Monotonic), or when the times
    /// of the items ascend. With [`IdPolicy::ItemTime`](crate::IdPolicy::ItemTime), the default, an item with an older
    /// time that opens a page opens it among the older ones. Items are never sorted by their times.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_bucket::{BucketRepository, ItemToken};
    /// # use mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, from_url: Option<ItemToken>) -> mongo_patterns_core::Result<()> {
    /// let mut items = trades.items(&123).newest_first().stream();
    /// while let Some(item) = items.try_next().await? {
    ///     println!("{item}");
    /// }
    ///
    /// let page = trades.items(&123).newest_first().limit(20).after(from_url).page().await?;
    /// let link_to_next = page.next.map(|token| format!("/trades?after={token}"));
    ///
    /// let lately = DateTime::from_millis(DateTime::now().timestamp_millis() - 86_400_000);
    /// let of_the_last_day: Vec<i32> = trades.items(&123).from(lately).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It holds no cursor on the server between round trips, so it may be read slowly. Each page is seen as it is when
    /// it is read: items that are appended meanwhile can be in it or not, and none comes twice.
    ///
    /// # Polling
    /// A program polls for items that are appended later by passing the [`last_token`](ItemPage::last_token) of each page to
    /// [`after`](Items::after), oldest first:
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::{BucketRepository, ItemToken};
    /// # async fn f(trades: BucketRepository<u32, i32>, mut seen: Option<ItemToken>) -> mongo_patterns_core::Result<()> {
    /// loop {
    ///     let page = trades.items(&123).after(seen.clone()).limit(100).page().await?;
    ///     page.items.iter().for_each(|item| println!("{item}"));
    ///     if page.items.is_empty() {
    ///         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///     }
    ///     seen = page.last_token;
    /// }
    /// # }
    /// ```
    ///
    /// It returns each item once that is stored after the position, and misses the others:
    ///
    /// - With [`IdPolicy::ItemTime`](crate::IdPolicy::ItemTime), the default, an item with an older time can open a page
    ///   before the position, and later items then fill that page. The poller misses all of them.
    /// - With [`IdPolicy::Monotonic`](crate::IdPolicy::Monotonic), it misses items only where two writers open pages at the
    ///   same moment, in the other order than their ids, or where the open page is among the older ones, as another
    ///   policy leaves it.
    /// - Where items before the position are [removed](Self::remove_item), the others move, and as many can be missed.
    ///   A [repair](Self::repair), or another [page size](Self::migrate_page_size_from), can move them in either direction.
    ///
    /// A program that must miss nothing gives its items an [id](crate::BucketRepositoryBuilder::item_id_field), and reads a
    /// [range of time](Items::from) again that is as long as items can be late.
    ///
    /// # Cost
    /// One round trip for about 1000 items, in which the server examines the pages that it returns, and for a limit no
    /// more pages than the items need, and one. The setters say what they add.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Of a page, and as the last item of a stream: [`InvalidArgument`](ErrorKind::InvalidArgument) for a limit of 0 and a range that
    /// nothing can be in, [`Configuration`](ErrorKind::Configuration) for a range of time without a
    /// [time field](crate::BucketRepositoryBuilder::time_field), [`InvalidKey`](ErrorKind::InvalidKey),
    /// [`Corrupt`](ErrorKind::Corrupt) and [`Decode`](ErrorKind::Decode) for what is stored.
    pub fn items<Q>(&self, key: &Q) -> Items<'_, K, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Items {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            newest_first: false,
            range: TimeRange {
                from: None,
                until: None,
                allowed_lateness: HOUR,
            },
            after: None,
            skip: 0,
            limit: None,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads items of a key; made by [`BucketRepository::items`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::{DateTime, Document}};
/// # use std::time::Duration;
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let hour = Duration::from_secs(60 * 60);
/// let page = trades
///     .items(&123)
///     .from(DateTime::from_millis(1_698_278_400_000))
///     .until(DateTime::from_millis(1_698_364_800_000))
///     .allowed_lateness(hour)
///     .newest_first()
///     .skip(10)
///     .limit(20)
///     .session(session)
///     .page()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read, or its page is awaited"]
pub struct Items<'a, K, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    newest_first: bool,
    range: TimeRange,
    after: Option<ItemToken>,
    skip: u64,
    limit: Option<u64>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::redacted_debug!(Items<'_, K, T>);

/// A stream of items; made by [`Items::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongo_patterns_bucket::action::ItemStream;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut items: ItemStream<'_, Document> = trades.items(&123).stream();
/// while let Some(item) = items.try_next().await? {
///     println!("{item}");
/// }
/// # Ok(())
/// # }
/// ```
pub type ItemStream<'a, T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>>;

/// Some consecutive items of a key, and the ways on from there.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let slice = trades.items(&123).newest_first().limit(20).page().await?;
/// let link_to_newer = slice.previous.map(|token| format!("/trades?before={token}"));
/// let link_to_older = slice.next.map(|token| format!("/trades?after={token}"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ItemPage<T> {
    /// The items, in the order that was asked for.
    pub items: Vec<T>,
    /// For [`after`](Items::after), to go on; `None` when there are no more items for now.
    pub next: Option<ItemToken>,
    /// For [`before`](GetItemPage::before), to go back; `None` where nothing was read or skipped before these. The page
    /// there may be empty.
    pub previous: Option<ItemToken>,
    /// The position after the last of these items, also when there are no more for now: to
    /// [poll for items that are appended later](BucketRepository::items). Where there are no items it is the
    /// token that was given, and `None` without one.
    pub last_token: Option<ItemToken>,
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> Items<'a, K, T> {
    /// The newest first: the last pages from their ends, whatever times the items carry.
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// Only items whose time is this one or later. An item without a date in its time field is in no range.
    ///
    /// # Cost
    /// The server sends only the items of the range. It examines the pages that hold them, and those of up to three times
    /// [`allowed_lateness`](Self::allowed_lateness) before them. Oldest first, and newest first when the reading gets to the start, one or
    /// two round trips find the start, and examine 8 pages at most. They are more where pages are named much earlier
    /// than their items are, as after many were removed: the pages of that stretch are examined too.
    pub fn from(mut self, time: impl Into<DateTime>) -> Self {
        self.range.from = Some(time.into());
        self
    }

    /// Only items whose time is before this one.
    ///
    /// # Cost
    /// The server examines the pages of [`allowed_lateness`](Self::allowed_lateness) after this time too.
    pub fn until(mut self, time: impl Into<DateTime>) -> Self {
        self.range.until = Some(time.into());
        self
    }

    /// How far items of a key may be out of time order; one hour by default. An item whose time is before that of one
    /// that was appended earlier, by up to so much, is found by [`from`](Self::from) and [`until`](Self::until). **One
    /// that is later than that may be missed**, and others near it. Nothing but a range of time depends on it. For a key
    /// with many pages an hour, a shorter time is cheaper.
    ///
    /// Items that were appended [at](crate::action::Append::at) another time than their own are out of order by the
    /// difference. Buckets from other hands whose seconds do not have ten digits stand out of order, until they are
    /// [repaired](BucketRepository::repair).
    pub fn allowed_lateness(mut self, allowed_lateness: Duration) -> Self {
        self.range.allowed_lateness = allowed_lateness;
        self
    }

    /// The items that follow this place, in the order that is asked for; `None` means from the start. Ask for the range
    /// of time and the order with which the token was made.
    ///
    /// It stays a good place while items are appended. Items that are removed from its page meanwhile, or before it,
    /// move the others, and so many can be missed or come again.
    ///
    /// # Cost
    /// None: the server starts at the page, wherever it stands.
    pub fn after(mut self, token: impl Into<Option<ItemToken>>) -> Self {
        self.after = token.into();
        self
    }

    /// Passes over so many items first.
    ///
    /// # Cost
    /// For more than a bucket of them, one round trip more for up to 4000 pages. The server examines the pages that are
    /// skipped, and sends their counts: for places far from the start, [`after`](Self::after) is the faster way.
    pub fn skip(mut self, items: u64) -> Self {
        self.skip = items;
        self
    }

    /// How many items at most; by default all for a [`stream`](Self::stream), and 25 for a [`page`](Self::page).
    pub fn limit(mut self, items: u64) -> Self {
        self.limit = Some(items);
        self
    }

    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    /// The stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. When the
    /// stream itself is dropped while it reads, a [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn stream(self) -> ItemStream<'a, T> {
        let shared = self.shared;
        let walk = self.walk(u64::MAX, 0);
        Box::pin(try_unfold(walk, move |walk| async move {
            let mut walk = match walk {
                Ok(walk) => walk,
                Err(error) => return Err(shared.operation("items").name(error)),
            };
            loop {
                if let Some(item) = walk.pop() {
                    return Ok(Some((item, Ok(walk))));
                }
                if !run(shared.operation("items"), |_| walk.fetch::<K>()).await? {
                    return Ok(None);
                }
            }
        }))
    }

    /// A page of these items, with tokens for the next and the previous one.
    ///
    /// # Cost
    /// One round trip where the buckets are full, as this crate leaves them, and what the setters add. The server sends
    /// whole buckets, without the items out of the range of time.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn page(self) -> GetItemPage<'a, K, T> {
        GetItemPage {
            items: self,
            before: None,
        }
    }

    /// With so many items more than the limit, which is a default where none was set.
    fn walk(self, default: u64, more: u64) -> Result<Walk<'a, T>> {
        let key = self.key?;
        if self.limit == Some(0) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the limit must be at least 1 item",
            ));
        }
        let range = Some(self.range).filter(|range| !range.is_everything());
        if let Some(range) = &range {
            range.check(&self.shared.settings)?;
        }
        let wanted = Wanted {
            newest_first: self.newest_first,
            range,
            after: self.after,
            skip: self.skip,
            limit: self.limit.unwrap_or(default).saturating_add(more),
        };
        Ok(Walk::new(self.shared, key, wanted, self.session))
    }
}

/// Reads a page of items; made by [`Items::page`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let last_ten = trades.items(&123).newest_first().limit(10).page().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct GetItemPage<'a, K, T> {
    items: Items<'a, K, T>,
    before: Option<ItemToken>,
}

mongo_patterns_core::redacted_debug!(GetItemPage<'_, K, T>);

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> GetItemPage<'a, K, T> {
    /// The items that lead up to this place, in the order that is asked for, and not those that follow
    /// [`after`](Items::after); [`skip`](Items::skip) passes over the nearest ones. `None` changes nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::{BucketRepository, ItemToken};
    /// # async fn f(
    /// #     trades: BucketRepository<u32, i32>, after: Option<ItemToken>, before: Option<ItemToken>,
    /// # ) -> mongo_patterns_core::Result<()> {
    /// let slice = trades.items(&123).newest_first().limit(20).after(after).page().before(before).await?;
    /// let link_to_newer = slice.previous.map(|token| format!("/trades?before={token}"));
    /// let link_to_older = slice.next.map(|token| format!("/trades?after={token}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn before(mut self, token: impl Into<Option<ItemToken>>) -> Self {
        self.before = token.into().or(self.before);
        self
    }

    async fn execute(mut self) -> Result<ItemPage<T>> {
        let limit = self.items.limit.unwrap_or(ITEMS_OF_A_PAGE);
        let is_backwards = self.before.is_some();
        if is_backwards {
            self.items.newest_first = !self.items.newest_first;
            self.items.after = self.before;
        }
        let is_first = self.items.after.is_none() && self.items.skip == 0;
        let mut start = self.items.after.clone();
        let given = start.clone();
        let mut end = None;
        let mut reached = None;
        // One more than the page tells whether there is a next one.
        let mut walk = self.items.walk(ITEMS_OF_A_PAGE, 1)?;
        let mut items = Vec::new();
        loop {
            let Some(item) = walk.pop() else {
                if walk.fetch::<K>().await? {
                    continue;
                }
                end = None;
                reached = walk.token();
                break;
            };
            if items.len() as u64 == limit {
                break;
            }
            if items.is_empty() {
                start = walk.token_before().filter(|_| !is_first);
            }
            items.push(item);
            if items.len() as u64 == limit {
                end = walk.token();
                reached.clone_from(&end);
            }
        }
        let reached = reached.filter(|_| !items.is_empty()).or(given);
        if is_backwards {
            items.reverse();
        }
        let (next, previous, last_token) = if is_backwards {
            (start.clone(), end, start)
        } else {
            (end, start, reached)
        };
        Ok(ItemPage {
            items,
            next,
            previous,
            last_token,
        })
    }
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> IntoFuture for GetItemPage<'a, K, T> {
    type Output = Result<ItemPage<T>>;
    type IntoFuture = ActionFuture<'a, ItemPage<T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.items.shared.operation("items"), |_| self.execute())
    }
}
