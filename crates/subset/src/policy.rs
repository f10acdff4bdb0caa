//! What the user chooses.

/// What reads see between the write of a child and that of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// Child and parent are written in one transaction: no read ever finds a subset that is not the first of the
    /// children. Needs a replica set or a sharded cluster.
    Transactional,
    /// The child is written first, and its parent after it: a read in between finds the subset of before. When the
    /// writers of a parent have returned, its subset is right. A process that dies in between leaves it as it was, until
    /// the next write to the parent, or [`repair`](crate::SubsetRepository::repair).
    Eventual,
}

/// The direction of a field in the order of the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest first, as `1` in a sort of MongoDB.
    Ascending,
    /// The greatest first, as `-1`.
    Descending,
}

impl Direction {
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}
