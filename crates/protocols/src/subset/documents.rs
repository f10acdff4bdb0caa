//! The stored documents of the model, and the forms of its commands.

use crate::transactions::Transactions;
use crate::world::Stored;

/// The size of the subset.
pub const SIZE: usize = 2;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Reads the first children, and sets them.
    ReadAndSet,
    /// Pushes a new child, pulls a deleted one, and pushes the next one to its position.
    PushAndPull,
}

/// A child: its id and its rank.
pub type Child = (u8, u8);

/// The parent and the children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The parent.
    pub parent: Option<Parent>,
    /// The children, by id.
    pub children: Vec<Child>,
    /// Whether the parent has a second subset, which a refresh reads after the first one.
    pub second: bool,
    /// Whether a migration has marked the parent.
    pub marked: bool,
    /// The active call of a migration.
    pub run: u8,
    /// The number of active copies of a migration.
    pub copies: u8,
    pub(crate) transactions: Transactions,
}

/// The parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parent {
    /// The version; `None` if no repository has written the parent.
    pub version: Option<u8>,
    /// The embedded children.
    pub subset: Vec<Child>,
    /// The second subset: the child with the lowest rank, if the parent has one.
    pub lowest: Option<Child>,
    /// The number of children, if the parent has it.
    pub total: Option<u8>,
}

/// The bit of the parent.
pub(crate) const PARENT: u64 = 1;

/// Returns the bit of a child.
pub(crate) fn name(child: u8) -> u64 {
    1 << (1 + child)
}

/// Returns the first of some children.
pub fn top(children: &[Child]) -> Vec<Child> {
    let mut top = children.to_vec();
    top.sort_unstable_by_key(|(id, rank)| (u8::MAX - rank, *id));
    top.truncate(SIZE);
    top
}

/// Returns the last of some children.
pub(crate) fn lowest(children: &[Child]) -> Option<Child> {
    children.iter().copied().min_by_key(|(id, rank)| (*rank, *id))
}

impl Documents {
    /// Returns these children, with a parent that embeds the first of them.
    pub fn of(children: &[Child], total: bool) -> Self {
        let count = u8::try_from(children.len()).unwrap_or(u8::MAX);
        Self {
            parent: Some(Parent {
                version: Some(1),
                subset: top(children),
                total: total.then_some(count),
                ..Parent::default()
            }),
            children: children.to_vec(),
            ..Self::default()
        }
    }

    /// Returns the same, with a parent that also embeds the last of its children.
    #[must_use]
    pub fn with_second(mut self) -> Self {
        self.second = true;
        if let Some(parent) = &mut self.parent {
            parent.lowest = lowest(&self.children);
        }
        self
    }

    /// Returns a parent that has all its children embedded.
    pub fn embedded(embedded: &[Child]) -> Self {
        Self {
            parent: Some(Parent {
                subset: embedded.to_vec(),
                ..Parent::default()
            }),
            ..Self::default()
        }
    }

    /// Returns whether a child with this id exists.
    pub fn has(&self, id: u8) -> bool {
        self.children.iter().any(|(child, _)| *child == id)
    }

    /// Returns the number of children.
    pub(crate) fn count(&self) -> u8 {
        u8::try_from(self.children.len()).unwrap_or(u8::MAX)
    }

    /// Returns whether the subset and the total are correct. An unmanaged parent always is.
    pub fn is_correct(&self, total: bool) -> bool {
        self.parent.as_ref().is_none_or(|parent| {
            let is_total = !total || parent.total == Some(self.count());
            let is_second = !self.second || parent.lowest == lowest(&self.children);
            parent.is_unmanaged() || parent.subset == top(&self.children) && is_second && is_total
        })
    }

    /// Inserts a child, or replaces the one with its id.
    pub(crate) fn put(&mut self, child: Child) {
        self.children.retain(|(id, _)| *id != child.0);
        self.children.push(child);
        self.children.sort_unstable();
    }
}

impl Parent {
    /// Returns whether it has embedded children, and no repository has written it.
    pub fn is_unmanaged(&self) -> bool {
        self.version.is_none() && !self.subset.is_empty()
    }

    /// Returns the ids of the embedded children.
    pub(crate) fn ids(&self) -> Vec<u8> {
        self.subset.iter().map(|(id, _)| *id).collect()
    }

    /// Returns whether it equals the parent that was read, in what a refresh compares.
    pub(crate) fn is_as(&self, seen: &Self) -> bool {
        match seen.version {
            Some(_) => self.version == seen.version,
            None => self.version.is_none() && self.ids() == seen.ids(),
        }
    }
}

impl Stored for Documents {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    fn can_block(&self) -> bool {
        self.transactions.are_any() || self.copies > 0
    }
}
