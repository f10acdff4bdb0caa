#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, Encode, InvalidItemId, InvalidKey, TargetNotEmpty};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::key::KeyExpressions;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{FieldName, Key, Result, migration};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::migration::{Direction, Migration};
use crate::query::to_flat::ToFlat;
use crate::repository::{BucketRepository, Shared};
use crate::results::Migrated;

impl<K: Key, T> BucketRepository<K, T> {
    /// Migrates all items of this repository into a flat collection, one document an item. No document passes through the
    /// client.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(trades: BucketRepository<u32, i32>, flat: Collection<Document>)
    /// # -> mongo_patterns::Result<()> {
    /// let plan = trades.migrate_to_flat(&flat).plan().await?; // runs the checks, and writes nothing
    /// println!("{} items, by {} commands", plan.migrated.items, plan.commands.len());
    /// let migrated = trades.migrate_to_flat(&flat).on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} items of {} keys", migrated.items, migrated.keys);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A flat document is `_id`, the key field, and the fields of the item in their order. Its `_id` is the `_id` of the
    /// item if it has one. Otherwise it is the bucket's `_id`, `_`, and the position in it from 0: `123_1698335223_0`. The
    /// buckets are only read: drop them when you like.
    ///
    /// Stop the writers of the buckets and of the flat collection first. Both must be in one database. For
    /// interruptions see [`migrate_from_flat`](Self::migrate_from_flat).
    ///
    /// # Cost
    /// As [`migrate_from_flat`](Self::migrate_from_flat). Chunks are ranges of the buckets' `_id`, so it needs no other
    /// index.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Call it again with the same settings:
    /// it resumes.
    ///
    /// # Errors
    /// With these, nothing is written. The error has the number of the documents or items:
    ///
    /// - [`Corrupt`]: buckets violate the invariants of the pattern.
    /// - [`Encode`]: items are not documents.
    /// - [`InvalidKey`]: items have a field with the key field's name, and another value in it.
    /// - [`InvalidItemId`]: items have an `_id` that another item has, or that no document can have.
    /// - [`TargetNotEmpty`]: the flat collection has documents; see
    ///   [`allow_non_empty_target`](MigrateToFlat::allow_non_empty_target).
    /// - `Configuration`, `InvalidArgument` and `Unsupported` as for [`migrate_from_flat`](Self::migrate_from_flat), and
    ///   `Unsupported` when the flat collection is a view.
    ///
    /// With `CountMismatch`, `Contention`, `DuplicateKey` and errors of the driver the migration is unfinished: run it
    /// again.
    pub fn migrate_to_flat<C: Send + Sync>(&self, flat: &Collection<C>) -> MigrateToFlat<'_> {
        MigrateToFlat::with_defaults(self.shared(), flat.clone_with_type(), K::expressions, None, false)
    }
}

migration! {
    /// Migrates buckets into a flat collection; returned by [`BucketRepository::migrate_to_flat`].
    pub struct MigrateToFlat<'a> {
        shared: &'a Shared,
        flat: Collection<RawDocumentBuf>,
        expressions: fn(&str) -> KeyExpressions,
        key: Option<String>,
        allow_non_empty_target: bool,
    }
    "migrate_to_flat" => Migrated;
    in chunks of 100_000 "items";
}

impl MigrateToFlat<'_> {
    mongo_patterns_core::setters! {
        /// Sets the key field of the flat documents; by default the key field of the buckets.
        key_field(name: impl Into<String>) => key = Some(name.into());
        /// Allows a flat collection that has documents with other keys and other `_id`s. If a key is in both collections,
        /// nothing is migrated.
        allow_non_empty_target() => allow_non_empty_target = true;
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        self.migration()?.migrate(conn, progress).await
    }

    fn migration(&self) -> Result<Migration<'_>> {
        let settings = &self.shared.settings;
        let key = self.key.clone().map(FieldName::new).transpose()?;
        let form = ToFlat {
            settings,
            key: key.unwrap_or_else(|| settings.key.clone()),
            expressions: self.expressions,
        };
        Ok(Migration {
            direction: Direction::ToFlat(form),
            source: &self.shared.collection,
            ensure: self.shared.ensure(),
            target: &self.flat,
            allow_non_empty_target: self.allow_non_empty_target,
            options: &self.options,
        })
    }
}
