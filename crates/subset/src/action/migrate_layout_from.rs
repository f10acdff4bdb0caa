use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::{ErrorKind::*, Repository};
use mongo_patterns_core::{Result, migration};

use crate::migrate;
use crate::repository::{Shared, SubsetRepository};
use crate::results::Migrated;

impl<P, C> SubsetRepository<P, C> {
    /// Migrates live collections from the [order](crate::Subset::sort), the [size](crate::Subset::size) and the [embedded
    /// fields](crate::Subset::embedded_fields) of an old repository to this one.
    ///
    /// It also adds a [total](crate::SubsetRepositoryBuilder::total_field), [further
    /// subsets](crate::SubsetRepositoryBuilder::subset) and [figures](crate::SubsetRepositoryBuilder#figures). Fields of the
    /// parent that are no longer written stay, with their indexes.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::{Subset, SubsetRepository, SubsetRepositoryBuilder};
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(
    /// #     by_date: SubsetRepository<i32, i32>,
    /// #     common: SubsetRepositoryBuilder<i32, i32>,
    /// # ) -> mongo_patterns::Result<()> {
    /// let by_stars = common.subset(Subset::new("reviews").sort(doc! { "stars": -1 })).build()?;
    /// println!("{} commands", by_stars.migrate_layout_from(&by_date).plan().await?.commands.len());
    /// let migrated = by_stars.migrate_layout_from(&by_date).await?;
    /// println!("{} parents, dropped the index {:?}", migrated.documents, migrated.dropped_index);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - **Another order**: creates the index of the new order, and drops the index of the old one if it has exactly the
    ///   expected definition. From then on, writes and pages by the old order fail with [`IndexMissing`], with nothing
    ///   stored: replace these clients. The migration writes every parent, so that no slower refresh can store an old
    ///   subset.
    /// - **Another size, other fields or other further subsets** with the same order: nothing can refuse writers with the
    ///   old settings, so replace these writers first. If one was still running, call this once more. So too if the index of
    ///   the old order is still needed: an old order by the child's id alone, ascending, or the order of a further subset.
    ///
    /// During the migration, each parent has a correct subset of either layout. It can be interrupted and called again.
    ///
    /// # Cost
    /// One round trip for each 10,000 parents, and a scan for stale parents, which read as many children as are embedded. It
    /// writes the parents whose subset changes, or all for another order, whose index reads all children once.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Each parent has a subset of the old
    /// layout or of the new one, and the old index may be dropped. Call it again: it resumes.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: the repositories differ in their collections, or in the names of subset, version, parent or
    ///   child id.
    /// - [`IndexMismatch`]: the index of the old order has another definition. Only the new index is created.
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes) and [`refresh_all`](Self::refresh_all).
    pub fn migrate_layout_from<'a, A, B>(&'a self, old: &'a SubsetRepository<A, B>) -> MigrateLayoutFrom<'a> {
        MigrateLayoutFrom::with_defaults(self.shared(), old.shared())
    }
}

migration! {
    /// Migrates from another order, size or other embedded fields; returned by
    /// [`SubsetRepository::migrate_layout_from`].
    pub struct MigrateLayoutFrom<'a> {
        shared: &'a Shared,
        old: &'a Shared,
    }
    "migrate_layout_from" => Migrated;
    in chunks of 10_000 "parents";
}

impl MigrateLayoutFrom<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        migrate::layout(self.shared, self.old, conn, progress).await
    }
}
