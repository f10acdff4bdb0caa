//! Moves between references, where each child is a document that names its parent, and embedded children. The server
//! does the work, and nothing passes through the client.
//!
//! A move keeps no record of how far it is: what is done can be seen. A parent that has its children is passed over, and
//! a document that is there stays.

pub(crate) mod embedding;
pub(crate) mod from_references;
pub(crate) mod referencing;
pub(crate) mod run;
pub(crate) mod to_references;

/// What a move did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// How many parents there are.
    pub parents: u64,
    /// How many children they have, as counted on both sides at the end.
    pub children: u64,
    /// How many documents of the source were not moved, since there is no parent of the `_id` that they refer to;
    /// [`orphans`](crate::EmbeddedRepository::orphans) lists them.
    pub orphans: u64,
}
