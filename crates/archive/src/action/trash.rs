//! The calls of [`Trash`](crate::Trash).

mod delete;
mod delete_before;
mod list;
mod restore;
mod through;
mod verify;

pub use delete::Delete;
