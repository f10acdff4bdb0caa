//! Stores a batch: in the open bucket of a key, then in whole buckets.

use std::collections::HashSet;

use mongo_patterns_core::error::refused_document;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Error, ErrorKind, Result, send};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::{FindOptions, ReadConcern, ReadPreference, SelectionCriteria};
use tracing::Span;

use crate::form::item::{self, Item, Tails};
use crate::form::item_id::ItemId;
use crate::write::key_write::{Collision, Write};
use crate::write::store::{Store, Stored};
use crate::{IdPolicy, query};

/// What goes out in one command, at most. A broken connection leaves the outcome of one command unknown, so it is
/// bounded; the gain of more is small.
pub(crate) const BUCKETS: usize = 1000;
pub(crate) const BYTES: usize = 16 * 1024 * 1024;

/// From so many pages on, a look whether there is an open bucket costs less than a write that turns out to open one:
/// that waits for the journal.
pub(crate) const LOOK_FROM: usize = 100;

/// A batch under way.
pub(crate) struct StoreMany<'a> {
    write: Write<'a>,
    span: &'a Span,
    items: &'a [Item],
    /// Those that are not stored yet, by their places in the batch.
    rest: Vec<usize>,
    /// How many of `rest` are done.
    done: usize,
    /// Whether the last items are left, where they do not fill a page.
    pub(crate) whole_pages: bool,
    /// Whether the key may have an open bucket, as far as this batch and those before it know. Where it has one after
    /// all, that is not filled first, as when it is opened after a look.
    pub(crate) may_have_open: bool,
    /// The places of items that were stored before, or stand in the batch twice.
    pub(crate) repeated: HashSet<usize>,
    /// How many buckets were opened.
    pub(crate) opened: u64,
}

impl<'a> StoreMany<'a> {
    pub(crate) fn new(write: Write<'a>, span: &'a Span, items: &'a [Item]) -> Self {
        let mut seen = HashSet::new();
        let (rest, twice): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(|&place| {
            let id: Option<&ItemId> = items[place].id.as_ref();
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
        }
    }

    /// How many items are stored: a prefix of the batch, also when a command fails.
    pub(crate) fn stored(&self) -> usize {
        self.rest.get(self.done).copied().unwrap_or(self.items.len())
    }

    pub(crate) async fn run(&mut self, mut session: Option<&mut Session<'_>>) -> Result<()> {
        self.write.check_item_index().await?;
        let _locked = match session {
            None => Some(self.write.shared.locks.shared(self.write.key.text()).await),
            Some(_) => None,
        };
        let mut attempts = self.write.shared.settings.retry.start();
        if session.is_some() {
            self.drop_repeated(session.as_deref_mut()).await?;
        }
        while self.has_more() {
            let is_large = self.rest.len() - self.done >= LOOK_FROM * self.write.shared.settings.page_size as usize;
            let fills =
                !is_large || self.may_have_open && self.write.open_bucket(session.as_deref_mut()).await?.is_some();
            if fills && !self.fill(session.as_deref_mut()).await? {
                continue;
            }
            // Another writer that opens a bucket, or stores one of the items, ends this early.
            if let Some(error) = self.insert(session.as_deref_mut()).await? {
                self.may_have_open = true;
                attempts.next(error).await?;
            }
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.takes(self.rest.len() - self.done)
    }

    /// Whether so many items go out.
    fn takes(&self, items: usize) -> bool {
        let least = if self.whole_pages {
            self.write.shared.settings.page_size as usize
        } else {
            1
        };
        items >= least
    }

    /// The items that are not stored yet.
    fn rest(&self) -> impl Iterator<Item = &'a Item> + Clone {
        let items = self.items;
        self.rest[self.done..].iter().map(move |&place| &items[place])
    }

    /// Up to a page of items to the open bucket, or to one that they open. Returns whether it stored any: not when some
    /// of them turn out to be stored already, which are left out from then on.
    async fn fill(&mut self, session: Option<&mut Session<'_>>) -> Result<bool> {
        let settings = &self.write.shared.settings;
        let page: Vec<&Item> = self.rest().take(settings.page_size as usize).collect();
        let store = Store {
            write: self.write,
            span: self.span,
            items: &page,
        };
        match store.run(session).await? {
            Stored::New { items, opened } => {
                self.done += items;
                self.opened += u64::from(opened.is_some());
                self.may_have_open = true;
                Ok(true)
            }
            Stored::Repeated if self.drop_repeated(None).await? == 0 => Err(Error::new(
                ErrorKind::Contention,
                "an item of the batch was there and is gone again: try again",
            )),
            Stored::Repeated => Ok(false),
        }
    }

    /// Finds out which of the items are stored already, and leaves them out. Returns how many.
    async fn drop_repeated(&mut self, session: Option<&mut Session<'_>>) -> Result<usize> {
        let ids: Vec<&ItemId> = self.rest().filter_map(|item| item.id.as_ref()).collect();
        let stored = self.write.stored_ids(&ids, session).await?;
        let (items, repeated) = (self.items, &mut self.repeated);
        let rest = self.rest.split_off(self.done);
        let before = repeated.len();
        self.rest.extend(rest.into_iter().filter(|&place| {
            let is_stored = items[place].id.as_ref().is_some_and(|id| stored.contains(id));
            if is_stored {
                repeated.insert(place);
            }
            !is_stored
        }));
        Ok(repeated.len() - before)
    }

    /// The rest in whole buckets, and the last items in one that stays open. Returns the error when another writer has
    /// opened one meanwhile, so that the last items are left, or has stored one of the items.
    async fn insert(&mut self, mut session: Option<&mut Session<'_>>) -> Result<Option<mongodb::error::Error>> {
        let Write { shared, key } = self.write;
        let settings = &shared.settings;
        let page_size = settings.page_size as usize;
        let mut attempts = settings.retry.start();
        let mut tails = Tails::default();
        let mut looked = false;
        while self.has_more() {
            if !looked && (session.is_some() || settings.id_policy == IdPolicy::Monotonic) {
                self.look(&mut tails, session.as_deref_mut()).await?;
                looked = true;
            }
            let mut documents: Vec<RawDocumentBuf> = Vec::new();
            let mut bytes = 0;
            let pages = self.rest[self.done..].chunks(page_size);
            for places in pages.take_while(|page| self.takes(page.len())).take(BUCKETS) {
                let page: Vec<&Item> = places.iter().map(|&place| &self.items[place]).collect();
                bytes += page.iter().map(|item| item.bytes()).sum::<usize>();
                if bytes > BYTES && !documents.is_empty() {
                    break;
                }
                let second = &page[0].second();
                tails.free_from(second, shared.suffixes.next(&key.id(second)));
                let tail = tails.next(settings.id_policy, second)?;
                documents.push(item::bucket(settings, key, &tail, &page)?);
            }
            let inserted = send::insert_many(session.as_deref_mut(), &shared.collection, &documents, None).await;
            let Err(error) = inserted else {
                self.done_pages(documents.len());
                continue;
            };
            self.done_pages(refused_document(&error).unwrap_or(0));
            match self.write.collision(&error) {
                _ if session.is_some() => return Err(self.write.failed(error)),
                Some(Collision::Open) => return Ok(Some(error)),
                Some(Collision::Item) => {
                    self.drop_repeated(None).await?;
                    return Ok(Some(error));
                }
                Some(Collision::Id) => {
                    self.look(&mut tails, None).await?;
                    looked = true;
                    attempts.next(error).await?;
                }
                None => return Err(self.write.failed(error)),
            }
        }
        Ok(None)
    }

    /// Learns which of the tails that the items would open are taken.
    async fn look(&self, tails: &mut Tails, mut session: Option<&mut Session<'_>>) -> Result<()> {
        let Write { shared, key } = self.write;
        *tails = Tails::default();
        if shared.settings.id_policy == IdPolicy::Monotonic {
            if let Some(newest) = self.write.newest_tail(None, session.as_deref_mut()).await? {
                self.write.parse(&newest)?;
                tails.taken(&newest);
            }
            return Ok(());
        }
        let heads = self
            .rest()
            .step_by(shared.settings.page_size as usize)
            .map(Item::second);
        let (Some(first), Some(last)) = (heads.clone().min(), heads.max()) else {
            return Ok(());
        };
        let filter = query::buckets_between(key, &first, &last);
        let options = FindOptions::builder()
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(session.is_none().then(ReadConcern::local))
            .build();
        for found in find_all(session, &shared.collection, filter, options).await? {
            if let Some(tail) = found.get_str("_id").ok().and_then(|id| key.tail(id)) {
                tails.taken(tail);
            }
        }
        Ok(())
    }

    fn done_pages(&mut self, pages: usize) {
        let done = self.done + pages * self.write.shared.settings.page_size as usize;
        self.may_have_open = done > self.rest.len();
        self.done = self.rest.len().min(done);
        self.opened += pages as u64;
    }
}
