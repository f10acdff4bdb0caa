//! The calls as structs: each has the setters of its options, and is awaited.

mod adopt;
mod change_from;
mod child;
mod children;
mod consistency;
mod delete;
mod delete_parent;
mod ensure_indexes;
mod get;
mod insert;
mod insert_many;
mod move_from_embedded;
mod rebuild;
mod rebuild_all;
mod repair;
mod replace;
mod update;
mod verify;

pub use adopt::{Adopt, Adopted};
pub use change_from::{ChangeFrom, Changed};
pub use child::FindChild;
pub use children::{Children, ChildrenPage};
pub use consistency::FindConsistency;
pub use delete::{Delete, Deleted};
pub use delete_parent::{DeleteParent, DeletedParent};
pub use ensure_indexes::EnsureIndexes;
pub use get::Get;
pub use insert::{Insert, Inserted};
pub use insert_many::{InsertMany, InsertedMany};
pub use move_from_embedded::MoveFromEmbedded;
pub use rebuild::{Rebuild, Rebuilt};
pub use rebuild_all::{RebuildAll, RebuiltAll};
pub use repair::{Left, Repair, Repaired, RepairedStream};
pub use replace::Replace;
pub use update::{Update, Updated};
pub use verify::{FindingStream, Verify};
