//! `insert` and `set_reference`.
//!
//! Mirrors `crates/reference/src/write`. A call reads the source, writes the order with a copy of it, and reads the source
//! again. A rename in between may have swept before the order was there, and a deletion may have found no reference. The
//! second read finds either: it refreshes the copy, removes the mark of the deletion, or withdraws the reference. Only one
//! refresh is needed, because the sweep of a later rename begins after the order was written.
//!
//! A document that `migrate_from_references` gives its copy is inserted, for this protocol: before, neither a sweep nor a
//! deletion finds it. Its second read marks a copy whose source was deleted, where an insert withdraws the document.
//!
//! In a transaction, the call first locks the source, and removes the mark of a deletion.

use super::documents::{Copied, Documents, Ended, Form, Mode, order_bit, source_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Whether it runs in a transaction.
    pub mode: Mode,
    /// Whether it inserts the order, or sets the reference of an existing one.
    pub is_insert: bool,
    /// The order that it writes.
    pub order: u8,
    /// The source that it refers to.
    pub source: u8,
    at: At,
    pub(super) has_refreshed: bool,
    pub(super) has_withdrawn: bool,
    pub(super) has_unmarked: bool,
    pub(super) has_conflicted: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Reads the source.
    Read,
    /// Writes the order with a copy of this version.
    Write(u8),
    /// Reads the source again, after a copy of this version was written.
    ReadAgain(u8),
    /// Removes a mark. A copy of the first version is stored, and the source is at the second one.
    Unmark(u8, u8, u8),
    /// Updates the copy to this version.
    Refresh(u8),
    /// Deletes the order, or unsets its reference.
    Withdraw,
    /// Begins a transaction, locks the source, and reads it.
    Begin,
    /// Transaction: writes the order with a copy of this version.
    WriteInTransaction(u8),
    Commit(u8),
    Ended(Ended),
}

impl Link {
    /// Returns an insert of an order.
    pub fn insert(mode: Mode, order: u8, source: u8) -> Self {
        Self::new(mode, true, order, source)
    }

    /// Returns a `set_reference` of an order.
    pub fn set(mode: Mode, order: u8, source: u8) -> Self {
        Self::new(mode, false, order, source)
    }

    fn new(mode: Mode, is_insert: bool, order: u8, source: u8) -> Self {
        Self {
            mode,
            is_insert,
            order,
            source,
            at: first(mode),
            has_refreshed: false,
            has_withdrawn: false,
            has_unmarked: false,
            has_conflicted: false,
        }
    }

    /// Returns the call after an unknown outcome: the application reads the documents.
    pub(super) fn unknown(&self) -> Self {
        Self {
            at: At::Ended(Ended::Unknown),
            ..self.clone()
        }
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether the next command writes outside of a transaction.
    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Write(_) | At::Unmark(..) | At::Refresh(_) | At::Withdraw)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Read | At::ReadAgain(_) => vec!["read customers"],
            At::Write(_) if self.is_insert => vec!["insert orders"],
            At::Write(_) | At::Refresh(_) => vec!["update orders"],
            At::Unmark(..) => vec!["update customers"],
            At::Withdraw if self.is_insert => vec!["delete orders"],
            At::Withdraw => vec!["update orders"],
            // Sets a field and removes it, which locks the source.
            At::Begin => vec!["begin: updateMany customers", "then: read customers"],
            At::WriteInTransaction(_) if self.is_insert => vec!["then: insert orders"],
            At::WriteInTransaction(_) => vec!["then: update orders"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Ended(_) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, form: Form, documents: &mut Documents, me: usize) -> Ran {
        let next = match self.at {
            At::Begin | At::WriteInTransaction(_) | At::Commit(_) => Some(self.in_transaction(form, documents, me)),
            _ => self.single(form, documents),
        };
        let Some(next) = next else { return Ran::Waits };
        self.at = next;
        Ran::Done
    }

    fn copied(&self, version: u8) -> Option<Copied> {
        Some(Copied {
            source: self.source,
            version,
        })
    }

    /// Returns whether the order refers to the source.
    fn is_linked(&self, documents: &Documents) -> bool {
        let reference = documents.reference(self.order);
        reference.is_some_and(|copied| copied.source == self.source)
    }

    /// Runs a single command. `None` if it waits for a transaction.
    fn single(&mut self, form: Form, documents: &mut Documents) -> Option<At> {
        let source = documents.source(self.source);
        if self.writes() {
            let written = match self.at {
                At::Unmark(..) => source_bit(self.source),
                _ => order_bit(self.order),
            };
            if documents.transactions.is_locked(written) {
                return None;
            }
        }
        Some(match self.at {
            At::Read => match source {
                Some(source) => At::Write(source.version),
                None => At::Ended(Ended::NotFound),
            },
            At::Write(_) if !self.is_insert && !documents.orders.contains_key(&self.order) => {
                At::Ended(Ended::NotFound)
            }
            At::Write(version) => {
                let stored = documents.reference(self.order);
                let is_newer = |stored: Copied| stored.source == self.source && stored.version > version;
                if !matches!(form, Form::Manual | Form::UnguardedSet) && stored.is_some_and(is_newer) {
                    return Some(At::Read);
                }
                documents.set(self.order, self.copied(version));
                match form {
                    Form::Manual | Form::NoSecondRead => At::Ended(Ended::Done),
                    _ => At::ReadAgain(version),
                }
            }
            At::ReadAgain(stored) => match source {
                None => At::Withdraw,
                Some(source) => match source.mark {
                    Some(mark) => At::Unmark(mark, stored, source.version),
                    None => after(stored, source.version),
                },
            },
            At::Unmark(mark, stored, version) => {
                let marked = documents
                    .source_mut(self.source)
                    .filter(|source| source.mark == Some(mark));
                let Some(marked) = marked else {
                    return Some(At::ReadAgain(stored));
                };
                marked.mark = None;
                documents.transactions.wrote(source_bit(self.source));
                self.has_unmarked = true;
                after(stored, version)
            }
            At::Refresh(version) => {
                let stored = documents.reference(self.order);
                if stored.is_some_and(|stored| stored.source == self.source && stored.version < version) {
                    documents.set(self.order, self.copied(version));
                    self.has_refreshed = true;
                }
                At::Ended(Ended::Done)
            }
            // Another writer has replaced the reference.
            At::Withdraw if !self.is_linked(documents) => At::Ended(Ended::Done),
            At::Withdraw => {
                self.has_withdrawn = true;
                documents.set(self.order, None);
                if self.is_insert {
                    documents.orders.remove(&self.order);
                }
                At::Ended(Ended::NotFound)
            }
            at => at,
        })
    }

    fn in_transaction(&mut self, form: Form, documents: &mut Documents, me: usize) -> At {
        match self.at {
            At::Begin => {
                documents.transactions.begin(me);
                let source = documents.source(self.source);
                let is_locked = form == Form::Manual
                    || source.is_none()
                    || documents.transactions.write(me, source_bit(self.source));
                match source {
                    _ if !is_locked => self.conflict(),
                    Some(source) if self.is_insert || documents.orders.contains_key(&self.order) => {
                        At::WriteInTransaction(source.version)
                    }
                    _ => {
                        documents.transactions.abort(me);
                        At::Ended(Ended::NotFound)
                    }
                }
            }
            At::WriteInTransaction(version) => match documents.transactions.write(me, order_bit(self.order)) {
                true => At::Commit(version),
                false => self.conflict(),
            },
            At::Commit(version) => {
                if let Some(source) = documents.source_mut(self.source)
                    && !matches!(form, Form::Manual | Form::MarkKept)
                {
                    source.mark = None;
                }
                documents.set(self.order, self.copied(version));
                documents.transactions.commit(me);
                At::Ended(Ended::Done)
            }
            at => at,
        }
    }

    fn conflict(&mut self) -> At {
        self.has_conflicted = true;
        first(self.mode)
    }
}

fn first(mode: Mode) -> At {
    match mode {
        Mode::Single => At::Read,
        Mode::Transaction => At::Begin,
    }
}

/// Returns the command after a second read.
fn after(stored: u8, version: u8) -> At {
    match version > stored {
        true => At::Refresh(version),
        false => At::Ended(Ended::Done),
    }
}
