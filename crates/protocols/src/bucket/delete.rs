//! `delete_key`.
//!
//! Mirrors `write/delete.rs` of `crates/bucket/src`. A `deleteMany` is many steps of the server: one bucket after the
//! other, in the order of their ids. It waits for a transaction that has written a bucket. If that transaction has
//! deleted the bucket and inserted one with the same id, the server continues after this id, and skips the new bucket.

use super::documents::{Buckets, Rules, name, names_of};
use crate::world::Ran;

/// The condition under which a deletion ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Until {
    /// A read finds no bucket: this project's form.
    NoneIsLeft,
    /// A `deleteMany` has matched nothing.
    NoneIsDeleted,
    /// After one `deleteMany`.
    FirstPass,
}

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    until: Until,
    /// The items that were stored when the call began.
    pub before: Vec<u8>,
    /// Whether it has deleted a bucket.
    pub found: bool,
    /// Whether this pass has deleted a bucket.
    in_pass: bool,
    /// Whether it has skipped a bucket.
    skipped: bool,
    at: At,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// The next bucket after this id.
    Next(Option<u8>),
    /// A bucket that a transaction has written.
    Locked(u8),
    /// Reads whether a bucket exists.
    Read,
    Ended,
}

impl Delete {
    /// Returns the call.
    pub fn new(until: Until) -> Self {
        Self {
            until,
            before: Vec::new(),
            found: false,
            in_pass: false,
            skipped: false,
            at: At::Begin,
        }
    }

    /// Returns whether the call has ended.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Returns whether it has skipped a bucket.
    pub fn has_skipped(&self) -> bool {
        self.skipped
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Begin | At::Next(_) | At::Locked(_))
    }

    /// Returns whether the server has deleted some buckets, and has not reached the others.
    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Next(Some(_)) | At::Locked(_))
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self::new(self.until)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Begin | At::Next(_) => vec!["deleteMany trades"],
            At::Read => vec!["read trades"],
            At::Locked(_) | At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, rules: &Rules, buckets: &mut Buckets) -> Ran {
        match self.at {
            At::Begin => {
                self.before = buckets.pages.iter().flat_map(|page| &page.items).copied().collect();
                self.at = At::Next(None);
                return self.run(rules, buckets);
            }
            At::Next(last) => {
                let next = buckets.pages.iter().map(|page| page.id);
                let next = next.filter(|id| last.is_none_or(|last| *id > last)).min();
                self.at = match next {
                    None => self.pass_ends(),
                    Some(id) if buckets.transactions.is_locked(name(id)) => {
                        buckets.watched |= name(id);
                        At::Locked(id)
                    }
                    Some(id) => self.delete(rules, buckets, id),
                };
            }
            At::Locked(id) => {
                if buckets.transactions.is_locked(name(id)) {
                    return Ran::Waits;
                }
                let is_replaced = buckets.replaced & name(id) != 0;
                buckets.watched &= !name(id);
                buckets.replaced &= !name(id);
                self.at = match is_replaced {
                    true => {
                        self.skipped |= buckets.pages.iter().any(|page| page.id == id);
                        At::Next(Some(id))
                    }
                    false => self.delete(rules, buckets, id),
                };
            }
            At::Read => {
                self.at = match buckets.pages.is_empty() {
                    true => At::Ended,
                    false => At::Next(None),
                };
            }
            At::Ended => {}
        }
        Ran::Done
    }

    fn delete(&mut self, rules: &Rules, buckets: &mut Buckets, id: u8) -> At {
        if let Some(at) = buckets.pages.iter().position(|page| page.id == id) {
            let page = buckets.pages.remove(at);
            buckets.deleted(id);
            buckets.transactions.wrote(names_of(&page, rules));
            self.found = true;
            self.in_pass = true;
        }
        At::Next(Some(id))
    }

    fn pass_ends(&mut self) -> At {
        let in_pass = std::mem::take(&mut self.in_pass);
        match self.until {
            Until::NoneIsLeft => At::Read,
            Until::NoneIsDeleted if in_pass => At::Next(None),
            Until::NoneIsDeleted | Until::FirstPass => At::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::append::Append;
    use super::super::remove::Remove;
    use super::super::{Bucket, Client, Form};
    use super::*;
    use crate::check::{explore, is_long};

    fn append(items: &[u8]) -> Client {
        Client::Append(Append::new(items))
    }

    fn remove(item: u8) -> Client {
        Client::Remove(Remove::new(item))
    }

    /// Deletions with concurrent appends and batches, and with concurrent removals, whose transactions migrate items to
    /// other buckets.
    fn bucket(until: Until, item_ids: bool) -> Bucket {
        let delete = || Client::Delete(Delete::new(until));
        let (one, full) = (Buckets::of(&[(0, &[0, 1])]), Buckets::of(&[(0, &[0, 1]), (1, &[2, 3])]));
        let open = Buckets::of(&[(0, &[0, 1]), (1, &[2])]);
        let late = Buckets::of(&[(10, &[10, 11]), (11, &[12])]);
        let mut starts = vec![
            (Buckets::default(), vec![delete(), append(&[4]), append(&[5])]),
            (open.clone(), vec![delete(), append(&[4, 5, 6, 7]), append(&[8])]),
            (full.clone(), vec![delete(), append(&[4, 5, 6]), append(&[7])]),
            (late.clone(), vec![delete(), append(&[4, 5, 6]), append(&[17])]),
            (late, vec![delete(), delete(), append(&[4, 5, 6])]),
        ];
        if item_ids {
            if !is_long() {
                starts.clear();
            }
            starts.extend([
                (Buckets::default(), vec![delete(), append(&[4]), append(&[5])]),
                (full.clone(), vec![delete(), append(&[4]), append(&[5, 6])]),
                (one.clone(), vec![delete(), remove(0), append(&[4])]),
                (full.clone(), vec![delete(), remove(2), append(&[4])]),
                (open.clone(), vec![delete(), remove(0), append(&[4])]),
                (one.clone(), vec![delete(), append(&[4]), append(&[4])]),
            ]);
        }
        if item_ids && is_long() {
            starts.extend([
                (one, vec![delete(), append(&[4, 5, 6]), append(&[4])]),
                (full.clone(), vec![delete(), remove(0), remove(3)]),
                (full, vec![delete(), remove(2), append(&[4, 5])]),
                (open, vec![delete(), remove(0), append(&[4, 5, 6])]),
            ]);
        }
        Bucket {
            rules: Rules {
                form: Form::Ours,
                page_size: 2,
                item_ids,
            },
            starts,
        }
    }

    #[test]
    fn a_deletion_deletes_all_items_that_are_stored_when_it_begins() {
        explore(bucket(Until::NoneIsLeft, false)).assert_holds(1000);
    }

    #[test]
    fn a_deletion_deletes_items_that_another_process_migrates_to_other_buckets() {
        explore(bucket(Until::NoneIsLeft, true)).assert_holds(1000);
    }

    #[test]
    fn one_pass_skips_a_bucket_that_is_deleted_and_inserted_again() {
        explore(bucket(Until::FirstPass, true)).assert_refuted(&[DELETED, EMPTY]);
    }

    /// If it skips all remaining buckets, the last pass deletes nothing.
    #[test]
    fn passes_until_one_deletes_nothing_skip_it_too() {
        explore(bucket(Until::NoneIsDeleted, true)).assert_refuted(&[DELETED, EMPTY]);
    }

    const DELETED: &str = "the items at the start of a deletion are deleted when it ends";
    const EMPTY: &str = "a deletion that finds no bucket leaves none";
}
