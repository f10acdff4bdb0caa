//! Tests of the pages of a query.

pub(crate) mod arrays;
pub(crate) mod beside_writers;
pub(crate) mod calls;
pub(crate) mod complete;
pub(crate) mod cost;
pub(crate) mod refused;
pub(crate) mod support;
pub(crate) mod tokens;
