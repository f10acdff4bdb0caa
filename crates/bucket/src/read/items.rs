//! Reads the items of a key one by one, in batches of pages, without a cursor on the server.

use std::collections::VecDeque;
use std::time::Duration;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{EncodedKey, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::form::document::{Bucket, SelectedItems, read_size};
use crate::form::token::ItemToken;
use crate::query::buckets::{buckets_within, first_by_id};
use crate::query::range::{all_items, first_times, sizes, with_items};
use crate::read::time_range::{StartSearch, TimeRange};
use crate::repository::Shared;

/// About how many items one round trip returns, by default.
pub(crate) const ITEMS_OF_A_READ: u64 = 1000;
/// The most pages that one round trip returns because the pages before were not full.
const PARTLY_FILLED_PAGES: u64 = 100;
/// The most pages whose items one round trip counts.
const COUNTED_PAGES: u64 = 4000;
/// The number of pages that the first read of a search for the start of a range examines, and the most of a later one.
const FIRST_SEARCHED: u32 = 4;
const MOST_SEARCHED: u32 = 1000;

/// The items to read, and the position to start from.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) newest_first: bool,
    pub(crate) range: Option<TimeRange>,
    pub(crate) after: Option<ItemToken>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
    /// About how many items one round trip returns.
    pub(crate) at_once: u64,
}

/// An operator and an `_id`.
type Bound = (&'static str, String);

pub(crate) struct ItemReader<'a, T> {
    shared: &'a Shared,
    key: EncodedKey,
    wanted: Wanted,
    session: Option<&'a mut ClientSession>,
    max_time: Option<Duration>,
    /// The bounds of the pages that are still to be read.
    lower: Bound,
    upper: Bound,
    /// Newest first, the range reaches to `lower` at least, and a search must find its end.
    continues_below: bool,
    started: bool,
    ended: bool,
    /// The factor by which a read exceeds the number of pages that would suffice if all of their items were in the range.
    growth: u64,
    /// The number of the pages that were read or skipped, and of their items.
    seen: (u64, u64),
    read: VecDeque<PartlyRead<T>>,
    /// The page of the last returned item, if it was read to its end.
    finished: Option<PartlyRead<T>>,
}

/// A page that is being read.
struct PartlyRead<T> {
    tail: String,
    /// How many of its items of the range come before `items`.
    before: usize,
    items: VecDeque<T>,
    /// Whether an item of it was returned.
    is_read: bool,
}

impl<'a, T: DeserializeOwned> ItemReader<'a, T> {
    pub(crate) fn new(
        shared: &'a Shared,
        key: EncodedKey,
        wanted: Wanted,
        session: Option<&'a mut ClientSession>,
        max_time: Option<Duration>,
    ) -> Self {
        Self {
            shared,
            max_time: max_time.or(shared.settings.max_time),
            lower: ("$gte", key.id("")),
            upper: ("$lt", key.end()),
            key,
            wanted,
            session,
            continues_below: false,
            started: false,
            ended: false,
            growth: 1,
            seen: (0, 0),
            read: VecDeque::new(),
            finished: None,
        }
    }

    /// Returns the next item, if it has been fetched.
    pub(crate) fn pop(&mut self) -> Option<T> {
        while let Some(page) = self.read.front_mut() {
            if self.wanted.limit == 0 {
                return None;
            }
            let item = if self.wanted.newest_first {
                page.items.pop_back()
            } else {
                page.items.pop_front()
            };
            if item.is_some() {
                self.finished = None;
                page.is_read = true;
                page.before += usize::from(!self.wanted.newest_first);
                if self.wanted.skip > 0 {
                    self.wanted.skip -= 1;
                    continue;
                }
                self.wanted.limit -= 1;
                return item;
            }
            let page = self.read.pop_front();
            self.finished = self.finished.take().or(page.filter(|page| page.is_read));
        }
        None
    }

    /// Returns the position after the last returned item.
    pub(crate) fn token(&self) -> Option<ItemToken> {
        let page = self.finished.as_ref().or(self.read.front())?;
        let unread = if self.wanted.newest_first { page.items.len() } else { 0 };
        Some(ItemToken::new(page.tail.clone(), page.before + unread))
    }

    /// Returns the position before the last returned item.
    pub(crate) fn token_before(&self) -> Option<ItemToken> {
        let page = self.read.front()?;
        let position = if self.wanted.newest_first {
            page.before + page.items.len() + 1
        } else {
            page.before.saturating_sub(1)
        };
        Some(ItemToken::new(page.tail.clone(), position))
    }

    /// Fetches more pages, possibly without items of the range. Returns `false` at the end.
    pub(crate) async fn fetch<K: Key>(&mut self) -> Result<bool> {
        let fetched = self.fetch_pages::<K>().await;
        fetched.map_err(|error| error.with_key(self.key.text()))
    }

    async fn fetch_pages<K: Key>(&mut self) -> Result<bool> {
        if !self.started {
            self.start().await?;
            self.started = true;
            self.skip_pages().await?;
        }
        if self.ended || self.wanted.limit == 0 {
            return Ok(false);
        }
        let settings = &self.shared.settings;
        let limit = self.pages_of_a_read();
        let range = self.wanted.range.as_ref();
        let projection = range.map(|range| with_items(settings, range.items(settings)));
        let found = self.find(limit, projection).await?;
        let reader = self.shared.reader(&self.key, self.selected_items());
        let pages: Result<Vec<Bucket<K, T>>> = found.iter().map(|document| reader.read(document)).collect();
        for page in pages? {
            let tail = page.token().tail().to_owned();
            let mut items = VecDeque::from(page.items);
            self.saw_page(items.len());
            let (first, last) = self.to_read(&tail, items.len());
            items.truncate(last);
            items.drain(..first);
            self.read.push_back(PartlyRead {
                tail,
                before: first,
                items,
                is_read: false,
            });
        }
        self.growth = self.growth.saturating_mul(4);
        self.advance(&found, limit).await?;
        Ok(true)
    }

    /// Returns the part of a page's items that the server sends.
    fn selected_items(&self) -> SelectedItems {
        match self.wanted.range {
            Some(_) => SelectedItems::Filtered,
            None => SelectedItems::All,
        }
    }

    /// Returns the first and the last of a page's items to read: in the page of the token, the items beyond the token.
    fn to_read(&self, tail: &str, items: usize) -> (usize, usize) {
        match &self.wanted.after {
            Some(token) if token.tail() == tail => {
                let position = token.position().min(items);
                if self.wanted.newest_first {
                    (0, position)
                } else {
                    (position, items)
                }
            }
            _ => (0, items),
        }
    }

    fn saw_page(&mut self, items: usize) {
        self.seen.0 += 1;
        self.seen.1 += items as u64;
    }

    /// Returns about how many items a page has: a full one, or with windows as many as the pages before.
    fn items_of_a_page(&self) -> u64 {
        let page_size = u64::from(self.shared.settings.page_size);
        let (pages, items) = self.seen;
        match items.checked_div(pages) {
            Some(average) if self.shared.settings.windows.is_some() => average.clamp(1, page_size),
            _ => page_size,
        }
    }

    /// Returns how many pages to read: enough for the items if all pages are full, and one more.
    fn pages_of_a_read(&self) -> u32 {
        let page_size = self.items_of_a_page();
        let at_once = self.wanted.at_once;
        let most_full = (at_once / u64::from(self.shared.settings.page_size)).max(1);
        let most = (at_once / page_size).min(PARTLY_FILLED_PAGES).max(most_full);
        let items = self.wanted.limit.saturating_add(self.wanted.skip);
        let starts_range = self.wanted.range.is_some() && self.wanted.after.is_none();
        let others = if starts_range { 4 } else { 1 };
        let needed = items.div_ceil(page_size).saturating_add(others);
        u32::try_from(needed.saturating_mul(self.growth).min(most)).unwrap_or(1)
    }

    /// Finds the bounds to read between.
    async fn start(&mut self) -> Result<()> {
        let newest_first = self.wanted.newest_first;
        if let Some(range) = &self.wanted.range
            && let Some(windows) = &self.shared.settings.windows
        {
            let (first, end) = windows.ids_of_range(&self.key, range.from, range.until);
            (self.lower, self.upper) = (("$gte", first), ("$lt", end));
        } else if let Some(range) = &self.wanted.range {
            if let Some(second) = range.last_second() {
                self.upper = ("$lt", self.key.id(&second) + "`");
            }
            match range.first_second() {
                // The start is searched when, and if, all of the rest has been read.
                Some(second) if newest_first => {
                    self.lower = ("$gte", self.key.id(&second));
                    self.continues_below = true;
                }
                // A token is a position in the range.
                Some(second) if self.wanted.after.is_none() => self.lower = self.search_start(&second).await?,
                _ => {}
            }
        }
        if let Some(token) = &self.wanted.after {
            let position = self.key.id(token.tail());
            if newest_first && position < self.upper.1 {
                self.upper = ("$lte", position);
            } else if !newest_first && position > self.lower.1 {
                self.lower = ("$gte", position);
            }
        }
        Ok(())
    }

    /// Skips whole pages. The server sends only their numbers of items.
    async fn skip_pages(&mut self) -> Result<()> {
        let page_size = u64::from(self.shared.settings.page_size);
        while self.wanted.skip >= page_size && !self.ended {
            let pages = self.wanted.skip.div_ceil(self.items_of_a_page()).saturating_add(1);
            let limit = u32::try_from(pages.min(COUNTED_PAGES)).unwrap_or(1);
            let settings = &self.shared.settings;
            let items = match &self.wanted.range {
                Some(range) => range.items(settings),
                None => all_items(settings),
            };
            let found = self.find(limit, Some(sizes(settings, items))).await?;
            for (number, document) in found.iter().enumerate() {
                let size = read_size(&self.shared.settings, document, self.selected_items())?;
                self.saw_page(size);
                let (first, last) = self.to_read(self.tail(document), size);
                let items = (last - first) as u64;
                if items > self.wanted.skip {
                    self.advance_past(&found[..number]);
                    return Ok(());
                }
                self.wanted.skip -= items;
            }
            self.advance(&found, limit).await?;
        }
        Ok(())
    }

    /// Searches the page from which on to read the range. Pages named by this second or a later one can have items of it.
    async fn search_start(&mut self, second: &str) -> Result<Bound> {
        let all = ("$gte", self.key.id(""));
        let settings = &self.shared.settings;
        let Some(mut search) = self.wanted.range.as_ref().and_then(StartSearch::new) else {
            return Ok(all);
        };
        let mut below = self.key.id(second);
        let mut limit = FIRST_SEARCHED;
        loop {
            let filter = buckets_within(settings, &self.key, all.clone(), ("$lt", below.clone()));
            let options = first_by_id(true, limit, Some(first_times(settings)));
            let mut conn = Conn::to_read(self.session.as_deref_mut(), self.max_time).await?;
            let found = conn.find_all(&self.shared.collection, filter, options).await?;
            for document in &found {
                let id = document.get_str("_id").unwrap_or_default();
                let time = document.get(settings.items.as_str()).ok().flatten();
                if let Some(time) = time.and_then(RawBsonRef::as_datetime)
                    && search.is_reached(time)
                {
                    return Ok(("$gte", id.to_owned()));
                }
                id.clone_into(&mut below);
            }
            if found.len() < limit as usize {
                return Ok(all);
            }
            match search.hint().map(|second| self.key.id(&second)) {
                Some(hint) if hint < below => {
                    below = hint;
                    limit = FIRST_SEARCHED;
                }
                _ => limit = (limit * 4).min(MOST_SEARCHED),
            }
        }
    }

    async fn find(&mut self, limit: u32, projection: Option<Document>) -> Result<Vec<RawDocumentBuf>> {
        let (collection, settings) = self.shared.parts();
        let filter = buckets_within(settings, &self.key, self.lower.clone(), self.upper.clone());
        let options = first_by_id(self.wanted.newest_first, limit, projection);
        let mut conn = Conn::to_read(self.session.as_deref_mut(), self.max_time).await?;
        Ok(conn.find_all(collection, filter, options).await?)
    }

    /// Moves the bounds past pages that were found with a limit.
    async fn advance(&mut self, found: &[RawDocumentBuf], limit: u32) -> Result<()> {
        if found.len() == limit as usize {
            self.advance_past(found);
        } else if self.continues_below {
            self.continues_below = false;
            let below = ("$lt", self.lower.1.clone());
            let second = self.key.tail(&below.1).unwrap_or_default().to_owned();
            self.lower = self.search_start(&second).await?;
            // If they are equal, the page of the token is the last that was read.
            if below.1 <= self.upper.1 {
                self.upper = below;
            }
        } else {
            self.ended = true;
        }
        Ok(())
    }

    fn advance_past(&mut self, found: &[RawDocumentBuf]) {
        let Some(last) = found.last() else { return };
        let id = self.key.id(self.tail(last));
        if self.wanted.newest_first {
            self.upper = ("$lt", id);
        } else {
            self.lower = ("$gt", id);
        }
    }

    fn tail<'doc>(&self, document: &'doc RawDocument) -> &'doc str {
        let id = document.get_str("_id").unwrap_or_default();
        self.key.tail(id).unwrap_or_default()
    }
}
