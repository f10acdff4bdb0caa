//! `delete_parent`: the parent and its children, in one transaction.
//!
//! Mirrors `crates/subset/src/write.rs`. An insert of another client writes the parent too, so one of the two
//! has a write conflict.

use super::documents::{Child, Documents, PARENT, name};

/// A call and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteParent {
    at: At,
}

/// The next command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// Begins, and deletes the parent.
    #[default]
    Begin,
    /// Deletes the children of the snapshot.
    Children(Vec<Child>),
    Commit(Vec<Child>),
    Ended,
}

impl DeleteParent {
    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Begin => vec!["begin: delete product"],
            At::Children(_) => vec!["then: deleteMany review"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, documents: &mut Documents, me: usize) {
        let (next, is_written) = match &self.at {
            At::Begin => {
                documents.transactions.begin(me);
                let is_written = documents.parent.is_none() || documents.transactions.write(me, PARENT);
                (At::Children(documents.children.clone()), is_written)
            }
            At::Children(children) => {
                let names = children.iter().fold(0, |names, (id, _)| names | name(*id));
                let is_written = names == 0 || documents.transactions.write(me, names);
                (At::Commit(children.clone()), is_written)
            }
            At::Commit(children) => {
                documents.parent = None;
                documents.children.retain(|child| !children.contains(child));
                documents.transactions.commit(me);
                (At::Ended, true)
            }
            At::Ended => (At::Ended, true),
        };
        // A write conflict has aborted the transaction.
        self.at = if is_written { next } else { At::Begin };
    }
}
