//! The actions that the methods of [`Archive`](crate::Archive) and [`Trash`](crate::Trash) return.

mod delete;
mod due;
mod find;
mod get;
mod restore;
mod run;
mod trash;
mod verify;

pub use delete::DeleteArchivedBefore;
pub use find::Find;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::Verify;
pub use restore::RestoreMany;
pub use run::Run;
pub use trash::{Delete, EmptyBefore, List};
