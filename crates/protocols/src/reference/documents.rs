//! The stored documents of the model, and the forms of its commands.

use std::collections::BTreeMap;

use crate::transactions::Transactions;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: an update and an `updateMany`; a find and an insert. In a transaction too.
    Manual,
    /// Those of this project, but a sweep replaces copies of any version.
    UnguardedSweep,
    /// Those of this project, but `set_reference` replaces a copy of any version.
    UnguardedSet,
    /// Those of this project, but an insert does not read the source again.
    NoSecondRead,
    /// Those of this project, but a deletion does not mark the source.
    NoMark,
    /// Those of this project, but a transaction that inserts does not remove the mark of a deletion.
    MarkKept,
}

/// Whether the commands of a call are in a transaction of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One after the other.
    Single,
    /// In a transaction.
    Transaction,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It has taken effect.
    Done,
    /// There is no such source or order, or the source was deleted concurrently.
    NotFound,
    /// The source has references.
    Referenced,
    /// The outcome is unknown.
    Unknown,
}

/// A source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its version, which is also its content.
    pub version: u8,
    /// The token of a deletion that has begun.
    pub mark: Option<u8>,
}

/// A copy of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copied {
    /// The id of the source.
    pub source: u8,
    /// The version that was copied.
    pub version: u8,
}

/// The stored documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The sources by id.
    pub sources: [Option<Source>; 2],
    /// The orders by id, each with its reference.
    pub orders: BTreeMap<u8, Option<Copied>>,
    /// Whether an older copy has replaced a newer one of the same source: not stored, for the invariants.
    pub went_back: bool,
    /// How often another repository has kept a source.
    pub kept: u8,
    pub(crate) transactions: Transactions,
}

/// Returns the bit of a source.
pub(super) fn source_bit(source: u8) -> u64 {
    1 << source
}

/// Returns the bit of an order.
pub(super) fn order_bit(order: u8) -> u64 {
    1 << (2 + order)
}

impl Documents {
    /// Returns source 0 and source 1 at these versions, and orders `0..` with these references: the source, and the version
    /// of the copy.
    pub fn of(versions: [u8; 2], orders: &[(u8, u8)]) -> Self {
        let source = |version| Some(Source { version, mark: None });
        let copied = |(source, version): &(u8, u8)| {
            Some(Copied {
                source: *source,
                version: *version,
            })
        };
        Self {
            sources: versions.map(source),
            orders: (0..).zip(orders.iter().map(copied)).collect(),
            ..Self::default()
        }
    }

    /// Returns the same with a mark of a process that died during a deletion of source 0.
    pub fn marked(mut self) -> Self {
        if let Some(source) = &mut self.sources[0] {
            source.mark = Some(u8::MAX);
        }
        self
    }

    pub(super) fn source(&self, id: u8) -> Option<Source> {
        self.sources[usize::from(id)]
    }

    pub(super) fn source_mut(&mut self, id: u8) -> Option<&mut Source> {
        self.sources[usize::from(id)].as_mut()
    }

    pub(super) fn reference(&self, order: u8) -> Option<Copied> {
        self.orders.get(&order).copied().flatten()
    }

    /// Returns the orders with a reference to a source.
    pub(super) fn references(&self, source: u8) -> impl Iterator<Item = (u8, Copied)> {
        let copies = self
            .orders
            .iter()
            .filter_map(|(order, copied)| Some((*order, (*copied)?)));
        copies.filter(move |(_, copied)| copied.source == source)
    }

    /// Writes the reference of an order by a single command, or by the commit of a transaction.
    pub(super) fn set(&mut self, order: u8, copied: Option<Copied>) {
        if let (Some(before), Some(after)) = (self.reference(order), copied) {
            self.went_back |= before.source == after.source && before.version > after.version;
        }
        self.orders.insert(order, copied);
        self.transactions.wrote(order_bit(order));
    }

    pub(super) fn is_stale(&self) -> bool {
        let copies = self.orders.values().flatten();
        copies
            .filter_map(|copied| Some((copied, self.source(copied.source)?)))
            .any(|(copied, source)| copied.version != source.version)
    }

    pub(super) fn is_dangling(&self) -> bool {
        let mut copies = self.orders.values().flatten();
        copies.any(|copied| self.source(copied.source).is_none())
    }
}

crate::stored!(Documents);
