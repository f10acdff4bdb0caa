//! `remove_item`: from the open bucket by one command, and from a full one in a transaction, in which the items after it
//! move up.
//!
//! Mirrors `Removal` of `crates/bucket/src/write/removal.rs` with its `load`, `plan` and `changes` of `form/chain.rs`,
//! `lay_out` of `form/layout.rs`, and `Changes::apply` and `transaction::run` of `crates/core`.

use super::{Bucket, Buckets, Form, OPEN, Page, name, names_of};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remove {
    /// The item.
    pub item: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Looks for the item.
    Find,
    /// Takes it out of this bucket, while that has so many items.
    Take {
        id: u8,
        count: usize,
    },
    /// A transaction, whether it was run before: then it holds the open bucket first.
    Begin {
        is_again: bool,
    },
    /// Reads the buckets, all at the moment of its snapshot, and deletes what goes away or is written anew.
    Delete(Changes),
    /// Inserts what is written.
    Insert(Changes),
    Commit(Changes),
    /// There is no such item any more.
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Changes {
    removed: Vec<u8>,
    written: Vec<Page>,
}

impl Remove {
    /// The call.
    pub fn new(item: u8) -> Self {
        Self { item, at: At::Find }
    }

    /// Whether it has ended, so that the item is gone.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Whether it is in a transaction that was run before.
    pub fn has_lost(&self) -> bool {
        self.at == At::Begin { is_again: true }
    }

    /// Whether it is about to commit.
    pub fn commits(&self) -> bool {
        matches!(self.at, At::Commit(_))
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Take { .. })
    }

    /// Called again after an unknown outcome.
    pub(super) fn again(&self) -> Self {
        Self::new(self.item)
    }

    pub(super) fn run(&mut self, bucket: &Bucket, buckets: &mut Buckets, me: usize) -> Ran {
        match &mut self.at {
            At::Find => {
                self.at = match buckets.page_of(self.item) {
                    None => At::Ended,
                    Some(page) => {
                        let Page { id, items } = &buckets.pages[page];
                        let (id, count) = (*id, items.len());
                        match count < bucket.page_size || bucket.page_size == 1 || bucket.form == Form::Manual {
                            true => At::Take { id, count },
                            false => At::Begin { is_again: false },
                        }
                    }
                }
            }
            At::Take { id, count } => {
                let (id, count) = (*id, *count);
                if buckets.transactions.is_held(name(id)) {
                    return Ran::Waits;
                }
                let is_taken = self.take(bucket, buckets, id, count);
                self.at = match is_taken || bucket.form == Form::Manual {
                    true => At::Ended,
                    false => At::Begin { is_again: false },
                };
            }
            At::Begin { is_again } => {
                buckets.transactions.begin(me);
                let open = buckets.pages.iter().find(|page| page.items.len() < bucket.page_size);
                if let Some(open) = open.filter(|_| *is_again)
                    && !buckets.transactions.write(me, name(open.id))
                {
                    return Ran::Done; // it is run again
                }
                self.at = match self.plan(bucket, buckets) {
                    Some(changes) => At::Delete(changes),
                    None => {
                        buckets.transactions.abort(me);
                        At::Ended
                    }
                };
            }
            At::Delete(changes) => {
                let names = changes.removed.iter().fold(0, |names, id| names | name(*id));
                self.at = match buckets.transactions.write(me, names) {
                    true => At::Insert(std::mem::take(changes)),
                    false => At::Begin { is_again: true },
                };
            }
            At::Insert(changes) => {
                let names = changes.written.iter();
                let names = names.fold(0, |names, page| names | names_of(page, bucket.page_size));
                // What a page that goes away has had in the index is no other writer's.
                let is_taken = names & OPEN != 0
                    && buckets
                        .pages
                        .iter()
                        .any(|page| page.items.len() < bucket.page_size && !changes.removed.contains(&page.id));
                if is_taken && !buckets.transactions.has_changed(me, OPEN) {
                    // A duplicate key, for which our own loop runs it again.
                    buckets.transactions.abort(me);
                    self.at = At::Begin { is_again: true };
                    return Ran::Done;
                }
                self.at = match buckets.transactions.write(me, names) {
                    true => At::Commit(std::mem::take(changes)),
                    false => At::Begin { is_again: true },
                };
            }
            At::Commit(changes) => {
                let changes = std::mem::take(changes);
                buckets.pages.retain(|page| !changes.removed.contains(&page.id));
                changes.removed.iter().for_each(|id| buckets.is_gone(*id));
                buckets.pages.extend(changes.written);
                buckets.pages.sort_unstable_by_key(|page| page.id);
                buckets.transactions.commit(me);
                self.at = At::Ended;
            }
            At::Ended => {}
        }
        Ran::Done
    }

    /// Takes it out of a bucket that is still as it was seen. The manual's `$pull` asks for nothing.
    fn take(&self, bucket: &Bucket, buckets: &mut Buckets, id: u8, count: usize) -> bool {
        let Some(at) = buckets.pages.iter().position(|page| page.id == id) else {
            return false;
        };
        let page = &mut buckets.pages[at];
        let has = page.items.contains(&self.item);
        let open = match bucket.form {
            Form::Manual => true,
            Form::Ours if count == 1 => page.items.len() == 1,
            Form::Ours => page.items.len() > 1 && page.items.len() < bucket.page_size,
        };
        if !has || !open {
            return false;
        }
        page.items.retain(|item| *item != self.item);
        if page.items.is_empty() && bucket.form == Form::Ours {
            buckets.pages.remove(at);
            buckets.is_gone(id);
        }
        buckets.transactions.wrote(name(id));
        true
    }

    /// What must be written for the pages from the item's on, or from the open one where that is before it.
    fn plan(&self, bucket: &Bucket, buckets: &Buckets) -> Option<Changes> {
        let of_item = buckets.page_of(self.item)?;
        let open = buckets
            .pages
            .iter()
            .position(|page| page.items.len() < bucket.page_size);
        let chain = &buckets.pages[open.unwrap_or(of_item).min(of_item)..];
        let items = chain
            .iter()
            .flat_map(|page| page.items.iter().map(|item| (*item, page.id)));
        let items: Vec<(u8, u8)> = items.filter(|(item, _)| *item != self.item).collect();
        let mut pages: Vec<Page> = Vec::new();
        for items in items.chunks(bucket.page_size) {
            let previous = pages.last().map(|page| page.id);
            let origin = items[0].1;
            pages.push(Page {
                id: previous.map_or(origin, |previous| origin.max(previous + 1)),
                items: items.iter().map(|(item, _)| *item).collect(),
            });
        }
        let changed = |page: &&Page| !pages.contains(page);
        Some(Changes {
            removed: chain.iter().filter(changed).map(|page| page.id).collect(),
            written: pages.iter().filter(|page| !chain.contains(page)).cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::super::append::Append;
    use super::*;
    use crate::check::explore;

    fn remove(item: u8) -> Client {
        Client::Remove(Remove::new(item))
    }

    fn append(items: &[u8]) -> Client {
        Client::Append(Append::new(items))
    }

    fn bucket(form: Form) -> Bucket {
        let full = Buckets::of(&[(0, &[0, 1]), (1, &[2, 3])]);
        let open = Buckets::of(&[(0, &[0, 1]), (1, &[2, 3]), (2, &[10])]);
        let open_before = Buckets::of(&[(0, &[0]), (1, &[1, 2]), (2, &[3, 10])]);
        let starts = vec![
            (full.clone(), vec![remove(0), append(&[4]), append(&[5])]),
            (full.clone(), vec![remove(0), remove(3), append(&[4])]),
            (full, vec![remove(1), remove(2), remove(1)]),
            (open.clone(), vec![remove(0), append(&[4]), append(&[5, 6])]),
            (open.clone(), vec![remove(2), remove(10), append(&[4])]),
            (open, vec![remove(10), append(&[4]), append(&[15])]),
            (open_before.clone(), vec![remove(2), append(&[4]), append(&[5])]),
            (open_before, vec![remove(0), remove(10), append(&[4, 5])]),
        ];
        Bucket {
            form,
            page_size: 2,
            item_ids: form == Form::Ours,
            starts,
        }
    }

    #[test]
    fn pages_move_up_and_nothing_is_lost() {
        explore(bucket(Form::Ours)).assert_right(1000);
    }

    #[test]
    fn pages_of_three_move_up_and_nothing_is_lost() {
        let open = Buckets::of(&[(0, &[0, 1, 2]), (1, &[3, 10])]);
        let explored = explore(Bucket {
            page_size: 3,
            starts: vec![
                (open.clone(), vec![remove(0), append(&[4]), append(&[5])]),
                (open.clone(), vec![remove(3), remove(10), append(&[4])]),
                (open, vec![remove(1), remove(10), append(&[4, 5])]),
            ],
            ..bucket(Form::Ours)
        });
        explored.assert_right(1000);
    }

    #[test]
    fn the_manuals_pull_leaves_holes() {
        explore(bucket(Form::Manual)).assert_wrong(&["a key has one open bucket at most"]);
    }
}
