//! `delete_before` and `keep_last`.
//!
//! Mirrors `crates/history/src/write/delete_old.rs`: the number of the newest copy, or of the one that was valid at a time, then one command that deletes older ones,
//! which the server runs document by document.

use super::documents::{Documents, copy_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeleteOld {
    /// How many revisions it keeps.
    keep: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Reads the number of the newest copy.
    Newest,
    /// Deletes the next copy below this number. The flag is set when the command has begun.
    Delete(u8, bool),
    Ended,
}

impl DeleteOld {
    /// Returns the call.
    pub fn new(keep: u8) -> Self {
        Self { keep, at: At::Newest }
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self::new(self.keep)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Delete(..))
    }

    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Delete(_, true))
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Newest => vec!["read policyRevisions"],
            At::Delete(..) => vec!["deleteMany policyRevisions"],
            At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, documents: &mut Documents) -> Ran {
        match self.at {
            At::Newest => {
                let newest = documents.newest_copy().map_or(0, |copy| copy.revision);
                let first = (newest + 1).saturating_sub(self.keep);
                self.at = At::Delete(first, false);
            }
            At::Delete(first, _) => {
                documents.deleted_to = documents.deleted_to.max(first.saturating_sub(1));
                let next = documents.copies.iter().position(|copy| copy.revision < first);
                let Some(next) = next else {
                    self.at = At::Ended;
                    return Ran::Done;
                };
                let name = copy_bit(documents.copies[next].revision);
                if documents.transactions.is_locked(name) {
                    return Ran::Waits;
                }
                documents.copies.remove(next);
                documents.transactions.wrote(name);
                self.at = At::Delete(first, true);
            }
            At::Ended => {}
        }
        Ran::Done
    }
}
