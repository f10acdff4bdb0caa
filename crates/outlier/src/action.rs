//! The calls as structs: each has setters for its options, and runs when it is awaited.

mod contains;
mod count;
mod delete;
mod elements;
mod get;
mod get_full;
mod insert;
mod migrate_existing;
mod push;
mod push_many;
mod push_unique;
mod rebalance;
mod remove;
mod repair;
mod update_element;
mod verify;

pub use contains::Contains;
pub use count::Count;
pub use delete::Delete;
pub use elements::{ElementStream, Elements};
pub use get::Get;
pub use get_full::GetFull;
pub use insert::Insert;
pub use migrate_existing::MigrateExisting;
pub use push::Push;
pub use push_many::PushMany;
pub use push_unique::PushUnique;
pub use rebalance::Rebalance;
pub use remove::Remove;
pub use repair::Repair;
pub use update_element::UpdateElement;
pub use verify::Verify;

/// The names that most actions use.
mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};
    pub(crate) use mongo_patterns_core::{Removed, Updated};

    pub(crate) use crate::repository::OutlierRepository;
    pub(crate) use crate::repository::prelude::*;
    pub(crate) use crate::results::*;
}
