use std::borrow::Borrow;
use std::marker::PhantomData;
use std::mem;
use std::time::Duration;

use futures::stream::try_unfold;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, InvalidArgument};
use mongo_patterns_core::action::{ActionFuture, ActionStream, run};
use mongo_patterns_core::list::{Page, PageStart, Tokens, forward};
use mongo_patterns_core::pages::check_limit;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::bson::DateTime;
use serde::de::DeserializeOwned;

use crate::form::token::ItemToken;
use crate::read::items::{ITEMS_OF_A_READ, ItemReader, Wanted};
use crate::read::time_range::TimeRange;
use crate::repository::{BucketRepository, Shared};

const HOUR: Duration = Duration::from_secs(60 * 60);
const ITEMS_OF_A_PAGE: u32 = 100;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Reads the items of a key, whatever the size of their buckets: as a [`stream`](Items::stream), or as a
    /// [`page`](Items::page) of any size.
    ///
    /// Items are returned in the order of the buckets, and within a bucket in the order in which they were stored, or in
    /// reverse. This is the order of the appends only when the times of the items ascend: an older item opens its bucket
    /// among the older ones.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::{BucketRepository, ItemToken};
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(
    /// #     trades: BucketRepository<u32, i32>, after: Option<ItemToken>, before: Option<ItemToken>,
    /// # ) -> mongo_patterns::Result<()> {
    /// let mut items = trades.items(&123).newest_first().stream();
    /// while let Some(item) = items.try_next().await? {
    ///     println!("{item}");
    /// }
    ///
    /// let page = trades.items(&123).newest_first().limit(20).after(after).before(before).page().await?;
    /// let link_to_older = page.next.map(|token| format!("/trades?after={token}"));
    /// let link_to_newer = page.previous.map(|token| format!("/trades?before={token}"));
    ///
    /// let yesterday = DateTime::from_millis(DateTime::now().timestamp_millis() - 86_400_000);
    /// let of_the_last_day: Vec<i32> = trades.items(&123).from(yesterday).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It holds no cursor on the server between round trips, so it can be read slowly. Items that are appended concurrently
    /// may be returned or not, and no item is returned twice.
    ///
    /// # Polling
    /// A program polls for items that are appended later by passing the [`last_token`](Page::last_token) of each
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
    /// It returns each item that is stored after the position, once. It can miss these items:
    ///
    /// - An item with an older time can open a bucket before the position. All items of that bucket are missed.
    /// - With [windows](crate::BucketRepositoryBuilder::window), items of an earlier window than the position are missed.
    /// - A [removal](Self::remove_item) before the position moves other items, and as many can be missed. A
    ///   [repair](Self::repair) or another [page size](Self::migrate_page_size_from) can move items in either direction.
    ///
    /// A program that must miss nothing gives its items an [id](crate::BucketRepositoryBuilder::item_id_field), and reads a
    /// [range of time](Items::from) again that is as long as items can be late.
    ///
    /// # Cost
    /// One round trip for about 1000 items, in which the server examines the buckets that it returns. The setters say what
    /// they add.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a limit of 0, two tokens, an empty range of time, or a stream [before](Items::before) a
    ///   position.
    /// - [`Configuration`]: a range of time, and the repository has no [time
    ///   field](crate::BucketRepositoryBuilder::time_field).
    pub fn items<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Items<'_, K, T>
    where
        K: Borrow<Q>,
    {
        let range = TimeRange {
            from: None,
            until: None,
            allowed_lateness: HOUR,
        };
        let key = key.encode_key().map_err(Error::from);
        Items::create(
            self.shared(),
            key,
            Tokens::default(),
            false,
            range,
            0,
            None,
            PhantomData,
        )
    }
}

mongo_patterns_core::action! {
    /// Reads items of a key; returned by [`BucketRepository::items`].
    pub struct Items<'a, K, T> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        tokens: Tokens<ItemToken>,
        newest_first: bool,
        range: TimeRange,
        skip: u64,
        limit: Option<u32>,
        types: PhantomData<fn() -> (K, T)>,
    }
    with session, max_time;
}

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> Items<'a, K, T> {
    mongo_patterns_core::setters! {
        /// Orders the items from the newest to the oldest: the last buckets from their ends, whatever the times.
        newest_first() => newest_first = true;

        /// Returns only items whose time is this one or later. An item without a date in its time field is in no range.
        ///
        /// # Cost
        /// The server examines the buckets of the range, and of up to three times
        /// [`allowed_lateness`](Self::allowed_lateness) before it. One or two round trips more find the start, in at most 8
        /// buckets, and in more after many removals. None with [windows](crate::BucketRepositoryBuilder::window).
        from(time: impl Into<DateTime>) => range.from = Some(time.into());

        /// Returns only items whose time is before this one.
        ///
        /// # Cost
        /// The server also examines the buckets of [`allowed_lateness`](Self::allowed_lateness) after this time, or the rest
        /// of its window.
        until(time: impl Into<DateTime>) => range.until = Some(time.into());

        /// Sets how much items of a key can be out of time order; one hour by default.
        ///
        /// An item can be stored after items that are newer than it. [`from`](Self::from) and [`until`](Self::until) find it
        /// if they are newer by up to this much. **They may miss an item that is more out of order.** For a key with many
        /// buckets an hour, a shorter time is cheaper.
        ///
        /// Items that were appended [at](crate::action::Append::at) another time than their own are out of order by the
        /// difference. So are buckets of other programs whose seconds do not have ten digits, until they are
        /// [repaired](BucketRepository::repair).
        ///
        /// With [windows](crate::BucketRepositoryBuilder::window) it has no effect: every item is found.
        allowed_lateness(allowed_lateness: Duration) => range.allowed_lateness = allowed_lateness;

        /// Skips this many items first, or before a position the closest items.
        ///
        /// # Cost
        /// For more items than a bucket has, one round trip more for up to 4000 buckets, which the server examines.
        /// [`after`](Self::after) is faster.
        skip(items: u64) => skip = items;

        /// Sets the most items of a page, at least 1; 100 by default. For a stream, about the number of items that one round
        /// trip reads; 1000 by default.
        limit(items: u32) => limit = Some(items);
    }

    /// Reads the items after a position, in the requested order. `None` changes nothing. Request the range of time and the
    /// order with which the token was made. A page with both positions is [`InvalidArgument`].
    ///
    /// The position stays valid while items are appended. Concurrent removals before it move items, and as many can be
    /// missed or returned again.
    ///
    /// # Cost
    /// None: the server starts at the bucket.
    pub fn after(mut self, token: impl Into<Option<ItemToken>>) -> Self {
        self.tokens.after(token.into());
        self
    }

    /// Reads the last items before a position, in the requested order. `None` changes nothing. Only a [`page`](Self::page)
    /// has it.
    pub fn before(mut self, token: impl Into<Option<ItemToken>>) -> Self {
        self.tokens.before(token.into());
        self
    }

    /// Returns the stream. It sends nothing before it is polled, and ends after an error.
    pub fn stream(self) -> ActionStream<'a, T> {
        let shared = self.shared;
        Box::pin(try_unfold(self.reader_of_all(), move |reader| async move {
            let mut reader = reader.map_err(|error| shared.operation("items").name(error))?;
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

    /// Reads a page of these items.
    ///
    /// # Cost
    /// One round trip if the buckets are full, and what the setters add. The server sends whole buckets, without the items
    /// outside of the range of time.
    pub fn page(self) -> ActionFuture<'a, Page<T, ItemToken>> {
        run(self.shared.operation("items"), self.read_page())
    }

    async fn read_page(mut self) -> Result<Page<T, ItemToken>> {
        let limit = self.limit.unwrap_or(ITEMS_OF_A_PAGE);
        let is_skipping = self.skip > 0;
        let start = mem::take(&mut self.tokens).start()?;
        // One item beyond the limit shows whether there are more.
        let mut reader = self.reader(&start, u64::from(limit) + 1, ITEMS_OF_A_READ)?;
        let limit = limit as usize;
        let given = start.position().cloned();
        // The positions before the first read item, and after the last one.
        let (mut near, mut far) = (given.clone(), given);
        let mut items = Vec::new();
        let has_more = loop {
            let Some(item) = reader.pop() else {
                if reader.fetch::<K>().await? {
                    continue;
                }
                if !items.is_empty() && items.len() < limit {
                    far = reader.token();
                }
                break false;
            };
            if items.len() == limit {
                break true;
            }
            if items.is_empty() {
                near = reader.token_before();
            }
            items.push(item);
            if items.len() == limit {
                far = reader.token();
            }
        };
        let is_backward = start.is_backward();
        if is_backward {
            items.reverse();
            mem::swap(&mut near, &mut far);
        }
        let has_previous = match start {
            PageStart::First => is_skipping,
            PageStart::After(_) => true,
            PageStart::Before(_) => has_more,
        };
        let mut page = Page::new(items);
        page.previous = near.clone().filter(|_| has_previous);
        page.next = far.clone().filter(|_| has_more || is_backward);
        (page.first_token, page.last_token) = (near, far);
        Ok(page)
    }

    fn reader_of_all(mut self) -> Result<ItemReader<'a, T>> {
        let at_once = self.limit.map_or(ITEMS_OF_A_READ, u64::from);
        let start = forward(mem::take(&mut self.tokens))?;
        self.reader(&start, u64::MAX, at_once)
    }

    /// Returns a reader of up to `limit` items, and of about `at_once` items in a round trip.
    fn reader(self, start: &PageStart<ItemToken>, limit: u64, at_once: u64) -> Result<ItemReader<'a, T>> {
        let key = self.key?;
        self.limit.map_or(Ok(()), check_limit)?;
        let has_range = !self.range.is_unbounded();
        if has_range {
            self.range.check(&self.shared.settings)?;
        }
        let wanted = Wanted {
            newest_first: self.newest_first != start.is_backward(),
            range: has_range.then_some(self.range),
            after: start.position().cloned(),
            skip: self.skip,
            limit,
            at_once,
        };
        Ok(ItemReader::new(self.shared, key, wanted, self.session, self.max_time))
    }
}
