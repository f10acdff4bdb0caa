//! The migration from references.

use crate::repository::prelude::*;
use crate::results::MigratedFromReferences;
use crate::settings::bare::BareField;

/// The migration of all documents to references with copies.
pub(crate) struct FromReferences<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) fields: Vec<BareField<'a>>,
    /// How many documents one command migrates.
    pub(crate) chunk_documents: u64,
    /// The most documents per second.
    pub(crate) rate: Option<u64>,
    /// The documents to migrate.
    pub(crate) filter: Document,
    /// The collection that lists invalid documents, which are skipped then.
    pub(crate) skipped: Option<Collection<RawDocumentBuf>>,
}

impl FromReferences<'_> {
    #[allow(clippy::unused_async, dead_code)]
    pub(crate) async fn execute(
        &self,
        _steps: &mut Steps<'_, '_>,
        _reporter: Reporter<'_>,
    ) -> Result<MigratedFromReferences> {
        Err(Error::new(ErrorKind::Unsupported, "not implemented yet"))
    }
}
