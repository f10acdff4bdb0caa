use std::borrow::Borrow;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream::try_unfold;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, Corrupt, Decode, InvalidArgument, InvalidKey};
use mongo_patterns_core::action::run;
use mongo_patterns_core::pages::{Tokens, check_limit};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;
use serde::de::DeserializeOwned;

use crate::form::token::ItemToken;
use crate::read::items::{ItemReader, Wanted};
use crate::read::time_range::TimeRange;
use crate::repository::{BucketRepository, Shared};
use crate::results::ItemPage;

const HOUR: Duration = Duration::from_secs(60 * 60);
const ITEMS_OF_A_PAGE: u64 = 25;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Reads the items of a key, independently of the size of their buckets: as a [`stream`](Items::stream), or as a
    /// [`page`](Items::page) of any size. A range of time, a position and a limit restrict them.
    ///
    /// Items are returned in the order of the pages, and within each page in the order in which they were stored, or in
    /// the reverse of that. This is the order of the appends only when the times of the items ascend: an item with an older
    /// time that opens a page opens it among the older ones. Items are never sorted by their times.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::{BucketRepository, ItemToken};
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trades: BucketRepository<u32, i32>, from_url: Option<ItemToken>) -> mongo_patterns::Result<()> {
    /// let mut items = trades.items(&123).newest_first().stream();
    /// while let Some(item) = items.try_next().await? {
    ///     println!("{item}");
    /// }
    ///
    /// let page = trades.items(&123).newest_first().limit(20).after(from_url).page().await?;
    /// let link_to_next = page.next.map(|token| format!("/trades?after={token}"));
    ///
    /// let yesterday = DateTime::from_millis(DateTime::now().timestamp_millis() - 86_400_000);
    /// let of_the_last_day: Vec<i32> = trades.items(&123).from(yesterday).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It holds no cursor on the server between round trips, so it can be read slowly. Each page is returned as it is
    /// when it is read: items that are appended concurrently may be in it or not, and none is returned twice.
    ///
    /// # Polling
    /// A program polls for items that are appended later by passing the [`last_token`](ItemPage::last_token) of each
    /// page to [`after`](Items::after), oldest first:
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, ItemToken};
    /// # async fn f(trades: BucketRepository<u32, i32>, mut seen: Option<ItemToken>) -> mongo_patterns::Result<()> {
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
    /// - An item with an older time can open a page before the position, and later items then fill that page. The poller
    ///   misses all of them.
    /// - With [windows](crate::BucketRepositoryBuilder::window) it misses an item of an earlier window
    ///   than that of the position.
    /// - Where items before the position are [removed](Self::remove_item), the others move, and as many can be missed.
    ///   A [repair](Self::repair), or another [page size](Self::migrate_page_size_from), can move them in either
    ///   direction.
    ///
    /// A program that must miss nothing gives its items an [id](crate::BucketRepositoryBuilder::item_id_field), and
    /// reads a [range of time](Items::from) again that is as long as items can be late.
    ///
    /// # Cost
    /// One round trip for about 1000 items, in which the server examines the pages that it returns. With a limit, it
    /// examines at most one page more than the items need. The setters say what they add.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Of a page, and as the last item of a stream: [`InvalidArgument`] for a limit of 0 and an empty range of time,
    /// [`Configuration`] for a range of time without a [time field](crate::BucketRepositoryBuilder::time_field),
    /// [`InvalidKey`], [`Corrupt`] and [`Decode`] for stored documents.
    pub fn items<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Items<'_, K, T>
    where
        K: Borrow<Q>,
    {
        Items {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            wanted: Wanted::default(),
            range: TimeRange {
                from: None,
                until: None,
                allowed_lateness: HOUR,
            },
            limit: None,
            session: None,
            max_time: None,
            types: PhantomData,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads items of a key; returned by [`BucketRepository::items`].
    pub struct Items<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        wanted: Wanted,
        range: TimeRange,
        limit: Option<u64>,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session, max_time;
}

/// A stream of items; returned by [`Items::stream`].
pub type ItemStream<'a, T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>>;

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> Items<'a, K, T> {
    mongo_patterns_core::setters! {
        /// Orders the items from the newest to the oldest: the last pages from their ends, whatever the times of the
        /// items.
        newest_first() => wanted.newest_first = true;

        /// Returns only items whose time is this one or later. An item without a date in its time field is in no range.
        ///
        /// # Cost
        /// The server sends only the items of the range. It examines the pages that contain them, and those of up to
        /// three times [`allowed_lateness`](Self::allowed_lateness) before them.
        ///
        /// A search finds the start: oldest first, or newest first when the read reaches the start. It needs one or two
        /// round trips, and examines at most 8 pages. It needs more where the seconds in the ids are much earlier than
        /// the items, as after many removals: then it examines the pages in between too.
        ///
        /// With [windows](crate::BucketRepositoryBuilder::window) there is no search: the server examines the pages of the
        /// windows that the range overlaps.
        from(time: impl Into<DateTime>) => range.from = Some(time.into());

        /// Returns only items whose time is before this one.
        ///
        /// # Cost
        /// The server also examines the pages of [`allowed_lateness`](Self::allowed_lateness) after this time, or with
        /// windows the rest of its window.
        until(time: impl Into<DateTime>) => range.until = Some(time.into());

        /// Sets how much items of a key can be out of time order; one hour by default.
        ///
        /// [`from`](Self::from) and [`until`](Self::until) find an item whose time is earlier, by up to this much, than
        /// that of an item that was appended before it. **They may miss one that is later than that**, and others near
        /// it. It matters for a range of time only. For a key with many pages an hour, a shorter time is cheaper.
        ///
        /// Items that were appended [at](crate::action::Append::at) another time than their own are out of order by the
        /// difference. Buckets of other programs whose seconds do not have ten digits are out of order until they are
        /// [repaired](BucketRepository::repair).
        ///
        /// With [windows](crate::BucketRepositoryBuilder::window) it has no effect: an item is found however late it was
        /// appended.
        allowed_lateness(allowed_lateness: Duration) => range.allowed_lateness = allowed_lateness;

        /// Returns the items after this position, in the requested order. `None` means from the start. Request the
        /// range of time and the order with which the token was made.
        ///
        /// The position stays valid while items are appended. Items that are concurrently removed from its page, or
        /// before it, move the others, and as many can be missed or returned again.
        ///
        /// # Cost
        /// None: the server starts at the page.
        after(token: impl Into<Option<ItemToken>>) => wanted.after = token.into();

        /// Skips this many items first.
        ///
        /// # Cost
        /// For more items than a bucket has, one round trip more for up to 4000 pages. The server examines the skipped
        /// pages, and sends their counts. For positions far from the start, [`after`](Self::after) is faster.
        skip(items: u64) => wanted.skip = items;

        /// Sets the most items to return; by default all for a [`stream`](Self::stream), and 25 for a
        /// [`page`](Self::page).
        limit(items: u64) => limit = Some(items);
    }

    /// Returns the stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. When the
    /// stream itself is dropped while it reads, a [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn stream(self) -> ItemStream<'a, T> {
        let shared = self.shared;
        let reader = self.reader(u64::MAX, 0);
        Box::pin(try_unfold(reader, move |reader| async move {
            let mut reader = match reader {
                Ok(reader) => reader,
                Err(error) => return Err(shared.operation("items").name(error)),
            };
            loop {
                if let Some(item) = reader.pop() {
                    return Ok(Some((item, Ok(reader))));
                }
                if !run(shared.operation("items"), reader.fetch::<K>()).await? {
                    return Ok(None);
                }
            }
        }))
    }

    /// Returns a page of these items, with tokens for the next and the previous one.
    ///
    /// # Cost
    /// One round trip if the buckets are full, as this crate leaves them, and what the setters add. The server sends
    /// whole buckets, without the items outside of the range of time.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    pub fn page(self) -> GetItemPage<'a, K, T> {
        GetItemPage {
            shared: self.shared,
            items: self,
            before: None,
        }
    }

    /// Returns a reader of up to `more` items beyond the limit, or beyond the default if none is set.
    fn reader(mut self, default: u64, more: u64) -> Result<ItemReader<'a, T>> {
        let key = self.key?;
        self.limit.map_or(Ok(()), check_limit)?;
        if !self.range.is_unbounded() {
            self.range.check(&self.shared.settings)?;
            self.wanted.range = Some(self.range);
        }
        self.wanted.limit = self.limit.unwrap_or(default).saturating_add(more);
        Ok(ItemReader::new(
            self.shared,
            key,
            self.wanted,
            self.session,
            self.max_time,
        ))
    }
}

mongo_patterns_core::action! {
    /// Reads a page of items; returned by [`Items::page`].
    pub struct GetItemPage<'a, K, T> {
        shared: &'a Shared,
        items: Items<'a, K, T>,
        before: Option<ItemToken>,
    }
    "items" => ItemPage<T> where K: Key, T: DeserializeOwned + Send + 'a
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> GetItemPage<'a, K, T> {
    /// Returns the items directly before this position, in the requested order. [`skip`](Items::skip) skips the closest ones.
    /// `None` changes nothing. A page has one of the two positions: with [`after`](Items::after) too, the call returns
    /// [`InvalidArgument`].
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{BucketRepository, ItemToken};
    /// # async fn f(
    /// #     trades: BucketRepository<u32, i32>, after: Option<ItemToken>, before: Option<ItemToken>,
    /// # ) -> mongo_patterns::Result<()> {
    /// let page = trades.items(&123).newest_first().limit(20).after(after).page().before(before).await?;
    /// let link_to_newer = page.previous.map(|token| format!("/trades?before={token}"));
    /// let link_to_older = page.next.map(|token| format!("/trades?after={token}"));
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
        let wanted = &mut self.items.wanted;
        if is_backwards {
            let mut tokens = Tokens::default();
            tokens.after(wanted.after.take());
            tokens.before(self.before);
            wanted.newest_first = !wanted.newest_first;
            wanted.after = tokens.start()?.position().cloned();
        }
        let is_first = wanted.after.is_none() && wanted.skip == 0;
        let given = wanted.after.clone();
        let mut start = given.clone();
        let mut end = None;
        let mut reached = None;
        // One item beyond the limit shows whether there is a next page.
        let mut reader = self.items.reader(ITEMS_OF_A_PAGE, 1)?;
        let mut items = Vec::new();
        loop {
            let Some(item) = reader.pop() else {
                if reader.fetch::<K>().await? {
                    continue;
                }
                end = None;
                reached = reader.token();
                break;
            };
            if items.len() as u64 == limit {
                break;
            }
            if items.is_empty() {
                start = reader.token_before().filter(|_| !is_first);
            }
            items.push(item);
            if items.len() as u64 == limit {
                end = reader.token();
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
