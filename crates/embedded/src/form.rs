//! The stored form of parents and children: pure, without a server.

pub(crate) mod child_id;
pub(crate) mod document;
pub(crate) mod grandchild;
