//! `insert`, `update`, `delete` and `restore`.
//!
//! Mirrors `crates/history/src/write`. Without a transaction a change has three commands: it changes and marks the current
//! document, inserts the copy, and removes the mark. A marked document is not changed: whoever meets one completes it
//! first. An insert has read its number before it has the id, so it reads the newest copy again before it inserts its own,
//! and so does everyone who completes a marked document.

use super::{CURRENT, Current, Documents, Form, Version, copy_bit};
use crate::world::Ran;

/// How a call writes the current document and the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Both in a transaction.
    Transaction,
    /// One after the other.
    CompareAndSet,
}

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts the document, if it does not exist.
    Insert,
    /// Updates the document, at this revision if there is one.
    Update(Option<u8>),
    /// Deletes the document.
    Delete,
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
    /// Its write form.
    pub mode: Mode,
    /// What it changes.
    pub change: Change,
    /// The content that a restore writes.
    content: Option<u8>,
    at: At,
    pub(super) has_completed: bool,
    pub(super) has_removed: bool,
    pub(super) has_conflicted: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Restore: reads the content of the revision.
    ReadRevision,
    /// Changes and marks the current document.
    Change,
    /// Reads why no document matched.
    Read,
    /// Reads the newest copy. The flag tells whether the marked document is the call's own.
    Newest(Current, bool),
    /// Deletes the marked document, because its number is taken.
    Remove(Current),
    /// Inserts the copy.
    Copy(Current, bool),
    /// Removes the mark, or the tombstone.
    Finish(Current, bool),
    /// Insert: reads the number of the newest copy.
    Number,
    /// Insert: creates the current document, marked.
    Upsert(u8),
    /// Begins a transaction, and changes the current document.
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
    pub fn new(form: Form, author: u8, mode: Mode, change: Change) -> Self {
        let at = match form {
            Form::Manual => At::ManualUpdate,
            Form::FindCopyUpdate => At::Find,
            Form::Ours | Form::NoCheck | Form::NumberOnly => first(mode, change),
        };
        Self {
            author,
            mode,
            change,
            content: None,
            at,
            has_completed: false,
            has_removed: false,
            has_conflicted: false,
        }
    }

    /// Returns what the application does after an unknown outcome: it repeats an insert and a delete.
    pub(super) fn unknown(&self, form: Form) -> Self {
        match self.change {
            Change::Insert | Change::Delete => Self::new(form, self.author, self.mode, self.change),
            Change::Update(_) | Change::Restore(_) => Self {
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
            At::Change
                | At::Remove(_)
                | At::Copy(..)
                | At::Finish(..)
                | At::Upsert(_)
                | At::ManualUpdate
                | At::ManualCopy(_)
                | At::CopyFound(_)
                | At::Set(_)
        )
    }

    pub(super) fn is_between(&self) -> bool {
        matches!(self.at, At::Copy(_, true))
    }

    /// Returns the version after this one.
    fn next(&self, base: Version) -> Version {
        let own = 1 << self.author;
        Version {
            revision: base.revision + 1,
            author: self.author,
            deleted: self.change == Change::Delete,
            changes: match self.change {
                Change::Insert => own,
                Change::Update(_) => base.changes | own,
                Change::Delete => 0,
                Change::Restore(_) => self.content.unwrap_or(0),
            },
            copy: 0,
        }
    }

    /// Returns the first version of an inserted document.
    fn after(&self, number: u8) -> Version {
        self.next(Version {
            revision: number,
            author: self.author,
            deleted: true,
            changes: 0,
            copy: 0,
        })
    }

    /// Returns whether the call changes this document.
    fn matches(&self, current: &Current) -> bool {
        let is_expected = match self.change {
            Change::Update(Some(revision)) => current.version.revision == revision,
            _ => true,
        };
        !current.unrecorded && is_expected
    }

    pub(super) fn run(&mut self, form: Form, documents: &mut Documents, me: usize) -> Ran {
        let next = match self.at {
            At::Begin | At::BeginInsert | At::UpsertInTransaction(_) | At::CopyInTransaction(_) | At::Commit(_) => {
                Some(self.in_transaction(documents, me))
            }
            At::ManualUpdate | At::ManualCopy(_) | At::Find | At::CopyFound(_) | At::Set(_) => {
                Some(self.naive(documents))
            }
            _ => self.compare_and_set(form, documents),
        };
        match next {
            Some(next) => {
                self.at = next;
                Ran::Done
            }
            None => Ran::Waits,
        }
    }

    /// Runs a single command. Returns `None` if it waits for a transaction.
    fn compare_and_set(&mut self, form: Form, documents: &mut Documents) -> Option<At> {
        let current = documents.current;
        let is_locked = documents.transactions.is_locked(CURRENT);
        Some(match self.at {
            At::ReadRevision => {
                let Change::Restore(revision) = self.change else {
                    return Some(self.at);
                };
                match documents.copy(revision).filter(|copy| !copy.deleted) {
                    Some(copy) => {
                        self.content = Some(copy.changes);
                        self.again()
                    }
                    None => At::Ended(Ended::NotFound),
                }
            }
            At::Change => match current.filter(|current| self.matches(current)) {
                Some(_) if is_locked => return None,
                Some(current) => {
                    let changed = documents.change(self.next(current.version), true, false);
                    documents.transactions.wrote(CURRENT);
                    At::Copy(changed, true)
                }
                None => At::Read,
            },
            At::Read => match (current, self.change) {
                (Some(current), _) if current.unrecorded => At::Newest(current, false),
                (Some(_), Change::Insert) => At::Ended(Ended::Exists),
                (Some(current), Change::Update(Some(_))) if !self.matches(&current) => At::Ended(Ended::Mismatch),
                (None, Change::Update(_) | Change::Delete) => At::Ended(Ended::NotFound),
                (None, Change::Restore(_)) => insert(self.mode),
                _ => self.again(),
            },
            At::Newest(marked, is_own) => {
                let Version { revision, copy, .. } = marked.version;
                let newest = documents.newest_copy();
                match newest {
                    _ if form == Form::NoCheck => At::Copy(marked, is_own),
                    // Another client may have completed it, and changed the document since.
                    Some(_) if documents.copy(revision).is_some_and(|own| own.copy == copy) => {
                        At::Finish(marked, is_own)
                    }
                    Some(newest) if form == Form::NumberOnly && newest.revision == revision => {
                        At::Finish(marked, is_own)
                    }
                    Some(newest) if newest.revision >= revision && marked.inserted => At::Remove(marked),
                    // The document has changed since it was read.
                    Some(newest) if newest.revision >= revision => self.again(),
                    _ => At::Copy(marked, is_own),
                }
            }
            At::Remove(marked) => {
                if current == Some(marked) {
                    if is_locked {
                        return None;
                    }
                    documents.current = None;
                    documents.transactions.wrote(CURRENT);
                    self.has_removed = true;
                }
                self.again()
            }
            At::Copy(marked, is_own) => {
                let name = copy_bit(marked.version.revision);
                match documents.copy(marked.version.revision) {
                    Some(copy) if copy != marked.version && form == Form::Ours => At::Ended(Ended::Corrupt),
                    Some(_) => At::Finish(marked, is_own),
                    None if documents.transactions.is_locked(name) => return None,
                    None => {
                        documents.add_copy(marked.version);
                        documents.transactions.wrote(name);
                        At::Finish(marked, is_own)
                    }
                }
            }
            At::Finish(marked, is_own) => {
                if current == Some(marked) {
                    if is_locked {
                        return None;
                    }
                    documents.current = (!marked.version.deleted).then_some(Current {
                        unrecorded: false,
                        ..marked
                    });
                    documents.transactions.wrote(CURRENT);
                    self.has_completed |= !is_own;
                }
                match is_own {
                    true => At::Ended(Ended::Done(marked.version.revision)),
                    false => self.again(),
                }
            }
            At::Number => At::Upsert(documents.newest_copy().map_or(0, |copy| copy.revision)),
            At::Upsert(_) if is_locked => return None,
            At::Upsert(_) if current.is_some() => At::Read,
            At::Upsert(number) => {
                let inserted = documents.change(self.after(number), true, true);
                documents.transactions.wrote(CURRENT);
                At::Newest(inserted, true)
            }
            at => at,
        })
    }

    fn in_transaction(&mut self, documents: &mut Documents, me: usize) -> At {
        match self.at {
            At::Begin => {
                let Some(current) = documents.current.filter(|current| self.matches(current)) else {
                    return At::Read;
                };
                documents.transactions.begin(me);
                match documents.transactions.write(me, CURRENT) {
                    true => At::CopyInTransaction(self.next(current.version)),
                    false => self.conflict(),
                }
            }
            At::BeginInsert => {
                documents.transactions.begin(me);
                At::UpsertInTransaction(documents.newest_copy().map_or(0, |copy| copy.revision))
            }
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
                let version = documents.change(version, false, false).version;
                if version.deleted {
                    documents.current = None;
                }
                documents.add_copy(version);
                documents.transactions.commit(me);
                At::Ended(Ended::Done(version.revision))
            }
            at => at,
        }
    }

    fn naive(&self, documents: &mut Documents) -> At {
        match (self.at, documents.current) {
            (At::ManualUpdate, Some(current)) => {
                let changed = documents.change(self.next(current.version), false, false);
                At::ManualCopy(changed.version.revision)
            }
            (At::ManualCopy(revision), Some(current)) => {
                documents.add_copy(current.version);
                At::Ended(Ended::Done(revision))
            }
            (At::Find, Some(current)) => At::CopyFound(current.version),
            (At::CopyFound(found), _) => {
                documents.add_copy(found);
                At::Set(self.next(found))
            }
            (At::Set(version), Some(current)) => {
                documents.log.push(version);
                documents.current = Some(Current { version, ..current });
                At::Ended(Ended::Done(version.revision))
            }
            _ => At::Ended(Ended::NotFound),
        }
    }

    /// Returns the first command of another attempt.
    fn again(&self) -> At {
        match self.change {
            Change::Restore(_) if self.mode == Mode::Transaction => At::Begin,
            Change::Restore(_) => At::Change,
            change => first(self.mode, change),
        }
    }

    fn conflict(&mut self) -> At {
        self.has_conflicted = true;
        self.again()
    }
}

fn first(mode: Mode, change: Change) -> At {
    match (change, mode) {
        (Change::Restore(_), _) => At::ReadRevision,
        (Change::Insert, mode) => insert(mode),
        (_, Mode::Transaction) => At::Begin,
        (_, Mode::CompareAndSet) => At::Change,
    }
}

fn insert(mode: Mode) -> At {
    match mode {
        Mode::Transaction => At::BeginInsert,
        Mode::CompareAndSet => At::Number,
    }
}

/// Completes a marked document at once, as `repair` does.
pub(super) fn complete_now(documents: &mut Documents) {
    if let Some(marked) = documents.current.filter(|current| current.unrecorded) {
        let mut repair = Write::new(Form::Ours, super::NO_CLIENT, Mode::CompareAndSet, Change::Insert);
        repair.at = At::Newest(marked, false);
        for _ in 0..3 {
            repair.run(Form::Ours, documents, usize::MAX);
        }
    }
}
