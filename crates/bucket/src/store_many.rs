//! Stores a batch: in the open bucket of a key, then in whole buckets.

use mongo_patterns_core::Result;
use mongo_patterns_core::error::refused_document;
use mongo_patterns_core::find::find_all;
use mongodb::ClientSession;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use tracing::Span;

use crate::batch::{self, Item, Tails};
use crate::store::{Content, Store};
use crate::write::{Collision, Write};
use crate::{IdPolicy, query};

/// What goes out in one command, at most. A broken connection leaves the outcome of one command unknown, so it is
/// bounded; the gain of more is small.
const BUCKETS: usize = 1000;
const BYTES: usize = 16 * 1024 * 1024;

/// A batch under way.
pub(crate) struct StoreMany<'a> {
    write: Write<'a>,
    span: &'a Span,
    /// Those that are not stored yet.
    items: &'a [Item],
    /// How many are: a prefix, also when a command fails.
    pub(crate) stored: usize,
    /// How many buckets were opened for them.
    pub(crate) opened: u64,
}

impl<'a> StoreMany<'a> {
    pub(crate) fn new(write: Write<'a>, span: &'a Span, items: &'a [Item]) -> Self {
        Self {
            write,
            span,
            items,
            stored: 0,
            opened: 0,
        }
    }

    pub(crate) async fn run(&mut self, mut session: Option<&mut ClientSession>) -> Result<()> {
        let mut attempts = self.write.shared.settings.retry.start();
        while !self.items.is_empty() {
            self.fill(session.as_deref_mut()).await?;
            // Another writer that opens a bucket ends this early. Its bucket is filled next.
            if let Some(error) = self.insert(session.as_deref_mut()).await? {
                attempts.next(error).await?;
            }
        }
        Ok(())
    }

    /// Up to a page of items to the open bucket, or to one that they open.
    async fn fill(&mut self, session: Option<&mut ClientSession>) -> Result<()> {
        let page = self.items.len().min(self.write.shared.settings.page_size as usize);
        let content = match self.items {
            [item] => Content::Item(query::push(&self.write.shared.settings, item.to_bson()?)),
            _ => {
                let items: mongodb::error::Result<_> = self.items[..page].iter().map(Item::to_bson).collect();
                Content::Items(items?)
            }
        };
        let store = Store {
            write: self.write,
            span: self.span,
            second: &self.items[0].second,
            content,
        };
        let stored = store.run(session).await?;
        self.done(stored.items, u64::from(stored.opened.is_some()));
        Ok(())
    }

    /// The rest in whole buckets, and the last items in one that stays open. Returns the error when another writer has
    /// opened one meanwhile, so that the last items are left.
    async fn insert(&mut self, mut session: Option<&mut ClientSession>) -> Result<Option<mongodb::error::Error>> {
        let Write { shared, key } = self.write;
        let settings = &shared.settings;
        let page_size = settings.page_size as usize;
        let mut attempts = settings.retry.start();
        let mut tails = Tails::default();
        let mut looked = false;
        while !self.items.is_empty() {
            if !looked && (session.is_some() || settings.id_policy == IdPolicy::Monotonic) {
                self.look(&mut tails, session.as_deref_mut()).await?;
                looked = true;
            }
            let mut documents: Vec<RawDocumentBuf> = Vec::new();
            let mut bytes = 0;
            for page in self.items.chunks(page_size).take(BUCKETS) {
                bytes += page.iter().map(Item::bytes).sum::<usize>();
                if bytes > BYTES && !documents.is_empty() {
                    break;
                }
                let second = &page[0].second;
                tails.free_from(second, shared.suffixes.next(&key.id(second)));
                let tail = tails.next(settings.id_policy, second)?;
                documents.push(batch::bucket(settings, key, &tail, page)?);
            }
            let mut insert = shared.collection.insert_many(&documents);
            if let Some(session) = session.as_deref_mut() {
                insert = insert.session(session);
            }
            let Err(error) = insert.await else {
                self.done_pages(documents.len());
                continue;
            };
            self.done_pages(refused_document(&error).unwrap_or(0));
            match self.write.collision(&error) {
                _ if session.is_some() => return Err(self.write.failed(error)),
                Some(Collision::Open) => return Ok(Some(error)),
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
    async fn look(&self, tails: &mut Tails, mut session: Option<&mut ClientSession>) -> Result<()> {
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
            .items
            .iter()
            .step_by(shared.settings.page_size as usize)
            .map(|item| item.second.as_str());
        let (Some(first), Some(last)) = (heads.clone().min(), heads.max()) else {
            return Ok(());
        };
        let mut find = shared
            .collection
            .find(query::buckets_between(key, first, last))
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        if session.is_none() {
            find = find.read_concern(ReadConcern::local());
        }
        for found in find_all(find, session).await? {
            if let Some(tail) = found.get_str("_id").ok().and_then(|id| key.tail(id)) {
                tails.taken(tail);
            }
        }
        Ok(())
    }

    fn done_pages(&mut self, pages: usize) {
        let items = self
            .items
            .len()
            .min(pages * self.write.shared.settings.page_size as usize);
        self.done(items, pages as u64);
    }

    fn done(&mut self, items: usize, opened: u64) {
        self.items = &self.items[items..];
        self.stored += items;
        self.opened += opened;
    }
}
