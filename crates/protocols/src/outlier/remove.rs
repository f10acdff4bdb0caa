//! `remove`.
//!
//! Mirrors `crates/outlier/src/write/remove.rs`: the array, then the overflow documents if the flag is set. If neither
//! had the element, it reads both from one snapshot, because a concurrent refresh can have migrated it from the
//! overflow documents to the array.

use super::documents::{Documents, IS_STORED, MAIN, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remove {
    /// The element.
    pub element: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Removes it from the array.
    Main,
    /// Removes it from the overflow documents. The flag is set if the array had it.
    Extras(bool),
    /// Reads from a snapshot whether it is stored anywhere.
    IsStored,
    Ended,
}

impl Remove {
    /// Returns the call.
    pub fn new(element: u8) -> Self {
        Self { element, at: At::Main }
    }

    /// Returns whether the call has ended, so that the element is removed.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Main | At::Extras(_))
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Main => vec!["update sales"],
            At::Extras(_) => vec!["updateMany extra_sales"],
            At::IsStored => IS_STORED.to_vec(),
            At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, documents: &mut Documents) -> Ran {
        match self.at {
            At::Main => {
                let has = documents.inline.contains(&self.element);
                if has {
                    if documents.transactions.is_locked(MAIN) {
                        return Ran::Waits;
                    }
                    documents.inline.retain(|element| *element != self.element);
                    documents.transactions.wrote(MAIN);
                }
                self.at = match documents.flag {
                    true => At::Extras(has),
                    false => At::Ended,
                };
            }
            At::Extras(was_inline) => {
                let having = documents
                    .extras
                    .iter()
                    .filter(|extra| extra.elements.contains(&self.element));
                let names = having.fold(0, |names, extra| names | position_bit(extra.seq));
                if documents.transactions.is_locked(names) {
                    return Ran::Waits;
                }
                documents.transactions.wrote(names);
                for extra in &mut documents.extras {
                    extra.elements.retain(|element| *element != self.element);
                }
                self.at = match was_inline || names != 0 {
                    true => At::Ended,
                    false => At::IsStored,
                };
            }
            At::IsStored => {
                self.at = match documents.count(self.element) > 0 {
                    true => At::Main,
                    false => At::Ended,
                };
            }
            At::Ended => {}
        }
        Ran::Done
    }
}
