//! `update_element`.
//!
//! Mirrors `crates/outlier/src/write/update.rs`: the array, then the flag, then the overflow documents. If none of them had
//! the element, it reads both from one snapshot, because a concurrent refresh can have moved it. An update adds 1 to the
//! version of an element, which is its number by `ELEMENTS`.

use super::documents::{Documents, ELEMENTS, Form, IS_STORED, MAIN, is_same, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Update {
    /// The element.
    pub element: u8,
    at: At,
    /// Whether it was at the main document again.
    again: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Updates it in the array.
    Main,
    /// Reads the flag, and whether the array has it by now.
    Read,
    /// Updates it in the first overflow document that has it.
    Extras,
    /// Reads from a snapshot whether it is stored anywhere.
    IsStored,
    Ended(Outcome),
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has updated the element.
    Updated,
    /// It has found no element.
    NotFound,
    /// It may have updated the element.
    Unknown,
}

/// Updates the first version of the element. Returns whether there is one.
fn update(elements: &mut [u8], element: u8) -> bool {
    let stored = elements.iter_mut().find(|stored| is_same(**stored, element));
    stored.map(|stored| *stored += ELEMENTS).is_some()
}

impl Update {
    /// Returns the call.
    pub fn new(element: u8) -> Self {
        Self {
            element,
            at: At::Main,
            again: false,
        }
    }

    /// Returns the call after its outcome is unknown: it is not repeated.
    pub(super) fn unknown(&self) -> Self {
        Self {
            at: At::Ended(Outcome::Unknown),
            ..self.clone()
        }
    }

    /// Returns the result of the call.
    pub fn ended(&self) -> Option<Outcome> {
        match self.at {
            At::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    pub(super) fn was_again(&self) -> bool {
        self.again
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Main | At::Extras)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Main => vec!["update sales"],
            At::Read => vec!["read sales"],
            At::Extras => vec!["update extra_sales"],
            At::IsStored => IS_STORED.to_vec(),
            At::Ended(_) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, form: Form, documents: &mut Documents) -> Ran {
        let element = self.element;
        let has = |elements: &[u8]| elements.iter().any(|stored| is_same(*stored, element));
        self.at = match self.at {
            At::Main if has(&documents.inline) => {
                if documents.transactions.is_locked(MAIN) {
                    return Ran::Waits;
                }
                update(&mut documents.inline, element);
                documents.transactions.wrote(MAIN);
                At::Ended(Outcome::Updated)
            }
            At::Main => At::Read,
            At::Read if documents.exists && has(&documents.inline) => self.retry(),
            At::Read if documents.exists && documents.flag => At::Extras,
            At::Read => At::Ended(Outcome::NotFound),
            At::Extras => match documents.extras.iter_mut().find(|extra| has(&extra.elements)) {
                Some(extra) => {
                    let name = position_bit(extra.seq);
                    if documents.transactions.is_locked(name) {
                        return Ran::Waits;
                    }
                    update(&mut extra.elements, element);
                    documents.transactions.wrote(name);
                    At::Ended(Outcome::Updated)
                }
                None if form == Form::NoSnapshot => At::Ended(Outcome::NotFound),
                None => At::IsStored,
            },
            At::IsStored if documents.count(element) > 0 => self.retry(),
            At::IsStored => At::Ended(Outcome::NotFound),
            At::Ended(outcome) => At::Ended(outcome),
        };
        Ran::Done
    }

    fn retry(&mut self) -> At {
        self.again = true;
        At::Main
    }
}
