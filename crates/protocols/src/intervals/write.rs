//! `insert`, `update`, `replace` and `end`.
//!
//! Mirrors `crates/intervals/src/write.rs`: a transaction changes the valid document and inserts what it was. An insert reads
//! the newest document in its transaction. An end is one command, and a transaction after a scheduled document has begun.

mod read;

use super::documents::{Documents, END, Form, Interval, VALID, start_bit};
use crate::transactions::Transactions;
use crate::world::Ran;

/// The most time between the clock of a client and that of the server, which is not reached.
const TOLERANCE: u8 = 2;

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts a document, if none is valid.
    Insert,
    /// Inserts a document with this start, if none is valid then.
    InsertFrom(u8),
    /// Updates or replaces the valid document, if it begins at this time.
    Update(Option<u8>),
    /// Updates what is valid from this time.
    UpdateFrom(u8),
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
    /// A document is valid already, or begins at this time.
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
    /// Whether it has moved a mark.
    pub(super) has_marked: bool,
    /// What its transaction sees.
    snapshot: Documents,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Next {
    /// Takes the time of the client, which sends nothing.
    TakeTime,
    /// Begins a transaction, and changes the valid document, from the time of the client.
    Begin(u8),
    /// Transaction: reads the current document, and the time of the server.
    ReadCurrent,
    /// Begins a transaction, and reads the document that contains this time.
    BeginFrom(u8),
    /// Transaction: marks the current document, and then changes or ends it, from this time.
    Mark(Interval, u8),
    /// Transaction: reads the current document, which is not the one to divide from this time.
    ReadBeside(Interval, u8),
    /// Transaction: marks the current document, and then divides the other one from this time.
    MarkBeside(Interval, Interval, u8),
    /// Transaction: changes the marked document, from this time.
    Update(Interval, u8),
    /// Transaction: inserts the document as it was.
    InsertCopy(Interval, u8),
    /// Transaction: ends a document at this time.
    Shorten(Interval, u8),
    /// Transaction: inserts the later part of a document.
    InsertLater(Interval, u8),
    /// Transaction: changes it.
    UpdateLater(Interval, u8),
    /// Begins a transaction, and reads the newest document.
    BeginInsert,
    /// Transaction: reads the documents before and after a start, and the marked one.
    ReadAdjacent(u8),
    /// Transaction: reads the marked document.
    ReadMarked(u8, u8),
    /// Transaction: inserts a document from this time to this one.
    Upsert(u8, u8),
    /// Commits the change of the marked document, or of a part of one, with the new start.
    Commit(Interval, u8, bool),
    /// Commits the insert.
    CommitInsert(u8, u8),
    /// Ends the valid document.
    End,
    /// Reads why there is none.
    ReadNone,
    /// Begins a transaction, and reads the current document, to mark and end it.
    BeginEnd,
    /// Transaction: ends it, at this time.
    EndMarked(Interval, u8),
    /// Commits the end.
    CommitEnd(Interval, u8),
    /// The recipe: closes a document at this time.
    Close(u8),
    /// The recipe: inserts a valid document.
    InsertValid(u8),
    /// The recipe in a transaction: closes the valid document at this time.
    BeginClose(u8),
    /// The recipe: commits.
    CommitClose(u8),
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
            has_marked: false,
            snapshot: Documents::default(),
        }
    }

    /// Returns what the application does after an unknown outcome: it repeats an insert, an end, and a change that expects or sets
    /// a start.
    pub(super) fn unknown(&self) -> Self {
        let mut next = self.clone();
        next.next = match (self.form, self.change) {
            (Form::Ours, change) if change != Change::Update(None) => first(change),
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
        let is_absent = matches!(after.next, Next::Ended(Ended::NotFound));
        match self.next {
            Next::Begin(_) => vec!["begin: update prices"],
            Next::BeginFrom(_) | Next::BeginEnd if is_absent => vec!["begin: read prices", "then: read prices"],
            Next::BeginFrom(_) | Next::BeginInsert | Next::BeginEnd => vec!["begin: read prices"],
            // It also reads whether the newest document has an interval.
            Next::ReadCurrent if is_absent => vec!["then: read prices", "then: read prices"],
            Next::ReadAdjacent(_) => vec!["then: read prices", "then: read prices"],
            Next::ReadCurrent | Next::ReadBeside(..) | Next::ReadMarked(..) => vec!["then: read prices"],
            Next::Mark(..) | Next::MarkBeside(..) | Next::Update(..) | Next::EndMarked(..) => {
                vec!["then: update prices"]
            }
            Next::Shorten(..) | Next::UpdateLater(..) => vec!["then: update prices"],
            Next::InsertCopy(..) | Next::InsertLater(..) => vec!["then: insert prices"],
            Next::Upsert(..) => vec!["then: upsert prices"],
            Next::Commit(..) | Next::CommitInsert(..) | Next::CommitEnd(..) => vec!["then: commitTransaction"],
            Next::End => vec!["update prices"],
            Next::ReadNone if matches!(after.next, Next::BeginEnd) => vec!["read prices"],
            Next::ReadNone => vec!["read prices", "read prices"],
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
            Next::End => match documents.marked().filter(|marked| marked.is_current(now)) {
                Some(marked) => {
                    documents.transactions.wrote(VALID);
                    documents.close(|one| one.is_marked, end_of(&marked, now), true);
                    Next::Ended(Ended::End)
                }
                None => Next::ReadNone,
            },
            Next::ReadNone => match documents.current() {
                Some(_) => Next::BeginEnd,
                None => Next::Ended(Ended::End),
            },
            Next::Close(time) => {
                let closes_valid = self.form == Form::Repaired;
                documents.close(|one| one.is_marked == closes_valid, time, false);
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
        if let Next::Begin(_) | Next::BeginFrom(_) | Next::BeginInsert | Next::BeginEnd | Next::BeginClose(_) =
            self.next
        {
            documents.transactions.begin(me);
            self.snapshot = documents.clone();
            self.snapshot.transactions = Transactions::default();
        }
        // The clock of the server runs on.
        self.snapshot.now = now;
        let next = match self.next {
            Next::BeginClose(time) => {
                return match (self.snapshot.marked(), documents.transactions.write(me, VALID)) {
                    (Some(_), true) => Next::CommitClose(time),
                    // The driver calls its function again, which has the same time.
                    _ => Next::BeginClose(time),
                };
            }
            Next::BeginInsert | Next::ReadAdjacent(_) | Next::ReadMarked(..) => self.read_for_insert(now),
            Next::Begin(_) | Next::ReadCurrent | Next::ReadBeside(..) | Next::BeginFrom(_) | Next::BeginEnd => {
                self.read(documents, me)
            }
            _ => self.write(documents, me),
        };
        match next {
            Next::Ended(Ended::Begun(_)) => self.snapshot = Documents::default(),
            Next::Ended(_) => {
                documents.transactions.abort(me);
                self.snapshot = Documents::default();
            }
            _ => {}
        }
        next
    }

    /// Writes in a transaction, whose effect others see at its commit.
    fn write(&mut self, documents: &mut Documents, me: usize) -> Next {
        let mark_bit = |one: &Interval| if one.is_marked { VALID } else { 0 };
        let (names, next) = match self.next {
            Next::Mark(current, from) | Next::MarkBeside(current, _, from) => {
                let marked = self.snapshot.marked().map_or(0, |marked| start_bit(marked.from));
                self.snapshot.mark(current.from);
                self.has_marked = true;
                let current = Interval {
                    is_marked: true,
                    ..current
                };
                let next = match (self.next, self.change) {
                    (Next::MarkBeside(_, divided, _), _) if divided.from == current.from => {
                        Next::Shorten(current, from)
                    }
                    (Next::MarkBeside(_, divided, _), _) => Next::Shorten(divided, from),
                    (_, Change::End) => Next::EndMarked(current, from),
                    _ => Next::Update(current, from),
                };
                (VALID | marked | start_bit(current.from), next)
            }
            Next::Update(current, from) => return self.change_marked(documents, me, current, from),
            Next::InsertCopy(before, from) => (start_bit(before.from), Next::Commit(before, from, true)),
            Next::Shorten(divided, from) => {
                let names = start_bit(divided.from) | mark_bit(&divided);
                (names, Next::InsertLater(divided, from))
            }
            Next::InsertLater(divided, from) => (start_bit(from), Next::UpdateLater(divided, from)),
            Next::UpdateLater(divided, from) => (start_bit(from), Next::Commit(divided, from, false)),
            Next::Upsert(from, to) => {
                let (marked, kept) = (self.snapshot.marked(), self.snapshot.current());
                let read = [marked, kept].into_iter().flatten();
                let read = read.fold(0, |names, one| names | start_bit(one.from));
                (VALID | read | start_bit(from), Next::CommitInsert(from, to))
            }
            Next::EndMarked(current, time) => {
                let to = end_of(&current, time);
                (VALID | start_bit(current.from), Next::CommitEnd(current, to))
            }
            next => return self.commit(next, documents, me),
        };
        match documents.transactions.write(me, names) {
            true => next,
            false => self.conflict(),
        }
    }

    fn commit(&self, next: Next, documents: &mut Documents, me: usize) -> Next {
        let (author, now) = (self.author, documents.now);
        let ended = match next {
            Next::Commit(divided, from, is_current) => {
                if is_current && documents.marked().is_none_or(|marked| marked.from != divided.from) {
                    documents.mark(divided.from);
                }
                if let Some(marked) = self.snapshot.marked().filter(|_| !is_current && self.has_marked) {
                    documents.mark(marked.from);
                }
                documents.divide(divided.from, from, author, is_current);
                Ended::Begun(from)
            }
            Next::CommitInsert(from, to) => {
                let inserted = Interval::unmarked(from, to, author);
                documents.insert(inserted);
                let is_chosen = matches!(self.change, Change::InsertFrom(_));
                match self.snapshot.current().filter(|_| is_chosen) {
                    Some(kept) => documents.mark(kept.from),
                    None if !is_chosen || inserted.contains(now) => documents.mark(from),
                    None => documents.mark(END),
                }
                Ended::Begun(from)
            }
            Next::CommitEnd(current, to) => {
                documents.mark(current.from);
                documents.close(|one| one.from == current.from, to, true);
                Ended::End
            }
            Next::CommitClose(from) => {
                documents.close(|one| one.is_marked, from, false);
                documents.insert(Interval::valid(from, author));
                Ended::Begun(from)
            }
            next => return next,
        };
        documents.transactions.commit(me);
        Next::Ended(ended)
    }

    /// Changes the marked document of the snapshot, which begins at another time then.
    fn change_marked(&mut self, documents: &mut Documents, me: usize, marked: Interval, from: u8) -> Next {
        let names = VALID | start_bit(marked.from) | start_bit(from);
        if !documents.transactions.write(me, names) {
            return self.conflict();
        }
        if documents.intervals.iter().any(|one| one.from == from) {
            documents.transactions.abort(me);
            return Next::Ended(Ended::Corrupt);
        }
        Next::InsertCopy(marked, from)
    }

    /// Begins another attempt.
    fn conflict(&mut self) -> Next {
        (self.has_conflicted, self.has_marked) = (true, false);
        self.is_by_the_server = false;
        self.snapshot = Documents::default();
        first(self.change)
    }
}

/// Returns the time at which a document is ended.
fn end_of(one: &Interval, now: u8) -> u8 {
    one.to.min(now.max(one.from + 1))
}

fn first(change: Change) -> Next {
    match change {
        Change::Insert | Change::InsertFrom(_) => Next::BeginInsert,
        Change::Update(_) => Next::TakeTime,
        Change::UpdateFrom(from) => Next::BeginFrom(from),
        Change::End => Next::End,
    }
}
