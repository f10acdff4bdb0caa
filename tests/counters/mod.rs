//! Tests of counters: the views of articles.

pub(crate) mod documents;
pub(crate) mod flushes;
pub(crate) mod support;
