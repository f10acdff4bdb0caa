//! The stored form of parents and children, and positions among the children.

pub(crate) mod child;
pub(crate) mod parent;
pub(crate) mod token;
pub(crate) mod update;
