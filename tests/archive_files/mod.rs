//! Tests of the archive in files: old documents in a directory or an object store.

pub(crate) mod concurrent;
pub(crate) mod killed;
pub(crate) mod memory;
pub(crate) mod run;
pub(crate) mod store;
