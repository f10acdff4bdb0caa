//! The actions that the methods of [`SchemaRepository`](crate::SchemaRepository) return.

mod find;
mod migrate;
mod read;
mod verify;
mod write;

pub use find::Find;
pub use migrate::Migrate;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::Verify;

/// The names that most actions use.
mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::convert;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query;
    pub(crate) use crate::repository::{SchemaRepository, Shared};
}
