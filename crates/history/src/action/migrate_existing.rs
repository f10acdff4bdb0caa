#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, SettingsMismatch};
#[allow(unused_imports)] // the links of the documentation use the trait
use mongo_patterns_core::Repository;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{FieldName, Result, migration};

use crate::migrate::existing;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Migrated;

impl<D> HistoryRepository<D> {
    /// Migrates existing collections: written by the manual's recipe, without a history, or with an
    /// [embedded](MigrateExisting::embedded_versions) array of earlier versions in each document.
    ///
    /// It deletes revisions that are stored twice with equal content, and creates the indexes. Current documents without a
    /// number get the number 1 and a time, and a copy. It invents no missing revisions: [`verify`](Self::verify) reports
    /// them, and times that go back.
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
    /// Every write replaces the number and the time of a document. So the call refuses documents with only one of the two
    /// fields, which is probably a field of your own with the name of
    /// [`revision_field`](crate::HistoryRepositoryBuilder::revision_field) or
    /// [`time_field`](crate::HistoryRepositoryBuilder::time_field). A document with both is taken for a document of the
    /// recipe. With [embedded versions](MigrateExisting::embedded_versions), a time without a number is the time of the
    /// newest version.
    ///
    /// Stop all programs that write to the collections without this crate first. Repositories can write during it: they
    /// refuse a document until it is migrated. It can be interrupted and called again.
    ///
    /// # Cost
    /// Ten round trips, seven more the first time, up to three for each chunk, and one for each further 1000 documents. If
    /// numbers are stored twice, two for each of these numbers. The server reads both collections several times.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Call it again: each step is
    /// idempotent.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: the [catalog](mongo_patterns_core::catalog) has other settings.
    /// - [`Corrupt`]: a document has no valid id, number or time, only one of number and time, revisions and no number, or
    ///   the field of a deletion. Or two revisions with the same number differ.
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes) after the deletion of equal revisions.
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
