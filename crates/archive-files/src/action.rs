//! The actions that the methods of [`FileArchive`](crate::FileArchive) return.

mod delete;
mod read;
mod restore;
mod run;
mod verify;

pub use delete::DeleteBefore;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::Verify;
pub use run::Run;
