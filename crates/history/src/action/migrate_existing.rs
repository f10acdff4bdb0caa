#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, SettingsMismatch, Unsupported};
#[allow(unused_imports)] // the links of the documentation use the trait
use mongo_patterns_core::Repository;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{FieldName, Result, migration};

use crate::migrate::existing;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Migrated;

impl<D> HistoryRepository<D> {
    /// Migrates existing collections: those that the manual's recipe has written, current documents without a history, and
    /// documents with an [embedded](MigrateExisting::embedded_versions) array of their earlier versions.
    ///
    /// It deletes revisions that are stored twice with equal content, creates the indexes, gives the number 1 and a time to
    /// current documents without them, and stores the missing copies of the current documents. It invents no missing revisions:
    /// [`verify`](Self::verify) reports them, and times that go back.
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<i32>) -> mongo_patterns::Result<()> {
    /// for planned in policies.migrate_existing().plan().await?.commands {
    ///     println!("{}: {}", planned.purpose, planned.command);
    /// }
    /// let migrated = policies.migrate_existing().await?;
    /// println!("{} revisions were stored twice", migrated.removed_duplicates);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Every write replaces the number and the time of a document. So the call refuses documents that have only one of the two
    /// fields: no repository has written it, and it is probably a field of your own with the name of
    /// [`revision_field`](crate::HistoryRepositoryBuilder::revision_field) or
    /// [`time_field`](crate::HistoryRepositoryBuilder::time_field). A document with both is taken for one
    /// of the recipe. With [embedded versions](MigrateExisting::embedded_versions), a time without a number is that of the
    /// newest version.
    ///
    /// Stop all programs that write to the collections without this crate first. Repositories can write during it: a document
    /// gets its number after its copy is stored, and before that they refuse to write it. It can be interrupted and called again.
    ///
    /// # Cost
    /// Ten round trips, seven more the first time, one for each chunk, and one for each further 1000 documents. If documents have
    /// no number, one more for each chunk, and another one with embedded versions. If numbers are stored twice, one more, two for
    /// each of these numbers, and one for each 1000 revisions to delete. The server reads both collections several times.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Call it again: each step is idempotent,
    /// and changes nothing of the documents that are migrated.
    ///
    /// # Errors
    /// With nothing changed: [`Unsupported`] on a standalone, [`SettingsMismatch`] when the
    /// [catalog](mongo_patterns_core::catalog) has other settings, and
    /// [`Corrupt`] when a document has no valid id, number or time, when one has the field of a deletion, or of the number
    /// and the time only one, when one has revisions and no number, and when two revisions with the same number differ. Those of
    /// [`ensure_indexes`](Self::ensure_indexes) after the deletion of equal revisions.
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting::with_defaults(self.shared(), None)
    }
}

migration! {
    /// Migrates existing collections; returned by [`HistoryRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
        embedded: Option<Result<FieldName>>,
    }

    /// Stores the elements of this array as the first revisions of its document, from the oldest, and removes the array.
    /// Each element is a version of the document, with its time.
    embedded_versions(array: impl Into<String>) => embedded = Some(FieldName::new(array));

    "migrate_existing" => Migrated;
    in chunks of 1000 "documents";
}

impl MigrateExisting<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        existing(self.shared, self.embedded.transpose()?.as_ref(), conn, progress).await
    }
}
