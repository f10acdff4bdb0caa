//! The stored documents of the model, and the forms of its commands.

use crate::transactions::Transactions;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: closes a document that is not valid, and inserts a valid one.
    Manual,
    /// The same, but it closes the valid document.
    Repaired,
    /// The same, in a transaction.
    InTransaction,
}

/// The end of the interval of a valid document.
const END: u8 = u8::MAX;

/// A stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The time from which it is valid.
    pub from: u8,
    /// The time to which it was valid.
    pub to: u8,
    /// The call that began it.
    pub author: u8,
    /// Whether an `end` has ended it: not stored, for the invariants.
    pub was_ended: bool,
}

impl Interval {
    /// Returns a valid document.
    pub(super) fn valid(from: u8, author: u8) -> Self {
        let (to, was_ended) = (END, false);
        Self {
            from,
            to,
            author,
            was_ended,
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.to == END
    }
}

/// The documents of the id, in the order of their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The documents.
    pub intervals: Vec<Interval>,
    /// The clock of the server.
    pub(super) now: u8,
    pub(crate) transactions: Transactions,
}

/// The author of the initial documents.
const NO_CLIENT: u8 = u8::MAX;

/// The bit of the valid document, which is also the entry of its id in the unique index of valid documents.
pub(super) const VALID: u64 = 1;

/// Returns the bit of the entry in the unique index of starts.
pub(super) fn start_bit(from: u8) -> u64 {
    1 << (1 + from)
}

impl Documents {
    /// Returns a document that is valid from time 1, when the server's clock is at 4.
    pub fn valid() -> Self {
        Self {
            intervals: vec![Interval::valid(1, NO_CLIENT)],
            now: 4,
            ..Self::default()
        }
    }

    /// Returns a document that was valid from time 1 to this one.
    pub fn ended(to: u8) -> Self {
        let mut documents = Self::valid();
        documents.intervals[0].to = to;
        documents.intervals[0].was_ended = true;
        documents
    }

    /// Returns a closed document, and one that is valid since.
    pub fn changed() -> Self {
        let mut documents = Self::valid();
        documents.intervals[0].to = 3;
        documents.intervals.push(Interval::valid(3, NO_CLIENT));
        documents
    }

    pub(super) fn find_valid(&self) -> Option<Interval> {
        self.intervals.iter().find(|one| one.is_valid()).copied()
    }

    pub(super) fn newest(&self) -> Option<Interval> {
        self.intervals.last().copied()
    }

    /// Ends the first document that meets a condition. Returns whether there is one.
    pub(super) fn close(&mut self, is_one: impl Fn(&Interval) -> bool, to: u8, was_ended: bool) -> bool {
        let closed = self.intervals.iter_mut().find(|one| is_one(one));
        let is_closed = closed.is_some();
        self.now += u8::from(is_closed);
        if let Some(closed) = closed {
            (closed.to, closed.was_ended) = (to, was_ended);
        }
        is_closed
    }

    pub(super) fn insert(&mut self, interval: Interval) {
        self.now += 1;
        self.intervals.push(interval);
        self.intervals.sort_by_key(|one| one.from);
    }
}

crate::stored!(Documents);
