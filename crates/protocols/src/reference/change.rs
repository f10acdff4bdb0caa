//! `update_source`, and the sweep of a repair, a follower or a migration that resumes.
//!
//! Mirrors `crates/reference/src/write`. An `update_source` increments the version of the source, and sweeps: one
//! `updateMany` of the copies with an older version, along the index on the id of the copy. The server
//! updates the copies one by one, and yields to other writers in between.

use super::documents::{Copied, Documents, Ended, Form, Mode, order_bit, source_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Whether it runs in a transaction.
    pub mode: Mode,
    /// Whether it only sweeps.
    pub is_sweep: bool,
    /// The source.
    pub source: u8,
    at: At,
    pub(super) has_conflicted: bool,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Sweep: reads the version of the source.
    Read,
    /// Increments the version of the source.
    Change,
    /// Updates the next copy.
    Sweep(Scan),
    /// Begins a transaction, and increments the version of the source.
    Begin,
    /// Transaction: updates the copies of these orders, those of the snapshot.
    SweepInTransaction(Vec<u8>),
    Commit(Vec<u8>),
    /// It has ended, with the version that every copy has.
    Ended(Ended, u8),
}

/// A scan of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scan {
    /// The version that the copies get.
    version: u8,
    /// The order of the last copy, whose entry in the index no update moves.
    position: Option<u8>,
    /// Whether the server has begun with the command.
    has_begun: bool,
}

impl Change {
    /// Returns an `update_source`.
    pub fn rename(mode: Mode, source: u8) -> Self {
        Self::new(mode, false, source)
    }

    /// Returns a sweep.
    pub fn sweep(source: u8) -> Self {
        Self::new(Mode::Single, true, source)
    }

    fn new(mode: Mode, is_sweep: bool, source: u8) -> Self {
        Self {
            mode,
            is_sweep,
            source,
            at: match mode {
                _ if is_sweep => At::Read,
                Mode::Single => At::Change,
                Mode::Transaction => At::Begin,
            },
            has_conflicted: false,
        }
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self::new(self.mode, self.is_sweep, self.source)
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended, _) => Some(ended),
            _ => None,
        }
    }

    /// Returns the version that every copy has after the call has succeeded.
    pub(super) fn acknowledged(&self) -> Option<u8> {
        match self.at {
            At::Ended(Ended::Done, version) => Some(version),
            _ => None,
        }
    }

    /// Returns the version of a sweep that has not ended.
    pub(super) fn sweeps_to(&self) -> Option<u8> {
        match &self.at {
            At::Sweep(scan) => Some(scan.version),
            _ => None,
        }
    }

    /// Returns whether the next command writes outside of a transaction.
    pub(super) fn writes(&self) -> bool {
        matches!(self.at, At::Change | At::Sweep(_))
    }

    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Sweep(scan) if scan.has_begun)
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Read => vec!["read customers"],
            At::Change => vec!["update customers"],
            At::Sweep(_) => vec!["updateMany orders"],
            At::Begin => vec!["begin: update customers"],
            At::SweepInTransaction(_) => vec!["then: updateMany orders"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Ended(..) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, form: Form, documents: &mut Documents, me: usize) -> Ran {
        let next = match self.at.clone() {
            At::Read => match documents.source(self.source) {
                Some(source) => sweep_to(source.version),
                None => At::Ended(Ended::NotFound, 0),
            },
            At::Change => {
                if documents.transactions.is_locked(source_bit(self.source)) {
                    return Ran::Waits;
                }
                match documents.source_mut(self.source) {
                    Some(source) => {
                        source.version += 1;
                        let version = source.version;
                        documents.transactions.wrote(source_bit(self.source));
                        sweep_to(version)
                    }
                    None => At::Ended(Ended::NotFound, 0),
                }
            }
            At::Sweep(scan) => match self.update_next(form, documents, scan) {
                Some(next) => next,
                None => return Ran::Waits,
            },
            At::Begin => self.begin(documents, me),
            At::SweepInTransaction(orders) => {
                let written = orders.iter().fold(0, |written, order| written | order_bit(*order));
                match documents.transactions.write(me, written) {
                    true => At::Commit(orders),
                    false => self.conflict(),
                }
            }
            At::Commit(orders) => {
                let Some(source) = documents.source_mut(self.source) else {
                    return Ran::Done; // it is locked
                };
                source.version += 1;
                let version = source.version;
                for order in orders {
                    documents.set(order, self.copied(version));
                }
                documents.transactions.commit(me);
                At::Ended(Ended::Done, version)
            }
            at @ At::Ended(..) => at,
        };
        self.at = next;
        Ran::Done
    }

    fn copied(&self, version: u8) -> Option<Copied> {
        Some(Copied {
            source: self.source,
            version,
        })
    }

    /// Updates the next copy of a scan. `None` if it waits for a transaction.
    fn update_next(&self, form: Form, documents: &mut Documents, scan: Scan) -> Option<At> {
        let is_guarded = !matches!(form, Form::Manual | Form::UnguardedSweep);
        let copies = documents.references(self.source);
        let matching = copies.filter(|(_, copied)| !is_guarded || copied.version < scan.version);
        let orders = matching.map(|(order, _)| order);
        let next = orders.filter(|order| Some(*order) > scan.position).min();
        let Some(order) = next else {
            return Some(At::Ended(Ended::Done, scan.version));
        };
        if documents.transactions.is_locked(order_bit(order)) {
            return None;
        }
        documents.set(order, self.copied(scan.version));
        Some(At::Sweep(Scan {
            position: Some(order),
            has_begun: true,
            ..scan
        }))
    }

    fn begin(&mut self, documents: &mut Documents, me: usize) -> At {
        documents.transactions.begin(me);
        if documents.source(self.source).is_none() {
            documents.transactions.abort(me);
            return At::Ended(Ended::NotFound, 0);
        }
        match documents.transactions.write(me, source_bit(self.source)) {
            true => At::SweepInTransaction(documents.references(self.source).map(|(order, _)| order).collect()),
            false => self.conflict(),
        }
    }

    fn conflict(&mut self) -> At {
        self.has_conflicted = true;
        At::Begin
    }
}

fn sweep_to(version: u8) -> At {
    At::Sweep(Scan {
        version,
        position: None,
        has_begun: false,
    })
}

/// Sweeps all sources at once.
pub(super) fn sweep_now(documents: &mut Documents) {
    for source in 0..2 {
        let mut sweep = Change::sweep(source);
        while sweep.ended().is_none() {
            if sweep.run(Form::Ours, documents, usize::MAX) == Ran::Waits {
                return;
            }
        }
    }
}
