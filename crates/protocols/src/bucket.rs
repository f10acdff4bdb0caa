//! The bucket pattern: appends, opening buckets, batches, removals from full pages, and deleting a key.
//!
//! Mirrors the writes of `crates/bucket/src/write` and the chain of pages in `form`: the filters, the unique indexes,
//! the order of the commands, and the reaction to a collision.
//!
//! The model has one key. The `_id` of a bucket is a second and a suffix; the seconds are 0 and 1. An item is a number
//! whose tens are its second. Left out: sessions, `Monotonic` ids, damage by other programs, and the optimizations for
//! tasks of one process, so that each client is a process of its own. With a bound of bytes, an item with the last digit 3,
//! 8 or 9 has two bytes, and any other one.

pub mod append;
pub mod delete;
mod properties;
pub mod remove;
#[cfg(test)]
mod tests;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};
use append::Append;
use delete::Delete;
use remove::Remove;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: no index but `_id`, the second alone as `_id`, no retry after an error. A removal is a
    /// `$pull`.
    Manual,
}

/// The buckets of one key, and the clients that write to them.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Whose commands the clients send.
    pub form: Form,
    /// The page size.
    pub page_size: usize,
    /// The bound of the bytes of a bucket, if there is one.
    pub most: Option<usize>,
    /// Whether items have ids, so that appends are idempotent.
    pub item_ids: bool,
    /// The initial states.
    pub starts: Vec<(Buckets, Vec<Client>)>,
}

/// The buckets of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Buckets {
    /// In the order of their ids.
    pub pages: Vec<Page>,
    /// The buckets at which a deletion waits for a transaction, as bits.
    watched: u64,
    /// Those of them that have been deleted since, as bits.
    replaced: u64,
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
fn bytes(items: &[u8]) -> usize {
    items
        .iter()
        .map(|item| if matches!(item % 10, 3 | 8 | 9) { 2 } else { 1 })
        .sum()
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `append` or `append_many`.
    Append(Append),
    /// `remove_item`.
    Remove(Remove),
    /// `delete_key`.
    Delete(Delete),
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
const OPEN: u64 = 1 << 40;

/// Returns the bit of a bucket.
fn name(id: u8) -> u64 {
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
    fn deleted(&mut self, id: u8) {
        self.replaced |= self.watched & name(id);
    }

    fn page_of(&self, item: u8) -> Option<usize> {
        self.pages.iter().position(|page| page.items.contains(&item))
    }

    fn open(&self, bucket: &Bucket) -> usize {
        self.pages.iter().filter(|page| !bucket.is_full(page)).count()
    }

    /// Returns the suffix after the last one of a second.
    fn free_suffix(&self, second: u8) -> u8 {
        let of_second = self.pages.iter().filter(|page| page.id / 10 == second);
        of_second.map(|page| page.id % 10 + 1).max().unwrap_or(0)
    }
}

impl Bucket {
    fn has_removals(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::Remove(_)))
    }

    fn has_deletions(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::Delete(_)))
    }

    fn is_full(&self, page: &Page) -> bool {
        page.closed || page.items.len() >= self.page_size || self.most.is_some_and(|most| bytes(&page.items) >= most)
    }

    /// Returns how many of the items a bucket with these has room for.
    fn room(&self, stored: &[u8], items: &[u8]) -> usize {
        let count = (self.page_size - stored.len()).min(items.len());
        let most = self.most.unwrap_or(usize::MAX);
        let fit = |taken: &usize| bytes(stored) + bytes(&items[..*taken]) <= most;
        let empty = usize::from(stored.is_empty());
        (empty..=count).rev().find(fit).unwrap_or(empty)
    }

    /// Cuts items into pages. All but the last are full.
    fn pages<'i>(&self, mut items: &'i [u8]) -> Vec<(&'i [u8], bool)> {
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
    fn push(
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
    fn is_open_locked(&self, buckets: &Buckets) -> bool {
        let mut open = buckets.pages.iter().filter(|page| !self.is_full(page));
        open.any(|page| buckets.transactions.is_locked(name(page.id)))
    }

    /// Inserts a bucket. The indexes are checked in the order of their creation.
    fn insert(&self, buckets: &mut Buckets, page: Page) -> Result<(), Collision> {
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
fn names_of(page: &Page, bucket: &Bucket) -> u64 {
    let entry = if bucket.is_full(page) { 0 } else { OPEN };
    name(page.id) | entry
}

crate::stored!(Buckets);

/// A state of the model.
type Moment = State<Buckets, Client>;

impl Protocol for Bucket {
    type Documents = Buckets;
    type Client = Client;

    fn starts(&self) -> Vec<(Buckets, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, buckets: &mut Buckets, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Append(call) => call.run(self, buckets),
            Client::Remove(call) => call.run(self, buckets, me),
            Client::Delete(call) => call.run(self, buckets),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.ended().is_some(),
            Client::Remove(call) => call.has_ended(),
            Client::Delete(call) => call.has_ended(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Append(call) => call.sends(),
            Client::Remove(call) => call.sends(),
            Client::Delete(call) => call.sends(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.writes(),
            Client::Remove(call) => call.writes(),
            Client::Delete(call) => call.writes(),
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.is_mid_command(),
            Client::Remove(_) => false,
            Client::Delete(call) => call.is_mid_command(),
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Append(call) => Client::Append(call.unknown(self)),
            Client::Remove(call) => Client::Remove(call.retry()),
            Client::Delete(call) => Client::Delete(call.retry()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        let mut properties = properties::properties();
        properties.extend(delete::properties());
        properties
    }
}

/// In each second, items from this number on are those of clients.
const OF_CLIENTS: u8 = 4;

fn is_first(item: u8) -> bool {
    item % 10 < OF_CLIENTS
}

fn appends(state: &Moment) -> impl Iterator<Item = &Append> {
    state.clients.iter().filter_map(|client| match client {
        Client::Append(call) => Some(call),
        _ => None,
    })
}

fn removals(state: &Moment) -> impl Iterator<Item = &Remove> {
    state.clients.iter().filter_map(|client| match client {
        Client::Remove(call) => Some(call),
        _ => None,
    })
}

fn deletions(state: &Moment) -> impl Iterator<Item = &Delete> {
    state.clients.iter().filter_map(|client| match client {
        Client::Delete(call) => Some(call),
        _ => None,
    })
}
