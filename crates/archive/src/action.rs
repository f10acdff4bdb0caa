//! The actions that the methods of [`Archive`](crate::Archive) and [`Trash`](crate::Trash) return.

mod delete_before;
mod due;
mod get;
mod list;
mod repair;
mod restore;
mod restore_one;
mod run;
mod trash;
mod verify;

pub use delete_before::DeleteBefore;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::Verify;
pub use repair::{Keep, RepairArchive};
pub use restore::RestoreMany;
pub use restore_one::Restore;
pub use run::Run;
pub use trash::Delete;
