//! `remove_item`: one command for the open bucket, and a transaction for a full one, which shifts the items after it.
//!
//! Mirrors `write/removal.rs`, `form/chain.rs` and `form/layout.rs` of `crates/bucket/src`, and the rewrites and
//! transactions of `crates/core`.

use super::documents::{Buckets, Form, OPEN, Page, Rules, name, names_of};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remove {
    /// The item.
    pub item: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Searches for the item.
    Find,
    /// Removes it from this bucket if the bucket still has this number of items.
    Take {
        id: u8,
        count: usize,
    },
    /// Begins the transaction. A retried one locks the open bucket first.
    Begin {
        is_retry: bool,
    },
    /// Reads the buckets as of its snapshot, and deletes those that are removed or rewritten.
    Delete(Changes),
    /// Inserts the rewritten buckets.
    Insert(Changes),
    Commit(Changes),
    /// The item is not stored any more.
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Changes {
    removed: Vec<u8>,
    written: Vec<Page>,
}

impl Remove {
    /// Returns the call.
    pub fn new(item: u8) -> Self {
        Self { item, at: At::Find }
    }

    /// Returns whether the call has ended, so that the item is removed.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Returns whether it is in a retried transaction.
    pub fn is_retried(&self) -> bool {
        self.at == At::Begin { is_retry: true }
    }

    /// Returns whether its next command is the commit.
    pub fn commits(&self) -> bool {
        matches!(self.at, At::Commit(_))
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Take { .. })
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self::new(self.item)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match &self.at {
            At::Find => vec!["read trades"],
            At::Take { count: 1, .. } => vec!["delete trades"],
            At::Take { .. } => vec!["update trades"],
            At::Begin { is_retry: false } => vec!["begin: read trades", "then: read trades"],
            At::Begin { is_retry: true } => {
                let lock = ["begin: updateMany trades", "then: updateMany trades"];
                [&lock[..], &["then: read trades"; 2]].concat()
            }
            At::Delete(changes) => vec!["then: deleteMany trades"; usize::from(!changes.removed.is_empty())],
            At::Insert(changes) => vec!["then: insert trades"; usize::from(!changes.written.is_empty())],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, rules: &Rules, buckets: &mut Buckets, me: usize) -> Ran {
        match &mut self.at {
            At::Find => {
                self.at = match buckets.page_of(self.item) {
                    None => At::Ended,
                    Some(page) => {
                        let page = &buckets.pages[page];
                        let (id, count) = (page.id, page.items.len());
                        let is_single = count == 1 && rules.page_size == 1;
                        match !rules.is_full(page) || is_single || rules.form == Form::Manual {
                            true => At::Take { id, count },
                            false => At::Begin { is_retry: false },
                        }
                    }
                }
            }
            At::Take { id, count } => {
                let (id, count) = (*id, *count);
                if buckets.transactions.is_locked(name(id)) {
                    return Ran::Waits;
                }
                let is_taken = self.take(rules, buckets, id, count);
                self.at = match is_taken || rules.form == Form::Manual {
                    true => At::Ended,
                    false => At::Begin { is_retry: false },
                };
            }
            At::Begin { is_retry } => {
                buckets.transactions.begin(me);
                let open = buckets.pages.iter().find(|page| !rules.is_full(page));
                if let Some(open) = open.filter(|_| *is_retry)
                    && !buckets.transactions.write(me, name(open.id))
                {
                    return Ran::Done; // it is retried
                }
                self.at = match self.plan(rules, buckets) {
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
                    false => At::Begin { is_retry: true },
                };
            }
            At::Insert(changes) => {
                let names = changes.written.iter();
                let names = names.fold(0, |names, page| names | names_of(page, rules));
                // An index entry of a removed page belongs to no other writer.
                let is_taken = names & OPEN != 0
                    && buckets
                        .pages
                        .iter()
                        .any(|page| !rules.is_full(page) && !changes.removed.contains(&page.id));
                if is_taken && !buckets.transactions.has_changed(me, OPEN) {
                    // A duplicate key, for which our own loop retries the transaction.
                    buckets.transactions.abort(me);
                    self.at = At::Begin { is_retry: true };
                    return Ran::Done;
                }
                self.at = match buckets.transactions.write(me, names) {
                    true => At::Commit(std::mem::take(changes)),
                    false => At::Begin { is_retry: true },
                };
            }
            At::Commit(changes) => {
                let changes = std::mem::take(changes);
                buckets.pages.retain(|page| !changes.removed.contains(&page.id));
                changes.removed.iter().for_each(|id| buckets.deleted(*id));
                buckets.pages.extend(changes.written);
                buckets.pages.sort_unstable_by_key(|page| page.id);
                buckets.transactions.commit(me);
                self.at = At::Ended;
            }
            At::Ended => {}
        }
        Ran::Done
    }

    /// Removes it from a bucket that is still as it was read. The manual's `$pull` has no such condition.
    fn take(&self, rules: &Rules, buckets: &mut Buckets, id: u8, count: usize) -> bool {
        let Some(at) = buckets.pages.iter().position(|page| page.id == id) else {
            return false;
        };
        let is_full = rules.is_full(&buckets.pages[at]);
        let page = &mut buckets.pages[at];
        let has = page.items.contains(&self.item);
        let open = match rules.form {
            Form::Manual => true,
            Form::Ours if count == 1 => page.items.len() == 1,
            Form::Ours => page.items.len() > 1 && !is_full,
        };
        if !has || !open {
            return false;
        }
        page.items.retain(|item| *item != self.item);
        if page.items.is_empty() && rules.form == Form::Ours {
            buckets.pages.remove(at);
            buckets.deleted(id);
        }
        buckets.transactions.wrote(name(id));
        true
    }

    /// Returns the changes of the pages from the item's on, or from the open page if that precedes it.
    fn plan(&self, rules: &Rules, buckets: &Buckets) -> Option<Changes> {
        let of_item = buckets.page_of(self.item)?;
        let open = buckets.pages.iter().position(|page| !rules.is_full(page));
        let chain = &buckets.pages[open.unwrap_or(of_item).min(of_item)..];
        let items = chain
            .iter()
            .flat_map(|page| page.items.iter().map(|item| (*item, page.id)));
        let items: Vec<(u8, u8)> = items.filter(|(item, _)| *item != self.item).collect();
        let mut pages: Vec<Page> = Vec::new();
        for items in items.chunks(rules.page_size) {
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
    use super::super::append::Append;
    use super::super::{Bucket, Client};
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
            rules: Rules {
                form,
                page_size: 2,
                item_ids: form == Form::Ours,
            },
            starts,
        }
    }

    #[test]
    fn a_removal_shifts_later_pages_of_two_and_loses_nothing() {
        explore(bucket(Form::Ours)).assert_holds(1000);
    }

    #[test]
    fn a_removal_shifts_later_pages_of_three_and_loses_nothing() {
        let open = Buckets::of(&[(0, &[0, 1, 2]), (1, &[3, 10])]);
        let explored = explore(Bucket {
            rules: Rules {
                page_size: 3,
                ..bucket(Form::Ours).rules
            },
            starts: vec![
                (open.clone(), vec![remove(0), append(&[4]), append(&[5])]),
                (open.clone(), vec![remove(3), remove(10), append(&[4])]),
                (open, vec![remove(1), remove(10), append(&[4, 5])]),
            ],
        });
        explored.assert_holds(1000);
    }

    #[test]
    fn the_manuals_pull_leaves_several_open_buckets() {
        explore(bucket(Form::Manual)).assert_refuted(&["a key has at most one open bucket"]);
    }
}
