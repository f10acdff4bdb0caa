//! The state of a call.

use crate::subset::{Child, Parent};

/// The change of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts it.
    Insert(Child),
    /// Sets another rank.
    Update(Child),
    /// Deletes it.
    Delete(u8),
    /// Changes no child, and rebuilds the parent.
    Nothing,
}

/// The consistency of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The parent is correct when all calls have returned.
    Eventual,
    /// The parent is always correct.
    Transactional,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It took effect.
    Done,
    /// The child exists already.
    Exists,
    /// The child or the parent does not exist.
    NotFound,
    /// The parent has embedded children that were not migrated.
    NotMigrated,
}

/// The active refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Refresh {
    /// The first version that it read and that counts.
    pub(super) first: Option<u8>,
    /// The parent as it was read, or assumed by its cached version.
    pub(super) read: Parent,
    pub(super) top: Vec<Child>,
    pub(super) lowest: Option<Child>,
    pub(super) total: Option<u8>,
    /// Whether it is the parent's first write, before any change of its children.
    pub(super) is_first_write: bool,
    /// The outcome of the call that the child already determines: it exists, or does not.
    pub(super) ends: Option<Ended>,
    pub(super) has_lost_to_two: bool,
}

impl Refresh {
    /// Returns whether a subset that was read has this child.
    pub(super) fn embeds(&self, id: u8) -> bool {
        self.top.iter().chain(&self.lowest).any(|(child, _)| *child == id)
    }

    /// Returns whether a parent has the subsets that were read.
    pub(super) fn is_as_stored(&self, parent: &Parent) -> bool {
        parent.subset == self.top && parent.lowest == self.lowest
    }
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// Reads the parent, before anything else.
    Find,
    /// Writes the child.
    Apply,
    /// The refresh: reads the parent.
    Read,
    /// The refresh: reads whether the collection has all embedded children.
    Check,
    /// The refresh: reads the first children.
    Top,
    /// The refresh: reads the second subset.
    Second,
    /// The refresh: reads the parent whose version was cached.
    ReadAgain,
    /// The refresh: reads the number of children.
    Total,
    /// The refresh: writes the parent if it is as it was read.
    Swap,
    /// Deletes an inserted child whose parent does not exist any more.
    Orphaned,
    /// The transaction: begins, and increments the version.
    Begin,
    /// The transaction: writes the child. It has the children of the snapshot.
    ApplyIn(Vec<Child>),
    /// The transaction: reads the first children, writes the parent, and commits.
    Commit(Vec<Child>),
    /// The transaction of a process that has written the parent before: begins, and writes the child.
    BeginWithChild,
    /// The same: writes the parent. It has the snapshot, and whether the parent has a version in it.
    Lock(Vec<Child>, bool),
    /// The naive forms: pushes or pulls the child.
    PushOrPull,
    /// The naive forms: reads the first children.
    ReadNext,
    /// The naive forms: sets them, or pushes the last of them.
    SetOrPush,
    Ended(Ended),
}
