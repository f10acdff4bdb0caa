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
        page.items.len() >= self.page_size
    }

    /// Pushes the items of a call, as many as fit, to the open bucket that has none of them. Returns `None` if there is
    /// no such bucket.
    pub(super) fn push(&self, buckets: &mut Buckets, items: &[u8]) -> Option<Result<usize, Collision>> {
        let fits = |page: &Page| {
            let has_one = self.item_ids && items.iter().any(|item| page.items.contains(item));
            !self.is_full(page) && !has_one
        };
        let open = buckets.pages.iter().position(fits)?;
        let taken = (self.page_size - buckets.pages[open].items.len()).min(items.len());
        if self.item_ids && items[..taken].iter().any(|item| buckets.page_of(*item).is_some()) {
            return Some(Err(Collision::Item));
        }
        buckets.pages[open].items.extend(&items[..taken]);
        let id = buckets.pages[open].id;
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
