//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`mongo_patterns_core::action`] for sessions, transactions and cancel safety.

mod child;
mod children;
mod delete;
mod delete_parent;
mod follow;
mod get;
mod insert;
mod insert_many;
mod migrate_existing;
mod migrate_from_embedded;
mod migrate_layout_from;
mod rebuild;
mod rebuild_all;
mod repair;
mod replace;
mod update;
mod verify;

pub use child::FindChild;
pub use children::Children;
pub use delete::Delete;
pub use delete_parent::DeleteParent;
pub use follow::Follow;
pub use get::Get;
pub use insert::Insert;
pub use insert_many::InsertMany;
pub use migrate_existing::MigrateExisting;
pub use migrate_from_embedded::MigrateFromEmbedded;
pub use migrate_layout_from::MigrateLayoutFrom;
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use rebuild::Rebuild;
pub use rebuild_all::RebuildAll;
pub use replace::Replace;
pub use update::Update;

/// The names that most actions use.
mod prelude {
    pub(crate) use mongo_patterns_core::Removed;
    pub(crate) use mongo_patterns_core::action::{ActionFuture, run};
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::repository::SubsetRepository;
    pub(crate) use crate::repository::prelude::*;
    pub(crate) use crate::results::*;
    pub(crate) use crate::write;
    pub(crate) use crate::write::change::{Change, Write};
}
