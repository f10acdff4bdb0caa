//! The migration to references.

use crate::repository::prelude::*;
use crate::results::MigratedToReferences;
use crate::settings::bare::BareField;

/// What the migration may drop although no source has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    /// Copies without a source.
    pub(crate) deleted: bool,
    /// Copies that do not follow their source.
    pub(crate) snapshots: bool,
}

/// The migration of all documents to the ids of their sources.
pub(crate) struct ToReferences<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) fields: Vec<BareField<'a>>,
    /// How many documents one command migrates.
    pub(crate) chunk_documents: u64,
    /// The most documents per second.
    pub(crate) rate: Option<u64>,
    pub(crate) dropped: Dropped,
}

impl ToReferences<'_> {
    #[allow(clippy::unused_async, dead_code)]
    pub(crate) async fn execute(
        &self,
        _steps: &mut Steps<'_, '_>,
        _reporter: Reporter<'_>,
    ) -> Result<MigratedToReferences> {
        Err(Error::new(ErrorKind::Unsupported, "not implemented yet"))
    }
}
