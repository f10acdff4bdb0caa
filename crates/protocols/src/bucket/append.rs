//! `append` and `append_many`.
//!
//! Mirrors `write/store.rs` and the batches in `write` of `crates/bucket/src`. An upsert is two steps of the server: it
//! searches for a bucket, and inserts one if it finds none. An index can refuse that insert.

use super::documents::{Buckets, Collision, Form, OPEN, Page, Rules, name, names_of};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// The items: one for `append`.
    pub items: Vec<u8>,
    /// The items that are not stored yet.
    rest: Vec<u8>,
    /// The next suffix to try for each second, as cached by this process.
    cached: [u8; 2],
    /// The indexes that have refused a write, as bits.
    collided: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// The upsert: searches for an open bucket.
    Upsert,
    /// The second step of the upsert: inserts a bucket.
    Open,
    /// After a collision: reads whether one of the items is stored already.
    IsStored(Collision),
    /// Reads which suffix is free.
    FreeSuffix,
    /// A batch: reads which of its items are stored already.
    Drop,
    /// A batch: inserts the rest in whole buckets, one after the other. The flag is set when some of them are inserted.
    Insert(Vec<Page>, bool),
    /// A batch: reads which suffixes are free.
    ReadSuffixes,
    Ended(Ended),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// All items were stored.
    Stored,
    /// The item was stored before.
    Repeated,
    /// A permanent error.
    Refused,
    /// The outcome is unknown.
    Unknown,
}

impl Append {
    /// Returns the call.
    pub fn new(items: &[u8]) -> Self {
        Self {
            items: items.to_vec(),
            rest: items.to_vec(),
            cached: [0; 2],
            collided: 0,
            at: At::Upsert,
        }
    }

    /// Returns the outcome.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether an index has refused a write.
    pub fn has_collided(&self, collision: Collision) -> bool {
        self.collided & (1 << collision as u8) != 0
    }

    /// Returns whether some of its items are stored, and the call has not ended.
    pub fn is_between(&self) -> bool {
        self.rest.len() < self.items.len() && self.ended().is_none()
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Upsert | At::Open | At::Insert(..))
    }

    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Open | At::Insert(_, true))
    }

    /// Returns the call after an unknown outcome: the application retries if items have ids. The manual has no ids, and
    /// its application retries all the same.
    pub(super) fn unknown(&self, rules: &Rules) -> Self {
        let at = match rules.item_ids || rules.form == Form::Manual {
            true => At::Upsert,
            false => At::Ended(Ended::Unknown),
        };
        Self {
            rest: self.items.clone(),
            collided: 0,
            at,
            ..self.clone()
        }
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Upsert => vec!["upsert trades"],
            At::IsStored(_) | At::FreeSuffix | At::Drop | At::ReadSuffixes => vec!["read trades"],
            At::Insert(..) => vec!["insert trades"],
            At::Open | At::Ended(_) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, rules: &Rules, buckets: &mut Buckets) -> Ran {
        let is_single = self.items.len() == 1;
        match &mut self.at {
            At::Upsert => {
                if rules.is_open_locked(buckets) {
                    return Ran::Waits;
                }
                match rules.push(buckets, self.page(rules)) {
                    Some(Ok(stored)) => self.stored(rules, stored),
                    Some(Err(collision)) => self.collided(rules, collision),
                    None => self.at = At::Open,
                }
            }
            At::Open => {
                let page = Page {
                    id: self.new_id(rules),
                    items: self.page(rules).to_vec(),
                };
                let offered = page.items.len();
                if buckets.transactions.is_locked(name(page.id) | OPEN) {
                    return Ran::Waits;
                }
                match rules.insert(buckets, page) {
                    Ok(()) => {
                        let second = usize::from(self.rest[0] / 10);
                        if self.cached[second] > 0 {
                            self.cached[second] += 1;
                        }
                        self.stored(rules, offered);
                    }
                    Err(collision) => self.collided(rules, collision),
                }
            }
            At::IsStored(collision) => {
                let collision = *collision;
                let offered = self.page(rules);
                let is_stored = offered.iter().any(|item| buckets.count(*item) > 0);
                match (is_stored, is_single) {
                    (true, true) => self.at = At::Ended(Ended::Repeated),
                    (true, false) => self.at = At::Drop,
                    (false, _) => self.retry(collision),
                }
            }
            At::FreeSuffix => {
                let second = self.rest[0] / 10;
                let cached = &mut self.cached[usize::from(second)];
                *cached = buckets.free_suffix(second).max(*cached);
                self.at = At::Upsert;
            }
            At::Drop => {
                self.rest.retain(|item| buckets.count(*item) == 0);
                self.at = match self.rest.is_empty() {
                    true => At::Ended(Ended::Stored),
                    false => At::Upsert,
                };
            }
            At::Insert(pages, is_mid_command) => {
                let page = pages[0].clone();
                if buckets.transactions.is_locked(names_of(&page, rules)) {
                    return Ran::Waits;
                }
                let items = page.items.len();
                match rules.insert(buckets, page) {
                    Ok(()) => {
                        pages.remove(0);
                        *is_mid_command = true;
                        self.rest.drain(..items);
                        if self.rest.is_empty() {
                            self.at = At::Ended(Ended::Stored);
                        }
                    }
                    Err(Collision::Open) => self.at = At::Upsert,
                    Err(Collision::Item) => self.at = At::Drop,
                    Err(Collision::Id) => self.at = At::ReadSuffixes,
                }
            }
            At::ReadSuffixes => {
                let free = [buckets.free_suffix(0), buckets.free_suffix(1)];
                self.pack(rules, free);
            }
            At::Ended(_) => {}
        }
        Ran::Done
    }

    /// Returns the items of the next page.
    fn page(&self, rules: &Rules) -> &[u8] {
        &self.rest[..self.rest.len().min(rules.page_size)]
    }

    fn new_id(&self, rules: &Rules) -> u8 {
        let second = self.rest[0] / 10;
        match rules.form {
            Form::Ours => second * 10 + self.cached[usize::from(second)],
            Form::Manual => second * 10,
        }
    }

    /// Drops stored items from the rest, after a write to the open bucket or to one that was opened for them.
    fn stored(&mut self, rules: &Rules, items: usize) {
        self.rest.drain(..items);
        if self.rest.is_empty() {
            self.at = At::Ended(Ended::Stored);
        } else {
            self.pack(rules, self.cached);
        }
    }

    /// Packs the rest of a batch into new buckets, with these suffixes and those that follow.
    fn pack(&mut self, rules: &Rules, mut free: [u8; 2]) {
        let pages = self.rest.chunks(rules.page_size).map(|items| {
            let second = items[0] / 10;
            let suffix = &mut free[usize::from(second)];
            *suffix += 1;
            Page {
                id: second * 10 + *suffix - 1,
                items: items.to_vec(),
            }
        });
        self.at = At::Insert(pages.collect(), false);
    }

    fn collided(&mut self, rules: &Rules, collision: Collision) {
        match rules.form {
            Form::Manual => self.at = At::Ended(Ended::Refused),
            Form::Ours if rules.item_ids && collision == Collision::Item && self.items.len() == 1 => {
                self.at = At::Ended(Ended::Repeated);
            }
            Form::Ours if rules.item_ids => self.at = At::IsStored(collision),
            Form::Ours => self.retry(collision),
        }
    }

    /// Retries after a collision with an item or a bucket of another call.
    fn retry(&mut self, collision: Collision) {
        self.at = At::Upsert;
        let is_again = self.has_collided(collision);
        self.collided |= 1 << collision as u8;
        if collision == Collision::Id {
            self.cached[usize::from(self.rest[0] / 10)] += 1;
            if is_again {
                self.at = At::FreeSuffix;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bucket, Client};
    use super::*;
    use crate::check::{explore, is_long};

    fn calls(calls: &[&[u8]]) -> Vec<Client> {
        calls.iter().map(|items| Client::Append(Append::new(items))).collect()
    }

    fn starts() -> Vec<(Buckets, Vec<Client>)> {
        let (empty, full) = (Buckets::default(), Buckets::of(&[(0, &[0, 1])]));
        let open = Buckets::of(&[(0, &[0, 1]), (1, &[2])]);
        let mut starts = vec![
            (empty.clone(), calls(&[&[4], &[5], &[6]])),
            (empty, calls(&[&[4], &[5], &[16]])),
            (full.clone(), calls(&[&[4], &[5], &[6]])),
            (full.clone(), calls(&[&[4, 5, 6], &[7], &[18]])),
        ];
        if is_long() {
            starts.extend([
                (full, calls(&[&[4, 5, 6, 7], &[8, 9], &[14]])),
                (open.clone(), calls(&[&[4], &[5], &[6, 7]])),
                (open, calls(&[&[4, 5, 6, 7], &[8], &[14, 15, 16]])),
            ]);
        }
        starts
    }

    fn bucket(form: Form, item_ids: bool) -> Bucket {
        Bucket {
            rules: Rules {
                form,
                page_size: 2,
                item_ids,
            },
            starts: starts(),
        }
    }

    #[test]
    fn each_item_is_stored_exactly_once() {
        let explored = explore(bucket(Form::Ours, false));
        explored.assert_holds(1000);
    }

    #[test]
    fn items_with_ids_are_stored_once_by_any_number_of_appends() {
        let mut bucket = bucket(Form::Ours, true);
        let full = Buckets::of(&[(0, &[0, 1])]);
        let open = Buckets::of(&[(0, &[0, 1]), (1, &[2])]);
        bucket.starts.extend([
            (Buckets::default(), calls(&[&[4], &[4], &[4]])),
            (full.clone(), calls(&[&[4], &[4], &[5]])),
            (full, calls(&[&[4, 5, 6], &[5], &[6]])),
        ]);
        if is_long() {
            bucket.starts.extend([
                (open.clone(), calls(&[&[4, 5, 6], &[4, 5, 6], &[7]])),
                (open, calls(&[&[4, 5], &[5, 6], &[6, 4]])),
            ]);
        }
        explore(bucket).assert_holds(1000);
    }

    #[test]
    fn the_manuals_commands_lose_items_and_open_two_buckets() {
        let explored = explore(bucket(Form::Manual, false));
        explored.assert_refuted(&[
            "no call is refused",
            "a key has at most one open bucket",
            "no item is stored twice",
            "without faults, all items are stored when all calls have ended",
        ]);
    }
}
