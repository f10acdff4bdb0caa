//! `delete_parent`, without a transaction: the parent, then its children.
//!
//! Mirrors `crates/subset/src/write/delete_parent.rs`. The server deletes many documents one after the other, in the
//! order of an index. A concurrent insert behind the index position that it has passed stays. So the call repeats
//! `deleteMany` until it matches nothing.

use super::{Documents, PARENT, name};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteParent {
    /// Whether it deletes the children only once: the naive form.
    is_naive: bool,
    /// Whether this pass has deleted a child.
    has_deleted: bool,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// Deletes the parent.
    #[default]
    Parent,
    /// Finds the next child from an id on. The flag is set when the pass has begun.
    Find(u8, bool),
    /// Deletes the child that was found.
    Child(u8),
    Ended,
}

impl DeleteParent {
    /// Returns the form that deletes the children only once.
    pub fn naive() -> Self {
        Self {
            is_naive: true,
            ..Self::default()
        }
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self {
            is_naive: self.is_naive,
            ..Self::default()
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Find(_, true) | At::Child(_))
    }

    pub(super) fn run(&mut self, documents: &mut Documents) -> Ran {
        match self.at {
            At::Parent => {
                if documents.transactions.is_locked(PARENT) {
                    return Ran::Waits;
                }
                if documents.parent.take().is_some() {
                    documents.transactions.wrote(PARENT);
                }
                self.at = At::Find(0, false);
            }
            At::Find(from, _) => {
                let next = documents.children.iter().find(|(id, _)| *id >= from);
                self.at = match next {
                    Some((id, _)) => At::Child(*id),
                    None if self.has_deleted && !self.is_naive => {
                        self.has_deleted = false;
                        At::Find(0, false)
                    }
                    None => At::Ended,
                };
            }
            At::Child(id) => {
                if documents.transactions.is_locked(name(id)) {
                    return Ran::Waits;
                }
                if documents.has(id) {
                    documents.children.retain(|(child, _)| *child != id);
                    documents.transactions.wrote(name(id));
                    self.has_deleted = true;
                }
                self.at = At::Find(id, true);
            }
            At::Ended => {}
        }
        Ran::Done
    }
}
