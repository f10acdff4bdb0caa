//! The actions that the methods of [`FileArchive`](crate::FileArchive) return.

mod delete;
mod read;
mod restore;
mod run;
mod verify;

pub use delete::DeleteBefore;
pub use mongo_patterns_core::action::{ActionFuture, Find, Write};
pub use mongo_patterns_core::verify::Verify;
pub use run::Run;
