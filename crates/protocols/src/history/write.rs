//! `insert`, `update`, `upsert`, `delete` and `restore`.
//!
//! Mirrors `crates/history/src/write`: a transaction changes the current document and inserts the copy. An insert reads the
//! number of the newest copy in it. An upsert and a restore insert, in the same transaction, a document that does not exist.

use super::documents::{CURRENT, Documents, Form, Version, copy_bit};
use crate::world::Ran;

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts the document, if it does not exist.
    Insert,
    /// Updates the document, at this revision if there is one.
    Update(Option<u8>),
    /// Replaces the document, or inserts it if it does not exist.
    Upsert,
    /// Deletes the document.
    Delete,
    /// Deletes the document through a trash.
    DeleteThrough,
    /// Writes the content of this revision again.
    Restore(u8),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It has written this revision.
    Done(u8),
    /// The document exists already.
    Exists,
    /// There is no document, or no such revision.
    NotFound,
    /// The document is not at the expected revision.
    Mismatch,
    /// Another copy has the number of the change.
    Corrupt,
    /// The outcome is unknown.
    Unknown,
}

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Its number, which its revision has.
    pub author: u8,
    /// What it changes.
    pub change: Change,
    /// The content that a restore writes.
    content: Option<u8>,
    /// What the trash keeps.
    kept: Option<Version>,
    at: At,
    pub(super) has_conflicted: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Restore: reads the content of the revision.
    ReadRevision,
    /// Reads why no document matched.
    Read,
    /// Begins a transaction, and reads what the trash keeps.
    BeginRead,
    /// Begins a transaction, if there is none, and changes the current document.
    Begin,
    /// Begins a transaction, and reads the number of the newest copy.
    BeginInsert,
    /// Transaction: creates the current document.
    UpsertInTransaction(u8),
    /// Transaction: inserts the copy.
    CopyInTransaction(Version),
    Commit(Version),
    /// The manual's form: updates the document.
    ManualUpdate,
    /// The manual's form: copies it.
    ManualCopy(u8),
    /// The form of the agent skills: finds the document.
    Find,
    /// The form of the agent skills: inserts a copy of what it has found.
    CopyFound(Version),
    /// The form of the agent skills: sets the new fields.
    Set(Version),
    Ended(Ended),
}

impl Write {
    /// Returns the call.
    pub fn new(form: Form, author: u8, change: Change) -> Self {
        let at = match form {
            Form::Manual => At::ManualUpdate,
            Form::FindCopyUpdate => At::Find,
            Form::Ours => first(change),
        };
        Self {
            author,
            change,
            content: None,
            kept: None,
            at,
            has_conflicted: false,
        }
    }

    /// Returns what the application does after an unknown outcome: it repeats an insert and a delete.
    pub(super) fn unknown(&self, form: Form) -> Self {
        match self.change {
            Change::Insert | Change::Delete | Change::DeleteThrough => Self::new(form, self.author, self.change),
            Change::Update(_) | Change::Upsert | Change::Restore(_) => Self {
                at: At::Ended(Ended::Unknown),
                ..self.clone()
            },
        }
    }

    /// Returns the outcome.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether the next command writes outside of a transaction.
    pub(super) fn writes(&self) -> bool {
        matches!(
            self.at,
            At::ManualUpdate | At::ManualCopy(_) | At::CopyFound(_) | At::Set(_)
        )
    }

    /// Returns the version after this one.
    fn next(&self, base: Version) -> Version {
        let own = 1 << self.author;
        Version {
            revision: base.revision + 1,
            author: self.author,
            deleted: self.deletes(),
            changes: match self.change {
                Change::Insert | Change::Upsert => own,
                Change::Update(_) => base.changes | own,
                Change::Delete | Change::DeleteThrough => 0,
                Change::Restore(_) => self.content.unwrap_or(0),
            },
        }
    }

    fn deletes(&self) -> bool {
        matches!(self.change, Change::Delete | Change::DeleteThrough)
    }

    /// Returns the first version of an inserted document.
    fn after(&self, number: u8) -> Version {
        self.next(Version {
            revision: number,
            author: self.author,
            deleted: true,
            changes: 0,
        })
    }

    /// Returns whether the call changes this document.
    fn matches(&self, current: &Version) -> bool {
        match self.change {
            Change::Update(Some(revision)) => current.revision == revision,
            _ => true,
        }
    }

    pub(super) fn sends(&self, after: &Self) -> Vec<&'static str> {
        match (self.at, after.at) {
            (At::ReadRevision, _) => vec!["read policyRevisions"],
            (At::Read, _) => vec!["then: read currentPolicies"],
            // Nothing matches, because the document does not exist.
            (At::Begin, At::UpsertInTransaction(_)) => vec![
                "begin: update currentPolicies",
                "then: read currentPolicies",
                "then: read policyRevisions",
            ],
            (At::BeginRead, _) => vec!["begin: read currentPolicies"],
            (At::Begin, _) if self.change == Change::DeleteThrough => vec!["then: update currentPolicies"],
            (At::Begin, _) => vec!["begin: update currentPolicies"],
            (At::BeginInsert, _) => vec!["begin: read policyRevisions"],
            (At::UpsertInTransaction(_), _) => vec!["then: upsert currentPolicies"],
            (At::CopyInTransaction(_), _) => vec!["then: insert policyRevisions"],
            // The trash deletes the document as it was.
            (At::Commit(_), _) if self.change == Change::DeleteThrough => vec![
                "then: delete currentPolicies",
                "then: insert currentPolicies",
                "then: delete currentPolicies",
                "then: insert deletedPolicies",
                "then: commitTransaction",
            ],
            // The first command of the transaction has changed the document, for its copy.
            (At::Commit(Version { deleted: true, .. }), _) => {
                vec!["then: delete currentPolicies", "then: commitTransaction"]
            }
            (At::Commit(_), _) => vec!["then: commitTransaction"],
            _ => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, documents: &mut Documents, me: usize) -> Ran {
        self.at = match self.at {
            At::ReadRevision | At::Read => self.read(documents),
            At::ManualUpdate | At::ManualCopy(_) | At::Find | At::CopyFound(_) | At::Set(_) => self.naive(documents),
            _ => self.in_transaction(documents, me),
        };
        Ran::Done
    }

    fn read(&mut self, documents: &Documents) -> At {
        match (self.at, documents.current, self.change) {
            (At::ReadRevision, _, Change::Restore(revision)) => {
                match documents.copy(revision).filter(|copy| !copy.deleted) {
                    Some(copy) => {
                        self.content = Some(copy.changes);
                        self.again()
                    }
                    None => At::Ended(Ended::NotFound),
                }
            }
            (_, Some(_), Change::Insert) => At::Ended(Ended::Exists),
            (_, Some(current), Change::Update(Some(_))) if !self.matches(&current) => At::Ended(Ended::Mismatch),
            (_, None, Change::Update(_) | Change::Delete | Change::DeleteThrough) => At::Ended(Ended::NotFound),
            _ => self.again(),
        }
    }

    fn in_transaction(&mut self, documents: &mut Documents, me: usize) -> At {
        match self.at {
            At::BeginRead => {
                documents.transactions.begin(me);
                self.kept = documents.current;
                At::Begin
            }
            At::Begin if documents.transactions.has_changed(me, CURRENT) => {
                documents.transactions.abort(me);
                self.conflict()
            }
            At::Begin => {
                if documents.current.is_none() && matches!(self.change, Change::Upsert | Change::Restore(_)) {
                    return Self::begin_insert(documents, me);
                }
                let Some(current) = documents.current.filter(|current| self.matches(current)) else {
                    documents.transactions.abort(me);
                    return At::Read;
                };
                if !documents.transactions.is_active(me) {
                    documents.transactions.begin(me);
                }
                match documents.transactions.write(me, CURRENT) {
                    true => At::CopyInTransaction(self.next(current)),
                    false => self.conflict(),
                }
            }
            At::BeginInsert => Self::begin_insert(documents, me),
            At::UpsertInTransaction(number) => {
                if !documents.transactions.write(me, CURRENT) {
                    return self.conflict();
                }
                if documents.current.is_some() {
                    documents.transactions.abort(me);
                    return At::Read;
                }
                At::CopyInTransaction(self.after(number))
            }
            At::CopyInTransaction(version) => {
                if !documents.transactions.write(me, copy_bit(version.revision)) {
                    return self.conflict();
                }
                if documents.copy(version.revision).is_some() {
                    documents.transactions.abort(me);
                    return At::Ended(Ended::Corrupt);
                }
                At::Commit(version)
            }
            At::Commit(version) => {
                documents.change(version);
                if version.deleted {
                    documents.current = None;
                }
                documents.add_copy(version);
                documents.trash.extend(self.kept);
                documents.transactions.commit(me);
                At::Ended(Ended::Done(version.revision))
            }
            at => at,
        }
    }

    /// Begins a transaction, and reads the number of the newest copy.
    fn begin_insert(documents: &mut Documents, me: usize) -> At {
        documents.transactions.begin(me);
        At::UpsertInTransaction(documents.newest_copy().map_or(0, |copy| copy.revision))
    }

    fn naive(&self, documents: &mut Documents) -> At {
        match (self.at, documents.current) {
            (At::ManualUpdate, Some(current)) => {
                let changed = self.next(current);
                documents.change(changed);
                At::ManualCopy(changed.revision)
            }
            (At::ManualCopy(revision), Some(current)) => {
                documents.add_copy(current);
                At::Ended(Ended::Done(revision))
            }
            (At::Find, Some(current)) => At::CopyFound(current),
            (At::CopyFound(found), _) => {
                documents.add_copy(found);
                At::Set(self.next(found))
            }
            (At::Set(version), Some(_)) => {
                documents.log.push(version);
                documents.current = Some(version);
                At::Ended(Ended::Done(version.revision))
            }
            _ => At::Ended(Ended::NotFound),
        }
    }

    /// Returns the first command of another attempt.
    fn again(&self) -> At {
        match self.change {
            Change::Restore(_) => At::Begin,
            change => first(change),
        }
    }

    fn conflict(&mut self) -> At {
        self.has_conflicted = true;
        self.again()
    }
}

fn first(change: Change) -> At {
    match change {
        Change::Restore(_) => At::ReadRevision,
        Change::Insert => At::BeginInsert,
        Change::DeleteThrough => At::BeginRead,
        Change::Update(_) | Change::Upsert | Change::Delete => At::Begin,
    }
}
