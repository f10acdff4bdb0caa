//! Reads the items of a key one by one, in batches of pages, without a cursor on the server.

use std::collections::VecDeque;

use mongo_patterns_core::action::batch_size;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::options::FindOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{Part, Reader};
use crate::read::time_range::{self, Start, TimeRange};
use crate::repository::Shared;
use crate::{Bucket, ItemToken, query};

/// About how many items one round trip brings.
const ITEMS_AT_ONCE: u64 = 1000;
/// How many pages are counted in one round trip at most.
const COUNTED_AT_ONCE: u64 = 4000;
/// How many pages are looked at for the start of a range at first, and at most.
const LOOKED_AT_FIRST: u32 = 4;
const LOOKED_AT_ONCE: u32 = 1000;

/// Which items are wanted, and from where on.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) newest_first: bool,
    pub(crate) range: Option<TimeRange>,
    pub(crate) after: Option<ItemToken>,
    pub(crate) skip: u64,
    pub(crate) limit: u64,
}

/// An operator and an `_id`.
type Bound = (&'static str, String);

pub(crate) struct Walk<'a, T> {
    shared: &'a Shared,
    key: EncodedKey,
    wanted: Wanted,
    session: Option<&'a mut ClientSession>,
    /// Between these are the pages that are still to be read.
    lower: Bound,
    upper: Bound,
    /// Newest first, the range reaches to `lower` at least, and how far beyond is still to be found out.
    reaches_beyond: bool,
    started: bool,
    ended: bool,
    /// How many times as many pages are read at once as hold the wanted items when all of their items are wanted.
    generosity: u64,
    read: VecDeque<Opened<T>>,
    /// The page of the last item that came, where all of it has been read.
    finished: Option<Opened<T>>,
}

/// A page that is being read.
struct Opened<T> {
    tail: String,
    /// How many of its wanted items come before `items`.
    before: usize,
    items: VecDeque<T>,
    /// Whether items of it came.
    is_read: bool,
}

impl<'a, T: DeserializeOwned> Walk<'a, T> {
    pub(crate) fn new(
        shared: &'a Shared,
        key: EncodedKey,
        wanted: Wanted,
        session: Option<&'a mut ClientSession>,
    ) -> Self {
        Self {
            shared,
            lower: ("$gte", key.id("")),
            upper: ("$lt", key.end()),
            key,
            wanted,
            session,
            reaches_beyond: false,
            started: false,
            ended: false,
            generosity: 1,
            read: VecDeque::new(),
            finished: None,
        }
    }

    /// The next item, if it has been fetched.
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

    /// The place after the last item that came.
    pub(crate) fn token(&self) -> Option<ItemToken> {
        let page = self.finished.as_ref().or(self.read.front())?;
        let position = if self.wanted.newest_first {
            page.before + page.items.len()
        } else {
            page.before
        };
        Some(ItemToken::new(page.tail.clone(), position))
    }

    /// The place before the last item that came.
    pub(crate) fn token_before(&self) -> Option<ItemToken> {
        let page = self.read.front()?;
        let position = if self.wanted.newest_first {
            page.before + page.items.len() + 1
        } else {
            page.before.saturating_sub(1)
        };
        Some(ItemToken::new(page.tail.clone(), position))
    }

    /// Fetches more pages; false at the end. They may have no wanted items.
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
        let limit = self.pages_at_once();
        let items = self.wanted.range.as_ref().map(|range| range.items(settings));
        let projection = items.map(|items| {
            doc! { settings.key.as_str(): 1, settings.count.as_str(): 1, settings.items.as_str(): items }
        });
        let part = if projection.is_some() {
            Part::Filtered
        } else {
            Part::Whole
        };
        let found = self.find(limit, projection).await?;
        let reader = Reader {
            settings: &self.shared.settings,
            key: &self.key,
            part,
        };
        let pages: Result<Vec<Bucket<K, T>>> = found.iter().map(|document| reader.read(document)).collect();
        for page in pages? {
            let tail = page.token().tail().to_owned();
            let mut items = VecDeque::from(page.items);
            let (first, last) = self.entered(&tail, items.len());
            items.truncate(last);
            items.drain(..first);
            self.read.push_back(Opened {
                tail,
                before: first,
                items,
                is_read: false,
            });
        }
        self.generosity = self.generosity.saturating_mul(4);
        self.passed(&found, limit).await?;
        Ok(true)
    }

    /// From which on and up to which of so many items of a page are to be read: at the page of the token, those beyond it.
    fn entered(&self, tail: &str, items: usize) -> (usize, usize) {
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

    /// At least those that the wanted items take when all pages are full, and one for those that are not. Where a range
    /// starts, some pages around it have none of its items.
    fn pages_at_once(&self) -> u32 {
        let page_size = u64::from(self.shared.settings.page_size);
        let most = (ITEMS_AT_ONCE / page_size).max(1);
        let items = self.wanted.limit.saturating_add(self.wanted.skip);
        let starts_range = self.wanted.range.is_some() && self.wanted.after.is_none();
        let others = if starts_range { 4 } else { 1 };
        let needed = items.div_ceil(page_size).saturating_add(others);
        u32::try_from(needed.saturating_mul(self.generosity).min(most)).unwrap_or(1)
    }

    /// Finds out between which bounds to read.
    async fn start(&mut self) -> Result<()> {
        let newest_first = self.wanted.newest_first;
        if let Some(range) = &self.wanted.range {
            if let Some(second) = range.last_second() {
                self.upper = ("$lt", self.key.id(&second) + "`");
            }
            match range.first_second() {
                // What is before it is looked for when, and if, all of the rest has been read.
                Some(second) if newest_first => {
                    self.lower = ("$gte", self.key.id(&second));
                    self.reaches_beyond = true;
                }
                // A token is a place in the range.
                Some(second) if self.wanted.after.is_none() => self.lower = self.look_for_start(&second).await?,
                _ => {}
            }
        }
        if let Some(token) = &self.wanted.after {
            let place = self.key.id(token.tail());
            if newest_first && place < self.upper.1 {
                self.upper = ("$lte", place);
            } else if !newest_first && place > self.lower.1 {
                self.lower = ("$gte", place);
            }
        }
        Ok(())
    }

    /// Passes over whole pages that are skipped.
    async fn skip_pages(&mut self) -> Result<()> {
        let page_size = u64::from(self.shared.settings.page_size);
        while self.wanted.skip >= page_size && !self.ended {
            let limit = self
                .wanted
                .skip
                .div_ceil(page_size)
                .saturating_add(1)
                .min(COUNTED_AT_ONCE);
            let limit = u32::try_from(limit).unwrap_or(1);
            let settings = &self.shared.settings;
            let items = match &self.wanted.range {
                Some(range) => range.items(settings),
                None => format!("${}", settings.items).into(),
            };
            let found = self.find(limit, Some(time_range::sizes(settings, items))).await?;
            for (number, document) in found.iter().enumerate() {
                let size = self.size(document)?;
                let (first, last) = self.entered(self.tail(document), size);
                let items = (last - first) as u64;
                if items > self.wanted.skip {
                    self.pass(&found[..number]);
                    return Ok(());
                }
                self.wanted.skip -= items;
            }
            self.passed(&found, limit).await?;
        }
        Ok(())
    }

    /// The number of a page's wanted items, of which the server sends no more than that.
    fn size(&self, document: &RawDocument) -> Result<usize> {
        let settings = &self.shared.settings;
        let integer = |field: &str| {
            let value = document.get(field).ok().flatten().and_then(stored_integer);
            value.and_then(|value| usize::try_from(value).ok())
        };
        let corrupt = |field: &str, message| {
            let id = document.get("_id").ok().flatten();
            let id = id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
            Error::corrupt(id, field, message)
        };
        let Some(size) = integer(settings.items.as_str()) else {
            let message = "a bucket's items are not an array: repair it";
            return Err(corrupt(settings.items.as_str(), message));
        };
        let part = if self.wanted.range.is_some() {
            Part::Filtered
        } else {
            Part::Whole
        };
        if !integer(settings.count.as_str()).is_some_and(|count| part.allows(size, count)) {
            let message = "a bucket's count is not the number of its items: repair it";
            return Err(corrupt(settings.count.as_str(), message));
        }
        Ok(size)
    }

    /// The page from which on to read the range, whose own names start at this second.
    async fn look_for_start(&mut self, second: &str) -> Result<Bound> {
        let all = ("$gte", self.key.id(""));
        let settings = &self.shared.settings;
        let Some(mut start) = self.wanted.range.as_ref().and_then(Start::of) else {
            return Ok(all);
        };
        let mut below = self.key.id(second);
        let mut limit = LOOKED_AT_FIRST;
        loop {
            let filter = query::buckets_within(settings, &self.key, all.clone(), ("$lt", below.clone()));
            let options = FindOptions::builder()
                .sort(doc! { "_id": -1 })
                .limit(i64::from(limit))
                .batch_size(limit)
                .projection(time_range::first_times(settings))
                .build();
            let mut session = Session::of_caller(self.session.as_deref_mut()).await?;
            let found = find_all(session.as_mut(), &self.shared.collection, filter, options).await?;
            for document in &found {
                let id = document.get_str("_id").unwrap_or_default();
                let time = document.get(settings.items.as_str()).ok().flatten();
                if let Some(time) = time.and_then(RawBsonRef::as_datetime)
                    && start.is_reached(time)
                {
                    return Ok(("$gte", id.to_owned()));
                }
                id.clone_into(&mut below);
            }
            if found.len() < limit as usize {
                return Ok(all);
            }
            match start.hint().map(|second| self.key.id(&second)) {
                Some(hint) if hint < below => {
                    below = hint;
                    limit = LOOKED_AT_FIRST;
                }
                _ => limit = (limit * 4).min(LOOKED_AT_ONCE),
            }
        }
    }

    async fn find(&mut self, limit: u32, projection: Option<Document>) -> Result<Vec<RawDocumentBuf>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let filter = query::buckets_within(settings, &self.key, self.lower.clone(), self.upper.clone());
        let options = FindOptions::builder()
            .sort(doc! { "_id": if self.wanted.newest_first { -1 } else { 1 } })
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            .projection(projection)
            .build();
        let mut session = Session::of_caller(self.session.as_deref_mut()).await?;
        Ok(find_all(session.as_mut(), collection, filter, options).await?)
    }

    /// Goes on after pages that were asked for with a limit.
    async fn passed(&mut self, found: &[RawDocumentBuf], limit: u32) -> Result<()> {
        if found.len() == limit as usize {
            self.pass(found);
        } else if self.reaches_beyond {
            self.reaches_beyond = false;
            let beyond = ("$lt", self.lower.1.clone());
            let second = self.key.tail(&beyond.1).unwrap_or_default().to_owned();
            self.lower = self.look_for_start(&second).await?;
            // Where they are equal, the token's page is the last that was read.
            if beyond.1 <= self.upper.1 {
                self.upper = beyond;
            }
        } else {
            self.ended = true;
        }
        Ok(())
    }

    fn pass(&mut self, found: &[RawDocumentBuf]) {
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
