//! `insert`, `update`, `replace` and `end`.
//!
//! Mirrors `crates/intervals/src/write.rs`: a transaction changes the valid document and inserts what it was. An insert reads
//! the newest document in its transaction. An end is one command.

use super::documents::{Documents, Form, Interval, VALID, start_bit};
use crate::world::Ran;

/// The most time between the clock of a client and that of the server, which is not reached.
const TOLERANCE: u8 = 2;

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts a document, if none is valid.
    Insert,
    /// Updates or replaces the valid document, if it begins at this time.
    Update(Option<u8>),
    /// Ends the valid document.
    End,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It has begun an interval at this time.
    Begun(u8),
    /// It has ended the interval, or found none.
    End,
    /// A document is valid already.
    Exists,
    /// No document is valid.
    NotFound,
    /// The valid document does not begin at the expected time.
    Mismatch,
    /// An interval begins at the time of the change already.
    Corrupt,
    /// The outcome is unknown.
    Unknown,
}

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Its number, which its interval has.
    pub author: u8,
    /// What it changes.
    pub change: Change,
    /// The time by which the clock of the client is ahead of that of the server.
    pub ahead: i8,
    form: Form,
    next: Next,
    pub(super) has_conflicted: bool,
    /// Whether a change takes the time of the server.
    pub(super) is_by_the_server: bool,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    /// Takes the time of the client, which sends nothing.
    TakeTime,
    /// Begins a transaction, and changes the valid document, from the time of the client.
    Begin(u8),
    /// Transaction: reads the valid document, which it has seen, and the time of the server.
    ReadValid(Option<Interval>),
    /// Transaction: changes the valid document, from the time of the server.
    Update(Interval, u8),
    /// Transaction: inserts the document as it was.
    InsertCopy(Interval, u8),
    /// Begins a transaction, and reads the newest document.
    BeginInsert,
    /// Transaction: inserts a document, not before this time.
    Upsert(u8),
    /// Commits the change of this document, or the insert, with the new start.
    Commit(Option<Interval>, u8),
    /// Ends the valid document.
    End,
    /// Reads why there is none.
    ReadNone,
    /// The recipe: closes a document at this time.
    Close(u8),
    /// The recipe: inserts a valid document.
    InsertValid(u8),
    /// The recipe in a transaction: closes the valid document at this time.
    BeginClose(u8),
    Ended(Ended),
}

impl Write {
    /// Returns the call.
    pub fn new(form: Form, author: u8, change: Change, ahead: i8) -> Self {
        Self {
            author,
            change,
            ahead,
            form,
            next: first(change),
            has_conflicted: false,
            is_by_the_server: false,
        }
    }

    /// Returns what the application does after an unknown outcome: it repeats an insert, an end, and a change that expects a
    /// start.
    pub(super) fn unknown(&self) -> Self {
        let mut next = self.clone();
        next.next = match (self.form, self.change) {
            (Form::Ours, Change::Insert | Change::End | Change::Update(Some(_))) => first(self.change),
            _ => Next::Ended(Ended::Unknown),
        };
        next
    }

    /// Returns the outcome.
    pub fn ended(&self) -> Option<Ended> {
        match self.next {
            Next::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether the next command writes outside of a transaction.
    pub(super) fn writes(&self) -> bool {
        matches!(self.next, Next::End | Next::Close(_) | Next::InsertValid(_))
    }

    pub(super) fn sends(&self, after: &Self) -> Vec<&'static str> {
        match (self.next, after.next) {
            (Next::Begin(_), _) => vec!["begin: update prices"],
            (Next::ReadValid(Some(_)), _) => vec!["then: read prices"],
            // It also reads whether the newest document has an interval.
            (Next::ReadValid(None), _) => vec!["then: read prices", "then: read prices"],
            (Next::Update(..), _) => vec!["then: update prices"],
            (Next::InsertCopy(..), _) => vec!["then: insert prices"],
            (Next::BeginInsert, _) => vec!["begin: read prices"],
            (Next::Upsert(_), _) => vec!["then: upsert prices"],
            (Next::Commit(..), _) => vec!["then: commitTransaction"],
            (Next::End, _) => vec!["update prices"],
            (Next::ReadNone, _) => vec!["read prices", "read prices"],
            _ => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, documents: &mut Documents, me: usize) -> Ran {
        if self.writes() && documents.transactions.is_locked(VALID) {
            return Ran::Waits;
        }
        self.next = match self.next {
            Next::TakeTime => self.begin(documents.now.saturating_add_signed(self.ahead)),
            Next::End | Next::ReadNone | Next::Close(_) | Next::InsertValid(_) => self.alone(documents),
            _ => self.in_transaction(documents, me),
        };
        Ran::Done
    }

    /// Returns the first command with the time of the client.
    fn begin(&self, time: u8) -> Next {
        match self.form {
            Form::Ours => Next::Begin(time),
            Form::Manual | Form::Repaired => Next::Close(time),
            Form::InTransaction => Next::BeginClose(time),
        }
    }

    fn alone(&self, documents: &mut Documents) -> Next {
        let now = documents.now;
        match self.next {
            Next::End => {
                documents.transactions.wrote(VALID);
                let to = documents.find_valid().map_or(now, |valid| now.max(valid.from + 1));
                match documents.close(Interval::is_valid, to, true) {
                    true => Next::Ended(Ended::End),
                    false => Next::ReadNone,
                }
            }
            Next::Close(time) => {
                let closes_valid = self.form == Form::Repaired;
                documents.close(|one| one.is_valid() == closes_valid, time, false);
                Next::InsertValid(time)
            }
            Next::InsertValid(time) => {
                documents.insert(Interval::valid(time, self.author));
                Next::Ended(Ended::Begun(time))
            }
            _ => Next::Ended(Ended::End),
        }
    }

    fn in_transaction(&mut self, documents: &mut Documents, me: usize) -> Next {
        let now = documents.now;
        match self.next {
            Next::Begin(time) => {
                documents.transactions.begin(me);
                let valid = documents.find_valid();
                let is_now = now.abs_diff(time) < TOLERANCE;
                let is_expected =
                    |valid: &Interval| !matches!(self.change, Change::Update(Some(start)) if start != valid.from);
                match valid.filter(|valid| is_now && valid.from < time && is_expected(valid)) {
                    Some(valid) => self.change_valid(documents, me, valid, time),
                    None => Next::ReadValid(valid),
                }
            }
            Next::ReadValid(valid) => {
                let refused = match (valid, self.change) {
                    (None, _) => Some(Ended::NotFound),
                    (Some(valid), Change::Update(Some(expected))) if valid.from != expected => Some(Ended::Mismatch),
                    _ => None,
                };
                match (refused, valid) {
                    (None, Some(valid)) => {
                        self.is_by_the_server = true;
                        Next::Update(valid, now.max(valid.from + 1))
                    }
                    (refused, _) => {
                        documents.transactions.abort(me);
                        Next::Ended(refused.unwrap_or(Ended::NotFound))
                    }
                }
            }
            Next::Update(valid, from) => self.change_valid(documents, me, valid, from),
            Next::InsertCopy(before, from) => match documents.transactions.write(me, start_bit(before.from)) {
                true => Next::Commit(Some(before), from),
                false => self.conflict(),
            },
            Next::BeginClose(time) => {
                documents.transactions.begin(me);
                match (documents.find_valid(), documents.transactions.write(me, VALID)) {
                    (Some(valid), true) => Next::Commit(Some(valid), time),
                    // The driver calls its function again, which has the same time.
                    _ => Next::BeginClose(time),
                }
            }
            Next::BeginInsert => {
                documents.transactions.begin(me);
                match documents.newest() {
                    Some(newest) if newest.is_valid() => {
                        documents.transactions.abort(me);
                        Next::Ended(Ended::Exists)
                    }
                    newest => Next::Upsert(newest.map_or(0, |newest| newest.to)),
                }
            }
            Next::Upsert(least) => {
                let from = now.max(least);
                match documents.transactions.write(me, VALID | start_bit(from)) {
                    true => Next::Commit(None, from),
                    false => self.conflict(),
                }
            }
            Next::Commit(before, from) => {
                if let Some(before) = before {
                    documents.close(Interval::is_valid, from, before.was_ended);
                }
                documents.insert(Interval::valid(from, self.author));
                documents.transactions.commit(me);
                Next::Ended(Ended::Begun(from))
            }
            next => next,
        }
    }

    /// Changes the valid document of the snapshot, which begins at another time then.
    fn change_valid(&mut self, documents: &mut Documents, me: usize, valid: Interval, from: u8) -> Next {
        let names = VALID | start_bit(valid.from) | start_bit(from);
        if !documents.transactions.write(me, names) {
            return self.conflict();
        }
        if documents.intervals.iter().any(|one| one.from == from) {
            documents.transactions.abort(me);
            return Next::Ended(Ended::Corrupt);
        }
        Next::InsertCopy(valid, from)
    }

    /// Begins another attempt.
    fn conflict(&mut self) -> Next {
        self.has_conflicted = true;
        self.is_by_the_server = false;
        first(self.change)
    }
}

fn first(change: Change) -> Next {
    match change {
        Change::Insert => Next::BeginInsert,
        Change::Update(_) => Next::TakeTime,
        Change::End => Next::End,
    }
}
