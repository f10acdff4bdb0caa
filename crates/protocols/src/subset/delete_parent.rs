//! `delete_parent`, without a transaction: the parent, then its children.
//!
//! Mirrors `delete` of `crates/subset/src/action/delete_parent.rs`. The server deletes many documents one after the other, in
//! the order of an index; what is inserted behind that place meanwhile stays.

use super::{Documents, PARENT, name};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteParent {
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
                self.at = next.map_or(At::Ended, |(id, _)| At::Child(*id));
            }
            At::Child(id) => {
                if documents.transactions.is_held(name(id)) {
                    return Ran::Waits;
                }
                documents.children.retain(|(child, _)| *child != id);
                documents.transactions.wrote(name(id));
                self.at = At::Find(id, true);
            }
            At::Ended => {}
        }
        Ran::Done
    }
}
