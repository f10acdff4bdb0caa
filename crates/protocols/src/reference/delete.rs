//! `delete_source`, which refuses to delete a source with references.
//!
//! Mirrors `crates/reference/src/write`. A deletion marks the source with a token, looks for a reference, and deletes the
//! source if it still has the mark. A reference that is stored before the mark is found. One that is stored later belongs
//! to a call that reads the source again, and removes the mark, or finds no source. A call without a transaction can take
//! over the mark of another deletion, which then starts again.
//!
//! Through another repository, a transaction removes the mark, if the source has it, and deletes and keeps the source.

use super::documents::{Documents, Ended, Form, Mode, source_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    /// Whether it runs in a transaction.
    pub mode: Mode,
    /// The source.
    pub source: u8,
    /// The token of its mark. An application that repeats the call has a new one. The attempts of one call share it here:
    /// none of their earlier commands can still run.
    token: u8,
    at: At,
    /// Whether another repository deletes the source, and keeps it.
    is_through: bool,
    pub(super) has_restarted: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Marks the source.
    Mark,
    /// Looks for a reference.
    Find,
    /// Looks for a reference to a source that does not exist.
    FindLeft,
    /// Removes the mark.
    Release,
    /// Deletes the source, if it has the mark.
    Delete,
    /// Begins a transaction, and removes the mark, if the source has it.
    Unmark,
    /// Transaction: the other repository deletes the source, and keeps it.
    Keep,
    /// Begins a transaction, and looks for a reference in its snapshot.
    Begin,
    /// Transaction: deletes the source.
    DeleteInTransaction,
    Commit,
    Ended(Ended),
}

impl Delete {
    /// Returns the call of a client.
    pub fn new(form: Form, mode: Mode, client: u8, source: u8) -> Self {
        Self {
            mode,
            source,
            token: client,
            at: first(form, mode),
            is_through: false,
            has_restarted: false,
        }
    }

    /// Returns the call of a client, through another repository.
    pub fn through(form: Form, client: u8, source: u8) -> Self {
        Self {
            is_through: true,
            ..Self::new(form, Mode::Single, client, source)
        }
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self, form: Form) -> Self {
        Self {
            is_through: self.is_through,
            ..Self::new(form, self.mode, self.token + 3, self.source)
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
        matches!(self.at, At::Mark | At::Release | At::Delete)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Mark | At::Release => vec!["update customers"],
            At::Find | At::FindLeft => vec!["read orders"],
            At::Unmark => vec!["begin: update customers"],
            At::Keep => vec!["then: delete customers", "then: insert deleted_customers"],
            At::Delete => vec!["delete customers"],
            At::Begin => vec!["begin: read customers", "then: read orders"],
            At::DeleteInTransaction => vec!["then: delete customers"],
            At::Commit => vec!["then: commitTransaction"],
            At::Ended(_) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, form: Form, documents: &mut Documents, me: usize) -> Ran {
        let name = source_bit(self.source);
        if self.writes() && documents.transactions.is_locked(name) {
            return Ran::Waits;
        }
        let is_referenced = documents.references(self.source).next().is_some();
        let is_mine = form == Form::NoMark || self.is_marked(documents);
        self.at = match self.at {
            At::Mark => match documents.source_mut(self.source) {
                Some(source) => {
                    source.mark = Some(self.token);
                    documents.transactions.wrote(name);
                    At::Find
                }
                None => At::FindLeft,
            },
            At::FindLeft => At::Ended(left(is_referenced)),
            At::Find if is_referenced && form == Form::NoMark => At::Ended(Ended::Referenced),
            At::Find if is_referenced => At::Release,
            At::Find if self.is_through => At::Unmark,
            At::Find => At::Delete,
            At::Release => {
                if let Some(source) = documents.source_mut(self.source).filter(|_| is_mine) {
                    source.mark = None;
                    documents.transactions.wrote(name);
                }
                At::Ended(Ended::Referenced)
            }
            At::Delete if is_mine => {
                documents.sources[usize::from(self.source)] = None;
                documents.transactions.wrote(name);
                At::Ended(Ended::Done)
            }
            At::Delete => {
                self.has_restarted = true;
                first(form, self.mode)
            }
            At::Unmark => {
                documents.transactions.begin(me);
                if !is_mine {
                    documents.transactions.abort(me);
                    self.has_restarted = true;
                    first(form, self.mode)
                } else if documents.transactions.write(me, name) {
                    At::Keep
                } else {
                    At::Unmark
                }
            }
            At::Keep => At::Commit,
            At::Begin => {
                documents.transactions.begin(me);
                if documents.source(self.source).is_none() {
                    documents.transactions.abort(me);
                    At::Ended(left(is_referenced))
                } else if is_referenced {
                    documents.transactions.abort(me);
                    At::Ended(Ended::Referenced)
                } else {
                    At::DeleteInTransaction
                }
            }
            At::DeleteInTransaction => match documents.transactions.write(me, name) {
                true => At::Commit,
                false => At::Begin,
            },
            At::Commit => {
                documents.sources[usize::from(self.source)] = None;
                documents.kept += u8::from(self.is_through);
                documents.transactions.commit(me);
                At::Ended(Ended::Done)
            }
            at @ At::Ended(_) => at,
        };
        Ran::Done
    }

    fn is_marked(&self, documents: &Documents) -> bool {
        let source = documents.source(self.source);
        source.is_some_and(|source| source.mark == Some(self.token))
    }
}

/// Returns the outcome for a source that does not exist.
fn left(is_referenced: bool) -> Ended {
    match is_referenced {
        true => Ended::Referenced,
        false => Ended::NotFound,
    }
}

fn first(form: Form, mode: Mode) -> At {
    match mode {
        _ if form == Form::NoMark => At::Find,
        Mode::Single => At::Mark,
        Mode::Transaction => At::Begin,
    }
}
