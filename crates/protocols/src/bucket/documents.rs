//! The stored buckets of the model, the settings of its calls, and what their writes match and change.

use crate::transactions::Transactions;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: no index but `_id`, the second alone as `_id`, no retry after an error. A removal is a
    /// `$pull`.
    Manual,
}

/// The settings of the calls.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whose commands the clients send.
    pub form: Form,
    /// The page size.
    pub page_size: usize,
    /// The bound of the bytes of a bucket, if there is one.
    pub most: Option<usize>,
    /// Whether items have ids, so that appends are idempotent.
    pub item_ids: bool,
}

/// The buckets of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Buckets {
    /// In the order of their ids.
    pub pages: Vec<Page>,
    /// The buckets at which a deletion waits for a transaction, as bits.
    pub(super) watched: u64,
    /// Those of them that have been deleted since, as bits.
    pub(super) replaced: u64,
    pub(crate) transactions: Transactions,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Ten times its second, plus the suffix.
    pub id: u8,
    /// Its items.
    pub items: Vec<u8>,
    /// Whether it is full with fewer bytes than the bound.
    pub closed: bool,
}

/// Returns the bytes of items.
pub(super) fn bytes(items: &[u8]) -> usize {
    items
        .iter()
        .map(|item| if matches!(item % 10, 3 | 8 | 9) { 2 } else { 1 })
        .sum()
}

/// The unique index that refused a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collision {
    /// The `_id` exists.
    Id,
    /// The key has an open bucket.
    Open,
    /// Another bucket has the item.
    Item,
}

/// The bit of the key's entry in the index of open buckets.
pub(super) const OPEN: u64 = 1 << 40;

/// Returns the bit of a bucket.
pub(super) fn name(id: u8) -> u64 {
    1 << id
}

impl Buckets {
    /// Returns buckets with these pages.
    pub fn of(pages: &[(u8, &[u8])]) -> Self {
        let page = |&(id, items): &(u8, &[u8])| Page {
            id,
            items: items.to_vec(),
            closed: false,
        };
        Self {
            pages: pages.iter().map(page).collect(),
            ..Self::default()
        }
    }

    /// Returns how often an item is stored.
    pub fn count(&self, item: u8) -> usize {
        let items = self.pages.iter().flat_map(|page| &page.items);
        items.filter(|stored| **stored == item).count()
    }

    /// Records that a bucket was deleted. One with the same id can follow.
    pub(super) fn deleted(&mut self, id: u8) {
        self.replaced |= self.watched & name(id);
    }

    pub(super) fn page_of(&self, item: u8) -> Option<usize> {
        self.pages.iter().position(|page| page.items.contains(&item))
    }

    pub(super) fn open(&self, rules: &Rules) -> usize {
        self.pages.iter().filter(|page| !rules.is_full(page)).count()
    }

    /// Returns the suffix after the last one of a second.
    pub(super) fn free_suffix(&self, second: u8) -> u8 {
        let of_second = self.pages.iter().filter(|page| page.id / 10 == second);
        of_second.map(|page| page.id % 10 + 1).max().unwrap_or(0)
    }
}

impl Rules {
    pub(super) fn is_full(&self, page: &Page) -> bool {
        page.closed || page.items.len() >= self.page_size || self.most.is_some_and(|most| bytes(&page.items) >= most)
    }

    /// Returns how many of the items a bucket with these has room for.
    pub(super) fn room(&self, stored: &[u8], items: &[u8]) -> usize {
        let count = (self.page_size - stored.len()).min(items.len());
        let most = self.most.unwrap_or(usize::MAX);
        let fit = |taken: &usize| bytes(stored) + bytes(&items[..*taken]) <= most;
        let empty = usize::from(stored.is_empty());
        (empty..=count).rev().find(fit).unwrap_or(empty)
    }

    /// Cuts items into pages. All but the last are full.
    pub(super) fn pages<'i>(&self, mut items: &'i [u8]) -> Vec<(&'i [u8], bool)> {
        let mut pages = Vec::new();
        while !items.is_empty() {
            let (page, later) = items.split_at(self.room(&[], items));
            pages.push((page, !later.is_empty() && page.len() < self.page_size));
            items = later;
        }
        pages
    }

    /// Pushes the items of a call, as many as fit, to the open bucket that has none of them. Returns `None` if there is
    /// no such bucket. With `closes`, or several items, a bucket is closed if an item does not fit, and with `follows` also
    /// if all fit.
    pub(super) fn push(
        &self,
        buckets: &mut Buckets,
        items: &[u8],
        closes: bool,
        follows: bool,
    ) -> Option<Result<usize, Collision>> {
        let closes = closes || follows || items.len() > 1;
        let fits = |page: &Page| {
            let has_one = self.item_ids && items.iter().any(|item| page.items.contains(item));
            !self.is_full(page) && !has_one && (closes || self.room(&page.items, items) > 0)
        };
        let at = buckets.pages.iter().position(fits)?;
        let stored = &buckets.pages[at].items;
        let taken = self.room(stored, items);
        let count = (self.page_size - stored.len()).min(items.len());
        if self.item_ids && items[..taken].iter().any(|item| buckets.page_of(*item).is_some()) {
            return Some(Err(Collision::Item));
        }
        buckets.pages[at].items.extend(&items[..taken]);
        buckets.pages[at].closed = taken < count || follows && taken == items.len();
        let id = buckets.pages[at].id;
        buckets.transactions.wrote(name(id));
        Some(Ok(taken))
    }

    /// Returns whether a write to the open bucket must wait for a transaction.
    pub(super) fn is_open_locked(&self, buckets: &Buckets) -> bool {
        let mut open = buckets.pages.iter().filter(|page| !self.is_full(page));
        open.any(|page| buckets.transactions.is_locked(name(page.id)))
    }

    /// Inserts a bucket. The indexes are checked in the order of their creation.
    pub(super) fn insert(&self, buckets: &mut Buckets, page: Page) -> Result<(), Collision> {
        let is_open = !self.is_full(&page);
        if buckets.pages.iter().any(|other| other.id == page.id) {
            return Err(Collision::Id);
        }
        if self.form == Form::Ours && is_open && buckets.open(self) > 0 {
            return Err(Collision::Open);
        }
        if self.item_ids && page.items.iter().any(|item| buckets.page_of(*item).is_some()) {
            return Err(Collision::Item);
        }
        buckets.transactions.wrote(names_of(&page, self));
        buckets.pages.push(page);
        buckets.pages.sort_unstable_by_key(|page| page.id);
        Ok(())
    }
}

/// Returns the bits that the insert of a bucket writes.
pub(super) fn names_of(page: &Page, rules: &Rules) -> u64 {
    let entry = if rules.is_full(page) { 0 } else { OPEN };
    name(page.id) | entry
}

crate::stored!(Buckets);
