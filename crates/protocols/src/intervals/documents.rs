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

/// The end of an interval without one.
pub(super) const END: u8 = u8::MAX;
/// The most time by which a clock that set a start can have been ahead.
const AHEAD: u8 = 3;

/// A stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The time from which it is valid.
    pub from: u8,
    /// The time to which it is valid.
    pub to: u8,
    /// Whether it is marked as valid.
    pub is_marked: bool,
    /// The call that began it.
    pub author: u8,
    /// Whether an `end` has ended it: not stored, for the invariants.
    pub was_ended: bool,
}

impl Interval {
    /// Returns a valid document.
    pub(super) fn valid(from: u8, author: u8) -> Self {
        Self {
            from,
            to: END,
            is_marked: true,
            author,
            was_ended: false,
        }
    }

    /// Returns a document that is not marked.
    pub(super) fn unmarked(from: u8, to: u8, author: u8) -> Self {
        let is_marked = false;
        Self {
            to,
            is_marked,
            ..Self::valid(from, author)
        }
    }

    pub(super) fn contains(&self, time: u8) -> bool {
        self.from <= time && (self.to == END || time < self.to)
    }

    /// Returns whether it is the current one: it contains the time, or its mark was set by a clock that was ahead.
    pub(super) fn is_current(&self, now: u8) -> bool {
        self.contains(now) || self.is_marked && now < self.from && self.from <= now + AHEAD
    }
}

/// The documents of the id, in the order of their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The documents.
    pub intervals: Vec<Interval>,
    /// The clock of the server.
    pub(super) now: u8,
    /// The start of an initial document that no call may change.
    pub(super) scheduled: Option<u8>,
    pub(crate) transactions: Transactions,
}

/// The author of the initial documents.
const NO_CLIENT: u8 = u8::MAX;

/// The bit of the marked document, which is also the entry of its id in the unique index of valid documents.
pub(super) const VALID: u64 = 1;

/// Returns the bit of the entry in the unique index of starts, and of a document that is not marked.
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
        documents.intervals[0] = Interval::unmarked(1, to, NO_CLIENT);
        documents.intervals[0].was_ended = true;
        documents
    }

    /// Returns a closed document, and one that is valid since.
    pub fn changed() -> Self {
        let mut documents = Self::valid();
        documents.intervals[0] = Interval::unmarked(1, 3, NO_CLIENT);
        documents.intervals.push(Interval::valid(3, NO_CLIENT));
        documents
    }

    /// Returns a marked document, and a scheduled one that begins at this time: in the future, or since the last write.
    pub fn scheduled(from: u8) -> Self {
        let mut documents = Self::valid();
        documents.intervals[0].to = from;
        documents.intervals.push(Interval::unmarked(from, END, NO_CLIENT));
        documents.scheduled = Some(from);
        documents
    }

    pub(super) fn marked(&self) -> Option<Interval> {
        self.intervals.iter().find(|one| one.is_marked).copied()
    }

    pub(super) fn newest(&self) -> Option<Interval> {
        self.intervals.last().copied()
    }

    /// Returns the newest document that has begun, if it is the current one.
    pub(super) fn current(&self) -> Option<Interval> {
        let has_begun = |one: &&Interval| one.from <= self.now || one.is_marked && one.is_current(self.now);
        let newest = self.intervals.iter().rfind(has_begun);
        newest.filter(|one| one.is_current(self.now)).copied()
    }

    /// Returns the document whose interval contains a time.
    pub(super) fn at(&self, time: u8) -> Option<Interval> {
        self.intervals.iter().find(|one| one.contains(time)).copied()
    }

    /// Returns the start of the first document after a time; the end of time if there is none.
    pub(super) fn next_start(&self, time: u8) -> u8 {
        let next = self.intervals.iter().find(|one| one.from > time);
        next.map_or(END, |one| one.from)
    }

    /// Moves the mark to the document with this start.
    pub(super) fn mark(&mut self, from: u8) {
        for one in &mut self.intervals {
            one.is_marked = one.from == from;
        }
    }

    /// Ends the first document that meets a condition, and removes its mark. Returns whether there is one.
    pub(super) fn close(&mut self, is_one: impl Fn(&Interval) -> bool, to: u8, was_ended: bool) -> bool {
        let closed = self.intervals.iter_mut().find(|one| is_one(one));
        let is_closed = closed.is_some();
        self.now += u8::from(is_closed);
        if let Some(closed) = closed {
            (closed.to, closed.was_ended, closed.is_marked) = (to, was_ended, false);
        }
        is_closed
    }

    /// Divides the document with a start, whose later part is of another call. One of the parts has the mark, if it had.
    pub(super) fn divide(&mut self, start: u8, from: u8, author: u8, is_later_marked: bool) {
        let Some(divided) = self.intervals.iter_mut().find(|one| one.from == start) else {
            return;
        };
        let mut later = *divided;
        (later.from, later.author) = (from, author);
        (divided.to, divided.was_ended) = (from, false);
        divided.is_marked &= !is_later_marked;
        later.is_marked &= is_later_marked;
        self.insert(later);
    }

    pub(super) fn insert(&mut self, interval: Interval) {
        self.now += 1;
        self.intervals.push(interval);
        self.intervals.sort_by_key(|one| one.from);
    }
}

crate::stored!(Documents);
