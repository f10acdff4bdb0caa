//! `delete`.
//!
//! Mirrors `crates/outlier/src/write/delete.rs`: a typical document in one command, and an outlier in a transaction.

use super::documents::{Documents, Form, MAIN, entries, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Deletes the main document if it has no flag. With `Form::DeleteApart`, also if it has one.
    Typical,
    /// Begins a transaction, and deletes the overflow documents.
    Begin,
    /// Deletes the main document.
    Main,
    Commit,
    /// With `Form::DeleteApart`: deletes the overflow documents by a command of its own.
    Apart,
    Ended,
}

impl Delete {
    /// Returns the call. One of a process that knows an outlier begins with the transaction.
    pub fn new(is_known: bool) -> Self {
        Self {
            at: match is_known {
                true => At::Begin,
                false => At::Typical,
            },
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Typical | At::Apart)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Typical => vec!["delete sales"],
            At::Begin => vec!["begin: deleteMany extra_sales"],
            At::Main => vec!["then: delete sales"],
            At::Commit => vec!["then: commitTransaction"],
            At::Apart | At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, form: Form, unique: bool, documents: &mut Documents, me: usize) -> Ran {
        let of_extras = || {
            documents.extras.iter().fold(0, |names, extra| {
                names | position_bit(extra.seq) | entries(unique, &extra.elements)
            })
        };
        self.at = match self.at {
            At::Typical if form != Form::DeleteApart && documents.flag => At::Begin,
            At::Typical => {
                if documents.transactions.is_locked(MAIN) {
                    return Ran::Waits;
                }
                let was_flagged = documents.flag || !documents.exists;
                if documents.exists {
                    delete_main(documents);
                    documents.transactions.wrote(MAIN);
                }
                match (was_flagged, form) {
                    (false, _) => At::Ended,
                    (true, Form::DeleteApart) => At::Apart,
                    (true, _) => At::Begin,
                }
            }
            At::Begin => {
                let names = of_extras();
                documents.transactions.begin(me);
                match documents.transactions.write(me, names) {
                    true => At::Main,
                    false => At::Begin,
                }
            }
            At::Main => match documents.transactions.write(me, MAIN) {
                true => At::Commit,
                false => At::Begin,
            },
            At::Commit => {
                delete_main(documents);
                documents.extras.clear();
                documents.transactions.commit(me);
                At::Ended
            }
            At::Apart => {
                let names = of_extras();
                if documents.transactions.is_locked(names) {
                    return Ran::Waits;
                }
                documents.extras.clear();
                documents.transactions.wrote(names);
                At::Ended
            }
            At::Ended => At::Ended,
        };
        Ran::Done
    }
}

fn delete_main(documents: &mut Documents) {
    documents.exists = false;
    documents.flag = false;
    documents.inline.clear();
}
