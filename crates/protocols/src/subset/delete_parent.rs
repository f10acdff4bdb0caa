//! `delete_parent`, without a transaction: the parent, then its children.
//!
//! Mirrors `delete` of `crates/subset/src/write/delete_parent.rs`. The server deletes many documents one after the other, in
//! the order of an index; what is inserted behind that place meanwhile stays. So it deletes until there are none.

use super::{Documents, PARENT, name};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteParent {
    /// Whether it deletes the children only once: the naive form.
    is_naive: bool,
    /// Whether it has deleted some since it began to look for them.
    has_deleted: bool,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// Deletes the parent.
    #[default]
    Parent,
    /// Finds the next child from an id on; whether it has begun.
    Find(u8, bool),
    /// Deletes the child that was found.
    Child(u8),
    Ended,
}

impl DeleteParent {
    /// The form that deletes the children only once.
    pub fn naive() -> Self {
        Self {
            is_naive: true,
            ..Self::default()
        }
    }

    /// Called again after an unknown outcome.
    pub(super) fn again(&self) -> Self {
        Self {
            is_naive: self.is_naive,
            ..Self::default()
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn is_within(&self) -> bool {
        matches!(self.at, At::Find(_, true) | At::Child(_))
    }

    pub(super) fn run(&mut self, documents: &mut Documents) -> Ran {
        match self.at {
            At::Parent => {
                if documents.transactions.is_held(PARENT) {
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
                if documents.transactions.is_held(name(id)) {
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
