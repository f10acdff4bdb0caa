//! `delete_key`.
//!
//! Mirrors `delete` and `has_buckets` of `crates/bucket/src/write/delete.rs`. A `deleteMany` is many steps of the
//! server: one bucket after the other, in the order of their ids. It waits for a transaction that has written a bucket.
//! When that transaction has deleted the bucket and inserted one with the same id, the server continues after this id,
//! and so skips the new bucket.

use stateright::Property;

use super::{Bucket, Buckets, Client, Moment, appends, deletions, is_first, name, names_of};
use crate::world::{Ran, World};

/// When a deletion ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passes {
    /// When a read finds no bucket: this project's.
    UntilNoneIsLeft,
    /// When a `deleteMany` has matched nothing.
    UntilNoneIsDeleted,
    /// After one `deleteMany`.
    One,
}

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    passes: Passes,
    /// The items that were stored when it was called.
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
    Held(u8),
    /// Reads whether there is a bucket.
    Read,
    Ended,
}

impl Delete {
    /// The call.
    pub fn new(passes: Passes) -> Self {
        Self {
            passes,
            before: Vec::new(),
            found: false,
            in_pass: false,
            skipped: false,
            at: At::Begin,
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Whether it has skipped a bucket.
    pub fn has_skipped(&self) -> bool {
        self.skipped
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Begin | At::Next(_) | At::Held(_))
    }

    /// Whether some buckets are deleted, and the server has not come to the others.
    pub(super) fn is_within(&self) -> bool {
        matches!(self.at, At::Next(Some(_)) | At::Held(_))
    }

    /// Called again after an unknown outcome.
    pub(super) fn again(&self) -> Self {
        Self::new(self.passes)
    }

    pub(super) fn run(&mut self, page_size: usize, buckets: &mut Buckets) -> Ran {
        match self.at {
            At::Begin => {
                self.before = buckets.pages.iter().flat_map(|page| &page.items).copied().collect();
                self.at = At::Next(None);
                return self.run(page_size, buckets);
            }
            At::Next(last) => {
                let next = buckets.pages.iter().map(|page| page.id);
                let next = next.filter(|id| last.is_none_or(|last| *id > last)).min();
                self.at = match next {
                    None => self.pass_ends(),
                    Some(id) if buckets.transactions.is_held(name(id)) => {
                        buckets.watched |= name(id);
                        At::Held(id)
                    }
                    Some(id) => self.delete(page_size, buckets, id),
                };
            }
            At::Held(id) => {
                if buckets.transactions.is_held(name(id)) {
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
                    false => self.delete(page_size, buckets, id),
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

    fn delete(&mut self, page_size: usize, buckets: &mut Buckets, id: u8) -> At {
        if let Some(at) = buckets.pages.iter().position(|page| page.id == id) {
            let page = buckets.pages.remove(at);
            buckets.is_gone(id);
            buckets.transactions.wrote(names_of(&page, page_size));
            self.found = true;
            self.in_pass = true;
        }
        At::Next(Some(id))
    }

    fn pass_ends(&mut self) -> At {
        let in_pass = std::mem::take(&mut self.in_pass);
        match self.passes {
            Passes::UntilNoneIsLeft => At::Read,
            Passes::UntilNoneIsDeleted if in_pass => At::Next(None),
            Passes::UntilNoneIsDeleted | Passes::One => At::Ended,
        }
    }
}

/// What must hold of a deletion, and what must be seen.
pub(super) fn properties() -> Vec<Property<World<Bucket>>> {
    vec![
        Property::always(
            "what was there when a deletion began is gone when it ends",
            |world, state: &Moment| {
                // An item that several calls append may be stored after it was deleted.
                let counts = |item: &&u8| {
                    let calls = appends(state).filter(|call| call.items.contains(item)).count();
                    is_first(**item) || calls == 1 && state.is_without_faults(world.faults)
                };
                let mut ended = deletions(state).filter(|call| call.has_ended());
                ended.all(|call| {
                    let mut before = call.before.iter().filter(counts);
                    before.all(|item| state.documents.count(*item) == 0)
                })
            },
        ),
        Property::always("a deletion that finds nothing leaves nothing", |_, state: &Moment| {
            let mut ended = deletions(state).filter(|call| call.has_ended() && !call.found);
            ended.all(|call| {
                call.before
                    .iter()
                    .all(|item| state.documents.count(*item) == 0 || !is_first(*item))
            })
        }),
        Property::sometimes("a deletion skips a bucket", |world, state: &Moment| {
            let has_both = world.protocol.has_deletions() && world.protocol.has_removals();
            !has_both || deletions(state).any(Delete::has_skipped)
        }),
        Property::sometimes("a client dies in the middle of a deletion", |world, state: &Moment| {
            let mut clients = state.clients.iter().enumerate();
            !world.protocol.has_deletions()
                || clients.any(|(at, client)| {
                    state.is_dead(at) && matches!(client, Client::Delete(call) if call.found && !call.has_ended())
                })
        }),
        Property::sometimes("an item is stored while its key is deleted", |world, state: &Moment| {
            !world.protocol.has_deletions()
                || deletions(state).any(|call| {
                    let is_new = |item: &u8| !call.before.contains(item);
                    call.found
                        && call.has_ended()
                        && state.documents.pages.iter().any(|page| page.items.iter().any(is_new))
                })
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::super::append::Append;
    use super::super::remove::Remove;
    use super::*;
    use crate::check::{explore, is_long};

    fn append(items: &[u8]) -> Client {
        Client::Append(Append::new(items))
    }

    fn remove(item: u8) -> Client {
        Client::Remove(Remove::new(item))
    }

    /// Next to appends and batches, and next to removals, whose transactions move items to other buckets.
    fn bucket(passes: Passes, item_ids: bool) -> Bucket {
        let delete = || Client::Delete(Delete::new(passes));
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
            form: Form::Ours,
            page_size: 2,
            item_ids,
            starts,
        }
    }

    #[test]
    fn what_is_stored_when_a_deletion_begins_is_gone_when_it_ends() {
        explore(bucket(Passes::UntilNoneIsLeft, false)).assert_right(1000);
    }

    #[test]
    fn items_that_another_process_moves_are_gone_too() {
        explore(bucket(Passes::UntilNoneIsLeft, true)).assert_right(1000);
    }

    #[test]
    fn one_pass_skips_a_bucket_that_is_written_again() {
        explore(bucket(Passes::One, true)).assert_wrong(&[GONE, FOUND]);
    }

    /// Where all that is left is skipped, nothing is deleted.
    #[test]
    fn so_do_passes_until_one_deletes_nothing() {
        explore(bucket(Passes::UntilNoneIsDeleted, true)).assert_wrong(&[GONE, FOUND]);
    }

    const GONE: &str = "what was there when a deletion began is gone when it ends";
    const FOUND: &str = "a deletion that finds nothing leaves nothing";
}
