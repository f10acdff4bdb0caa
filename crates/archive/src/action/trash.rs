//! The calls of [`Trash`](crate::Trash).

mod delete;
mod delete_before;
mod list;
mod restore;
mod through;

pub use delete::Delete;
