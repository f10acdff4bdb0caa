//! `remove`.
//!
//! Mirrors `crates/outlier/src/action/remove.rs`: the array, then the extras where there is a flag, and where neither had
//! it a look at one moment, since a rebalance may have moved it from behind to before.

use super::{Documents, MAIN, place};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remove {
    /// The element.
    pub element: u8,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// From the array.
    Main,
    /// From the extras; whether the array had it.
    Extras(bool),
    /// A snapshot: whether it is anywhere.
    IsThere,
    Ended,
}

impl Remove {
    /// The call.
    pub fn new(element: u8) -> Self {
        Self { element, at: At::Main }
    }

    /// Whether it has ended, so that the element is gone.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Main | At::Extras(_))
    }

    pub(super) fn run(&mut self, documents: &mut Documents) -> Ran {
        match self.at {
            At::Main => {
                let has = documents.inline.contains(&self.element);
                if has {
                    if documents.transactions.is_held(MAIN) {
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
                let names = having.fold(0, |names, extra| names | place(extra.seq));
                if documents.transactions.is_held(names) {
                    return Ran::Waits;
                }
                documents.transactions.wrote(names);
                for extra in &mut documents.extras {
                    extra.elements.retain(|element| *element != self.element);
                }
                self.at = match was_inline || names != 0 {
                    true => At::Ended,
                    false => At::IsThere,
                };
            }
            At::IsThere => {
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
