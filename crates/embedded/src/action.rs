//! The actions that the methods of [`EmbeddedRepository`](crate::EmbeddedRepository) return, one file each.

mod migrate_from_references;
mod orphans;
mod read;
mod update;
mod verify;
mod write;

pub use migrate_from_references::MigrateFromReferences;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::Verify;

/// The names that most actions use.
mod prelude {
    pub(crate) use mongo_patterns_core::Removed;
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::form::child_id::ChildId;
    pub(crate) use crate::form::document::encode;
    pub(crate) use crate::migrate::check_settings;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query;
    pub(crate) use crate::repository::{EmbeddedRepository, Shared};
    pub(crate) use crate::results::*;
    pub(crate) use crate::write::{ChildWrite, Needs};
}
