#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::Repository;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Result, migration};

use crate::migrate;
use crate::repository::{Shared, SubsetRepository};
use crate::results::Migrated;

impl<P, C> SubsetRepository<P, C> {
    /// Migrates two collections without subsets, or with subsets that were maintained by hand.
    ///
    /// It creates the indexes, refreshes all subsets, and counts the children without a parent.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// for planned in &products.migrate_existing().plan().await?.commands {
    ///     println!("{}: {}", planned.purpose, planned.command);
    /// }
    /// let migrated = products.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} parents, {} children without a parent", migrated.documents, migrated.orphans);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers of this crate. It can be interrupted and called again. Stop the programs that maintain
    /// subsets by hand first, because they do not increment the version.
    ///
    /// A parent can embed children that are not in their collection: leftovers, or children that were never
    /// [migrated](Self::migrate_from_embedded). Such parents stay unchanged and cause an error in the end, unless you
    /// [discard](MigrateExisting::discard_embedded) these children.
    ///
    /// # Cost
    /// As [`ensure_indexes`](Self::ensure_indexes), a [`refresh_all`](Self::refresh_all) that checks again, in chunks of
    /// 10,000 parents with one round trip each, and [`verify`](Self::verify).
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Each parent is either refreshed or
    /// unchanged. Call it again: it resumes.
    ///
    /// # Errors
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes), and of [`refresh_all`](Self::refresh_all).
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting::with_defaults(self.shared(), false)
    }
}

migration! {
    /// Migrates two existing collections; returned by [`SubsetRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
        discard_embedded: bool,
    }
    "migrate_existing" => Migrated;
    in chunks of 10_000 "parents";
}

impl MigrateExisting<'_> {
    mongo_patterns_core::setters! {
        /// Discards embedded children that are not in their collection and that no repository has embedded: leftovers of
        /// subsets that were maintained by hand.
        discard_embedded() => discard_embedded = true;
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        migrate::existing(self.shared, self.discard_embedded, conn, progress).await
    }
}
