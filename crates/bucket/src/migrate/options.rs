//! The options of a migration.

use crate::prelude::*;

/// About how many items one command migrates.
const CHUNK_ITEMS: u64 = 100_000;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) chunk_items: u64,
    /// The most items per second.
    pub(crate) rate: Option<u64>,
    /// The documents of the source to migrate.
    pub(crate) filter: Document,
    /// The collection that lists the invalid documents, which are skipped then.
    pub(crate) skipped: Option<Collection<RawDocumentBuf>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chunk_items: CHUNK_ITEMS,
            rate: None,
            filter: Document::new(),
            skipped: None,
        }
    }
}
