//! The state of a call.

use crate::subset::documents::{Child, Parent};

/// The change of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Inserts it.
    Insert(Child),
    /// Sets another rank.
    Update(Child),
    /// Deletes it.
    Delete(u8),
    /// Changes no child.
    Nothing,
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
    /// The first version that it read.
    pub(super) first: Option<u8>,
    /// The parent as it was read.
    pub(super) read: Parent,
    pub(super) top: Vec<Child>,
    pub(super) lowest: Option<Child>,
    pub(super) total: Option<u8>,
    pub(super) has_lost_to_two: bool,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// The naive forms: writes the child.
    Apply,
    /// The refresh: reads the parent.
    Read,
    /// The refresh: reads whether the collection has all embedded children.
    Check,
    /// The refresh: reads the first children.
    Top,
    /// The refresh: reads the second subset.
    Second,
    /// The refresh: reads the number of children, if the parent has it.
    Total,
    /// The refresh: writes the parent if it is as it was read.
    Swap,
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
