//! The stored form: documents, layout, equality of elements, and validators. Pure.

pub(crate) mod document;
pub(crate) mod equality;
pub(crate) mod layout;
pub(crate) mod overflow;
pub(crate) mod split;
pub(crate) mod validator;
