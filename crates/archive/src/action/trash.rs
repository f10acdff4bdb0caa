//! The calls of [`Trash`](crate::Trash).

mod delete;
mod empty;
mod list;
mod restore;

pub use delete::Delete;
pub use empty::EmptyBefore;
pub use list::List;
