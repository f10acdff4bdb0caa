//! `append` and `append_many`.
//!
//! Mirrors `Store::run`, `upsert`, `retry_upsert`, `is_repeated`, `attempt` and `fill` of `crates/bucket/src/write/store.rs`, and
//! `StoreBatch::run`, `fill`, `drop_repeated`, `insert` and `read_taken` of `write/batch.rs`. An upsert is two steps of the server:
//! it looks for a bucket, and where it finds none it inserts one, which an index may refuse by then.

use super::{Bucket, Buckets, Collision, Form, OPEN, Page, name, names_of};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// The items: one for `append`.
    pub items: Vec<u8>,
    /// Those that are not stored yet.
    rest: Vec<u8>,
    /// The next suffix to try for each second, as this process knows it.
    known: [u8; 2],
    /// On which indexes it has met others, as bits.
    met: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// The upsert: looks for an open bucket.
    Upsert,
    /// Its second half: inserts one.
    Open,
    /// After a collision: whether one of the items is stored already.
    IsStored(Collision),
    /// Which suffix is free.
    FreeSuffix,
    /// A batch: which of its items are stored already.
    Drop,
    /// A batch: the rest in whole buckets, one after the other. Whether some of them are.
    Insert(Vec<Page>, bool),
    /// A batch: which suffixes are free.
    Look,
    Ended(Ended),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// All of it was stored.
    Stored,
    /// It was stored before.
    Repeated,
    /// With an error, for ever.
    Refused,
    /// With an unknown outcome.
    Unknown,
}

impl Append {
    /// The call.
    pub fn new(items: &[u8]) -> Self {
        Self {
            items: items.to_vec(),
            rest: items.to_vec(),
            known: [0; 2],
            met: 0,
            at: At::Upsert,
        }
    }

    /// How it ended.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether it has met another writer.
    pub fn has_met(&self, collision: Collision) -> bool {
        self.met & (1 << collision as u8) != 0
    }

    /// Whether it is at its upsert, after some of it was stored.
    pub fn is_between(&self) -> bool {
        self.rest.len() < self.items.len() && self.ended().is_none()
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Upsert | At::Open | At::Insert(..))
    }

    pub(super) fn is_within(&self) -> bool {
        matches!(self.at, At::Open | At::Insert(_, true))
    }

    /// With an unknown outcome, the application appends items with ids once more. The manual has none, and it does so
    /// all the same.
    pub(super) fn unknown(&self, bucket: &Bucket) -> Self {
        let at = match bucket.item_ids || bucket.form == Form::Manual {
            true => At::Upsert,
            false => At::Ended(Ended::Unknown),
        };
        Self {
            rest: self.items.clone(),
            met: 0,
            at,
            ..self.clone()
        }
    }

    pub(super) fn run(&mut self, bucket: &Bucket, buckets: &mut Buckets) -> Ran {
        let is_single = self.items.len() == 1;
        match &mut self.at {
            At::Upsert => {
                if bucket.open_is_held(buckets) {
                    return Ran::Waits;
                }
                let offered = self.rest.len().min(bucket.page_size);
                match bucket.push(buckets, &self.rest[..offered]) {
                    Some(Ok(stored)) => self.stored(bucket, stored),
                    Some(Err(collision)) => self.met(bucket, collision),
                    None => self.at = At::Open,
                }
            }
            At::Open => {
                let offered = self.rest.len().min(bucket.page_size);
                let page = Page {
                    id: self.new_id(bucket),
                    items: self.rest[..offered].to_vec(),
                };
                if buckets.transactions.is_held(name(page.id) | OPEN) {
                    return Ran::Waits;
                }
                match bucket.insert(buckets, page) {
                    Ok(()) => {
                        let second = usize::from(self.rest[0] / 10);
                        if self.known[second] > 0 {
                            self.known[second] += 1;
                        }
                        self.stored(bucket, offered);
                    }
                    Err(collision) => self.met(bucket, collision),
                }
            }
            At::IsStored(collision) => {
                let collision = *collision;
                let offered = self.rest.len().min(bucket.page_size);
                let is_stored = self.rest[..offered].iter().any(|item| buckets.count(*item) > 0);
                match (is_stored, is_single) {
                    (true, true) => self.at = At::Ended(Ended::Repeated),
                    (true, false) => self.at = At::Drop,
                    (false, _) => self.go_on(collision),
                }
            }
            At::FreeSuffix => {
                let second = self.rest[0] / 10;
                let known = &mut self.known[usize::from(second)];
                *known = buckets.free_suffix(second).max(*known);
                self.at = At::Upsert;
            }
            At::Drop => {
                self.rest.retain(|item| buckets.count(*item) == 0);
                self.at = match self.rest.is_empty() {
                    true => At::Ended(Ended::Stored),
                    false => At::Upsert,
                };
            }
            At::Insert(pages, is_within) => {
                let page = pages[0].clone();
                if buckets.transactions.is_held(names_of(&page, bucket.page_size)) {
                    return Ran::Waits;
                }
                let items = page.items.len();
                match bucket.insert(buckets, page) {
                    Ok(()) => {
                        pages.remove(0);
                        *is_within = true;
                        self.rest.drain(..items);
                        if self.rest.is_empty() {
                            self.at = At::Ended(Ended::Stored);
                        }
                    }
                    Err(Collision::Open) => self.at = At::Upsert,
                    Err(Collision::Item) => self.at = At::Drop,
                    Err(Collision::Id) => self.at = At::Look,
                }
            }
            At::Look => {
                let free = [buckets.free_suffix(0), buckets.free_suffix(1)];
                self.pack(bucket, free);
            }
            At::Ended(_) => {}
        }
        Ran::Done
    }

    fn new_id(&self, bucket: &Bucket) -> u8 {
        let second = self.rest[0] / 10;
        match bucket.form {
            Form::Ours => second * 10 + self.known[usize::from(second)],
            Form::Manual => second * 10,
        }
    }

    /// So many items are stored, in the open bucket or in one that was opened for them.
    fn stored(&mut self, bucket: &Bucket, items: usize) {
        self.rest.drain(..items);
        if self.rest.is_empty() {
            self.at = At::Ended(Ended::Stored);
        } else {
            self.pack(bucket, self.known);
        }
    }

    /// The rest of a batch into new buckets, named from these suffixes on.
    fn pack(&mut self, bucket: &Bucket, mut free: [u8; 2]) {
        let pages = self.rest.chunks(bucket.page_size).map(|items| {
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

    fn met(&mut self, bucket: &Bucket, collision: Collision) {
        match bucket.form {
            Form::Manual => self.at = At::Ended(Ended::Refused),
            Form::Ours if bucket.item_ids && collision == Collision::Item && self.items.len() == 1 => {
                self.at = At::Ended(Ended::Repeated);
            }
            Form::Ours if bucket.item_ids => self.at = At::IsStored(collision),
            Form::Ours => self.go_on(collision),
        }
    }

    /// After a collision with what is not this call's own item.
    fn go_on(&mut self, collision: Collision) {
        self.at = At::Upsert;
        let is_again = self.has_met(collision);
        self.met |= 1 << collision as u8;
        if collision == Collision::Id {
            self.known[usize::from(self.rest[0] / 10)] += 1;
            if is_again {
                self.at = At::FreeSuffix;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Client;
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
            form,
            page_size: 2,
            item_ids,
            starts: starts(),
        }
    }

    #[test]
    fn items_are_stored_once() {
        let found = explore(bucket(Form::Ours, false));
        found.assert_right(1000);
    }

    #[test]
    fn items_with_ids_are_stored_once_however_often_they_are_appended() {
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
        explore(bucket).assert_right(1000);
    }

    #[test]
    fn the_manuals_commands_lose_items_and_open_two_buckets() {
        let found = explore(bucket(Form::Manual, false));
        found.assert_wrong(&[
            "no call is refused",
            "a key has one open bucket at most",
            "no item is stored twice",
            "without faults all is stored when all have ended",
        ]);
    }
}
