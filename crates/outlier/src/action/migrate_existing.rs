use std::sync::atomic::AtomicU64;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, SettingsMismatch};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Result, migration};

use crate::migrate::Existing;
use crate::repository::{OutlierRepository, Shared};
use crate::results::Migrated;

impl<D, E> OutlierRepository<D, E> {
    /// Migrates the documents of a live collection into the form of the repository. Arrays over the threshold are split.
    /// Overflow documents of the manual's form get a position and a count. A changed threshold or `max_overflow_elements`
    /// takes effect.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::{OutlierRepository, Repository};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let migrated = books.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// books.ensure_indexes().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Readers and writers of this crate may continue, with either settings. Stop programs that write without the
    /// repository. The migration needs no index: if [`ensure_indexes`](crate::Repository::ensure_indexes) fails because a
    /// document has several overflow documents of the manual's form, call this first.
    ///
    /// It rewrites each document in one transaction, as [`refresh`](Self::refresh) does, and does not read a document twice.
    /// So when writers with other settings have stopped, call it once more, or [`verify`](Self::verify). Orphaned overflow
    /// documents stay unchanged.
    ///
    /// A [plan](MigrateExisting::plan) lists the commands of about the first 100 lists, with their elements.
    ///
    /// # Invalid documents
    /// A list can be [skipped](MigrateExisting::skip_invalid) for one of these reasons. By default the first one is an error,
    /// after all other documents are rewritten.
    ///
    /// | reason | meaning |
    /// |---|---|
    /// | `no_array` | the array field of the main document is not an array |
    /// | `no_elements` | the elements of an overflow document are not an array |
    /// | `own_fields` | an overflow document to delete has fields of your own |
    /// | `too_large` | an overflow document would exceed 16 MiB |
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and as [`refresh`](Self::refresh) for each document that changes, and three round trips.
    /// A filter costs one more for each list, and a [progress callback](MigrateExisting::on_progress) one, in which the
    /// server reads the main documents.
    ///
    /// # Cancel safety
    /// Each document is rewritten as a whole or not at all. Call it again: it resumes.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: settings other than the limits contradict the [catalog](mongo_patterns_core::catalog), or,
    ///   without an entry there, the stored documents. Or a main document has another value than a boolean or `"true"` in
    ///   the field of the flag.
    /// - [`Configuration`]: the two collections are in two databases.
    /// - After all other documents are rewritten, the error of [`refresh`](Self::refresh) for a document that cannot be.
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting::with_defaults(self.shared())
    }
}

migration! {
    /// Migrates existing documents; returned by [`OutlierRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
    }
    "migrate_existing" => Migrated;
    one by one "documents", of "documents that may need it";
    of selected documents;
}

impl MigrateExisting<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (shared, options) = (self.shared, self.options);
        let existing = Existing {
            shared,
            options,
            listed: AtomicU64::new(0),
        };
        existing.migrate_all(conn, progress).await
    }
}
