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
#[cfg(feature = "files")]
pub(crate) use run::{begin, older_than};
pub use trash::{Delete, EmptyBefore, List};

/// The names that most actions use.
mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::archive::{Archive, Shared};
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query;
}
