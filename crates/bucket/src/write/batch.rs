//! Stores a batch of items of one key: in its open bucket, then in whole buckets.

use std::collections::{HashMap, HashSet};

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, refused_document};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::RawDocumentBuf;
use mongodb::options::{FindOptions, Hint};
use tracing::Span;

use crate::form::item::{Item, bucket};
use crate::form::item_id::ItemId;
use crate::form::new_ids::NewIds;
use crate::query::buckets::{buckets_between, by_id, ids_between, only_id};
use crate::write::key_write::{Collision, KeyWrite};
use crate::write::store::{Store, Stored};

/// The most buckets of one command, and the most bytes, because a broken connection leaves the outcome of one command
/// unknown.
pub(crate) const BUCKETS: usize = 1000;
pub(crate) const BYTES: usize = 16 * 1024 * 1024;

/// The number of pages from which a batch first reads whether a bucket is open.
pub(crate) const READ_FROM: usize = 100;

/// A batch of items of one key, and how much of it is stored.
pub(crate) struct StoreBatch<'a> {
    write: KeyWrite<'a>,
    span: &'a Span,
    items: &'a [Item],
    /// The positions in the batch of the items to store.
    rest: Vec<usize>,
    /// How many of `rest` are stored.
    done: usize,
    /// Whether the last items are left if they do not fill a page.
    pub(crate) whole_pages: bool,
    /// Whether the next item can have an open bucket. If it has one all the same, that bucket is not filled first.
    pub(crate) may_have_open: bool,
    /// The positions of items that were stored before, or are in the batch twice.
    pub(crate) repeated: HashSet<usize>,
    /// The number of opened buckets.
    pub(crate) opened: u64,
    /// The `_id`s of the opened buckets, by the positions of their first items, if the callers of the items learn them.
    pub(crate) opened_by: Option<HashMap<usize, String>>,
}

impl<'a> StoreBatch<'a> {
    pub(crate) fn new(write: KeyWrite<'a>, span: &'a Span, items: &'a [Item]) -> Self {
        let mut seen = HashSet::new();
        let (rest, twice): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(|&position| {
            let id: Option<&ItemId> = items[position].id.as_ref();
            id.is_none_or(|id| seen.insert(id))
        });
        Self {
            write,
            span,
            items,
            rest,
            done: 0,
            whole_pages: false,
            may_have_open: true,
            repeated: twice.into_iter().collect(),
            opened: 0,
            opened_by: None,
        }
    }

    /// Returns the length of the prefix of the batch that is stored, also after a command failed.
    pub(crate) fn stored(&self) -> usize {
        self.rest.get(self.done).copied().unwrap_or(self.items.len())
    }

    pub(crate) async fn store(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        let shared = self.write.shared;
        self.write.check_item_index().await?;
        let mut attempts = shared.settings.retry.start();
        if conn.has_session() {
            self.drop_repeated(conn).await?;
        }
        // Whether pages of several windows are worth an insert. Not while each window has an open bucket.
        let mut inserts = true;
        while self.has_more() {
            let (before, opened, window) = (self.done, self.opened, self.window());
            let is_large = self.rest.len() - self.done >= READ_FROM * shared.settings.page_size as usize;
            let fills = !is_large || self.may_have_open && self.write.open_bucket(self.window(), conn).await?.is_some();
            if fills && !self.fill(conn).await? {
                continue;
            }
            inserts |= self.opened > opened;
            let is_next = self.window() != window;
            if fills && (!inserts || is_next && conn.has_session()) {
                continue;
            }
            let filled = self.done;
            // It ends early when another writer opens a bucket, or stores one of the items.
            if let Some(error) = self.insert(conn).await? {
                self.may_have_open = true;
                if shared.settings.windows.is_some() && self.done > before {
                    // A later window had an open bucket, which is no conflict: it is filled next.
                    inserts = self.done > filled;
                    attempts = shared.settings.retry.start();
                } else {
                    attempts.next(error).await?;
                }
            }
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.pages().next().is_some()
    }

    /// Returns the items that are not stored yet, in pages of one window each, by their positions in the batch.
    fn pages(&self) -> impl Iterator<Item = &[usize]> {
        let page_size = self.write.shared.settings.page_size as usize;
        let mut rest = &self.rest[self.done..];
        std::iter::from_fn(move || {
            let first = &self.items[*rest.first()?];
            let of_page = rest.iter().take(page_size);
            let of_page = of_page.take_while(|position| self.items[**position].window == first.window);
            let (page, later) = rest.split_at(of_page.count());
            rest = later;
            let waits_for_more = later.is_empty() && page.len() < page_size && self.whole_pages;
            (!waits_for_more).then_some(page)
        })
    }

    /// Returns the pages that are inserted together.
    fn pages_to_insert(&self, of_one_window: bool) -> impl Iterator<Item = &[usize]> {
        let window = self.window();
        self.pages()
            .take_while(move |page| !of_one_window || self.items[page[0]].window == window)
    }

    /// Returns the window of the next item, if there are windows.
    fn window(&self) -> Option<i64> {
        self.rest
            .get(self.done)
            .and_then(|&position| self.items[position].window)
    }

    /// Returns the items that are not stored yet.
    fn rest(&self) -> impl Iterator<Item = &'a Item> + Clone {
        let items = self.items;
        self.rest[self.done..].iter().map(move |&position| &items[position])
    }

    /// Stores up to a page of items in the open bucket, or in one that they open. Returns `false` when some are stored
    /// already, which are skipped from then on.
    async fn fill(&mut self, conn: &mut Conn<'_>) -> Result<bool> {
        let items = self.items;
        let Some(page) = self.pages().next() else {
            return Ok(true);
        };
        let page: Vec<&Item> = page.iter().map(|&position| &items[position]).collect();
        let store = Store {
            write: self.write,
            span: self.span,
            items: &page,
        };
        match store.store(conn).await? {
            Stored::New { items, opened } => {
                self.count_opened(opened);
                self.done += items;
                self.may_have_open = true;
                Ok(true)
            }
            Stored::Repeated if self.drop_repeated(conn).await? == 0 => Err(Error::new(
                ErrorKind::Contention,
                "another writer appended and removed an item of the batch concurrently: try again",
            )),
            Stored::Repeated => Ok(false),
        }
    }

    /// Reads which of the items are stored already, and skips them from then on. Returns their number.
    async fn drop_repeated(&mut self, conn: &mut Conn<'_>) -> Result<usize> {
        let ids: Vec<&ItemId> = self.rest().filter_map(|item| item.id.as_ref()).collect();
        let stored = self.write.stored_ids(&ids, conn).await?;
        let (items, repeated) = (self.items, &mut self.repeated);
        let rest = self.rest.split_off(self.done);
        let before = repeated.len();
        self.rest.extend(rest.into_iter().filter(|&position| {
            let is_stored = items[position].id.as_ref().is_some_and(|id| stored.contains(id));
            if is_stored {
                repeated.insert(position);
            }
            !is_stored
        }));
        Ok(repeated.len() - before)
    }

    /// Inserts the rest in whole buckets, and the last items of each window in one that stays open. Returns the error when
    /// another writer opened a bucket, or stored one of the items.
    async fn insert(&mut self, conn: &mut Conn<'_>) -> Result<Option<CommandError>> {
        let shared = self.write.shared;
        let settings = &shared.settings;
        let mut attempts = settings.retry.start();
        let mut ids = NewIds::default();
        let mut has_read = false;
        // A session must not meet the open bucket of another window, so an insert in it is of one.
        let reads_first = conn.has_session();
        let window = self.window();
        while self.has_more() && (!reads_first || self.window() == window) {
            if !has_read && reads_first {
                self.read_taken(&mut ids, false, conn).await?;
                has_read = true;
            }
            let documents = self.buckets(&mut ids, reads_first)?;
            let opened = documents
                .iter()
                .map(|document| document.get_str("_id").unwrap_or_default());
            let opened: Vec<String> = opened.map(str::to_owned).collect();
            let inserted = conn.insert_many(&shared.collection, documents, None).await;
            let Err(error) = inserted else {
                self.done_pages(opened);
                continue;
            };
            let stored = refused_document(&error).unwrap_or(0);
            self.done_pages(opened.into_iter().take(stored).collect());
            match self.write.collision(&error) {
                _ if conn.has_session() => return Err(self.write.failed(error)),
                Some(Collision::Open) => return Ok(Some(error)),
                Some(Collision::Item) => {
                    self.drop_repeated(conn).await?;
                    return Ok(Some(error));
                }
                Some(Collision::Id) => {
                    self.read_taken(&mut ids, has_read, conn).await?;
                    has_read = true;
                    attempts.next(error).await?;
                }
                None => return Err(self.write.failed(error)),
            }
        }
        Ok(None)
    }

    /// Returns the buckets of the next command.
    fn buckets(&self, ids: &mut NewIds, of_one_window: bool) -> Result<Vec<RawDocumentBuf>> {
        let KeyWrite { shared, key } = self.write;
        let settings = &shared.settings;
        let mut documents: Vec<RawDocumentBuf> = Vec::new();
        let mut bytes = 0;
        for positions in self.pages_to_insert(of_one_window).take(BUCKETS) {
            let page: Vec<&Item> = positions.iter().map(|&position| &self.items[position]).collect();
            bytes += page.iter().map(|item| item.bytes()).sum::<usize>();
            if bytes > BYTES && !documents.is_empty() {
                break;
            }
            let second = &page[0].second();
            ids.free_from(second, shared.suffixes.next(&key.id(second)));
            let tail = ids.next(second)?;
            documents.push(bucket(settings, key, &tail, &page)?);
        }
        Ok(documents)
    }

    /// Reads which of the ids that the items would open are taken: by buckets of the key, or by any document.
    async fn read_taken(&self, ids: &mut NewIds, of_any_key: bool, conn: &mut Conn<'_>) -> Result<()> {
        let KeyWrite { shared, key } = self.write;
        *ids = NewIds::default();
        let pages = self.pages_to_insert(conn.has_session());
        let heads: Vec<String> = pages.map(|page| self.items[page[0]].second()).collect();
        let (Some(first), Some(last)) = (heads.iter().min(), heads.iter().max()) else {
            return Ok(());
        };
        let filter = match of_any_key {
            true => ids_between(key, first, last),
            false => buckets_between(&shared.settings, key, first, last),
        };
        // Not by the index of the item ids, which would examine all buckets of the key.
        let options = FindOptions::builder()
            .projection(only_id())
            .hint(Hint::Keys(by_id(false)))
            .build();
        for found in conn.find_all(&shared.collection, filter, options).await? {
            if let Some(tail) = found.get_str("_id").ok().and_then(|id| key.tail(id)) {
                ids.taken(tail);
            }
        }
        Ok(())
    }

    /// Counts the bucket that the next item opened, if it opened one.
    fn count_opened(&mut self, id: Option<String>) {
        self.opened += u64::from(id.is_some());
        if let Some(opened_by) = &mut self.opened_by {
            opened_by.extend(self.rest.get(self.done).copied().zip(id));
        }
    }

    /// Counts the next pages as stored, in buckets with these `_id`s.
    fn done_pages(&mut self, opened: Vec<String>) {
        let page_size = self.write.shared.settings.page_size as usize;
        let pages = self.pages().take(opened.len());
        let lengths: Vec<usize> = pages.map(<[usize]>::len).collect();
        let ends_with_full_page = lengths.last().is_none_or(|length| *length == page_size);
        for (id, length) in opened.into_iter().zip(lengths) {
            self.count_opened(Some(id));
            self.done += length;
        }
        let last = self
            .done
            .checked_sub(1)
            .and_then(|last| self.items[self.rest[last]].window);
        self.may_have_open = !ends_with_full_page || last.is_some() && last != self.window();
    }
}
