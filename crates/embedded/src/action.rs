//! The calls of a repository: one file each, with its method, its action and its work.

mod add_child;
mod child;
mod ensure_indexes;
mod get;
mod insert;
mod migrate_from_references;
mod migrate_to_references;
mod orphans;
mod remove_child;
mod reorder_children;
mod replace_child;
mod update_child;
mod verify;

pub use add_child::AddChild;
pub use child::FindChild;
pub use ensure_indexes::EnsureIndexes;
pub use get::Get;
pub use insert::{Insert, Inserted};
pub use migrate_from_references::MigrateFromReferences;
pub use migrate_to_references::MigrateToReferences;
pub use orphans::{Orphan, OrphanStream, Orphans};
pub use remove_child::{RemoveChild, Removed};
pub use reorder_children::ReorderChildren;
pub use replace_child::ReplaceChild;
pub use update_child::{UpdateChild, Updated};
pub use verify::{FindingStream, Verify};
