//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`action`](mongo_patterns_core::action) for sessions, transactions and cancel safety.

mod maintain;
mod read;
mod write;

pub use maintain::MigrateExisting;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use read::{IntervalStream, Intervals};
pub use write::{End, Replace, Update};

/// The names that the actions use.
mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::intervals::repository::{IntervalRepository, Shared};
    pub(crate) use crate::intervals::results::*;
    pub(crate) use crate::prelude::*;
}
