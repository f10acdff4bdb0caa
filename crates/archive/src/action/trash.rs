//! The calls of [`Trash`](crate::Trash).

mod delete;
mod empty;
mod list;
mod restore;

pub use delete::Delete;
pub use empty::EmptyBefore;
pub use list::List;

mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(crate) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(crate) use crate::entry;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::trash::{Shared, Trash};
}
