use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, IndexMismatch, IndexMissing, InvalidArgument};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Key, Result, migration};

use crate::migrate::page_size::PageSizeMigration;
use crate::repository::{BucketRepository, Shared};
use crate::results::Migrated;

impl<K: Key, T> BucketRepository<K, T> {
    /// Migrates a live collection from this page size to the repository's: its index, its open buckets, and its old
    /// pages.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// // trades was built with the new page size
    /// let migration = trades.migrate_page_size_from(10).concurrency(2);
    /// let migrated = migration.on_progress(|at| println!("{} of {} buckets", at.done, at.total)).await?;
    /// println!("{} pages of {} keys were written", migrated.documents, migrated.keys);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// From some moment on, writers with the old page size get [`IndexMissing`], with nothing stored, and continue with the
    /// new one. An append at that moment can have an [unknown outcome](mongo_patterns_core::Error::is_outcome_unknown): with
    /// an item id, repeat it with the new size. No acknowledged write is lost. Readers of either size work all the time. No
    /// other index is dropped.
    ///
    /// - To larger pages: all keys are rewritten while writers with the old size continue. Then the old index is dropped,
    ///   concurrent changes are rewritten, and the new index is created. In between no client can append.
    /// - To smaller pages: the old index is dropped and the new one created. Then pages are split while writers with the new
    ///   size continue.
    ///
    /// Other findings of a key are [repaired](Self::repair) when its pages are rewritten.
    ///
    /// A [plan](MigratePageSize::plan) counts the keys to rewrite, and lists the commands for the indexes and the catalog.
    ///
    /// # Cost
    /// As [`repair`](Self::repair), for each key that has too many or too large pages. To larger pages, a second
    /// [`verify`](Self::verify). The server reads all buckets to create the index.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. The pages of a key are rewritten as a
    /// whole or not at all. Between the old and the new index, appends fail. Call it again: it resumes.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: the sizes are equal, or the old one is invalid.
    /// - [`IndexMismatch`]: the old index has another definition.
    /// - [`Corrupt`]: a key cannot be rewritten without a guess, as for [`repair`](Self::repair). To smaller pages this
    ///   error comes at the end, when all other keys are rewritten.
    pub fn migrate_page_size_from(&self, old: u32) -> MigratePageSize<'_, K> {
        MigratePageSize::with_defaults(self.shared(), old, PhantomData)
    }
}

migration! {
    /// Migrates to another page size; returned by [`BucketRepository::migrate_page_size_from`].
    pub struct MigratePageSize<'a, K> {
        shared: &'a Shared,
        old: u32,
            types: PhantomData<fn() -> K>,
    }
    "migrate_page_size_from" => Migrated where K: Key;
    one by one "keys", of "buckets";
}

impl<K: Key> MigratePageSize<'_, K> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        let migration = PageSizeMigration {
            shared: self.shared,
            old: self.old,
            concurrency: self.options.concurrency(),
            progress,
        };
        migration.migrate::<K>(conn).await
    }
}
