#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Corrupt, CountMismatch, DuplicateKey, IndexMissing, InvalidArgument, InvalidItemId, LimitReached,
    TargetNotEmpty, TooLarge,
};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{FieldName, Result, migration};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::{Migration, check_settings};
use crate::query::from_references::FromReferences;
use crate::repository::{EmbeddedRepository, Shared};
use crate::results::Migrated;

impl<P, C> EmbeddedRepository<P, C> {
    /// Migrates from references: embeds the documents of a collection, each with the `_id` of its parent in a field, in
    /// their parents. Only the parents' ids pass through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>) -> mongo_patterns::Result<()> {
    /// let plan = patrons.migrate_from_references(&addresses, "patron_id").sort_by("city").plan().await?;
    /// println!("{} addresses, {} of no patron", plan.migrated.children, plan.migrated.orphans); // nothing is written yet
    /// let migrated = patrons.migrate_from_references(&addresses, "patron_id").sort_by("city").await?;
    /// println!("{} addresses of {} patrons", migrated.children, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A child is its document without the reference: `_id`, and all other fields in their order. The children of a parent
    /// are in the order of their `_id`, or of a [field](MigrateFromReferences::sort_by). A parent without children gets an
    /// empty array. Documents that refer to no parent are counted, and [`orphans`](Self::orphans) lists them. The source is
    /// only read: drop it when you have handled its orphans.
    ///
    /// # Requirements
    /// Stop the writers of the source, and do not write to the children of the parents until it returns. Both collections
    /// must be in one database, and the source needs an index that starts with the reference.
    ///
    /// Idempotent: after an interruption, run it again until it returns. A parent gets all its children at once, and a
    /// parent with children is skipped. So nothing is lost or doubled, even while the server still executes a command of a
    /// killed client.
    ///
    /// # Cost
    /// Seven to eleven round trips, and two for each 1000 parents. The server reads the source four times, by index when it
    /// gathers the children of a parent, and the parents five times.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Each parent has all of its children or
    /// none. Call it again: it resumes.
    ///
    /// # Errors
    /// With nothing written, and with a [document](mongo_patterns_core::Error::document_id) as an example:
    ///
    /// - [`Configuration`]: the reference or the sort field is not the name of a plain field.
    /// - [`InvalidArgument`]: the collections are the same or in two databases, or the reference is the child's id.
    /// - [`IndexMissing`]: the source has no index on the reference.
    /// - [`InvalidItemId`]: children have no valid id, or the id of another child of their parent. Children without a valid
    ///   id can be [skipped](MigrateFromReferences::skip_invalid), with the reason `child_id`.
    /// - [`LimitReached`]: parents would have more children than they may.
    /// - [`TooLarge`]: parents would exceed 16 MiB.
    /// - [`Corrupt`]: parents have a value other than an array.
    /// - [`TargetNotEmpty`]: parents have children that do not refer to them.
    ///
    /// With the migration unfinished; run it again:
    ///
    /// - [`CountMismatch`]: in the end a parent does not have the children that refer to it, because another program wrote
    ///   to one of the collections. Insert children that only a parent has into the source, remove the array from the
    ///   parent, and call it again.
    /// - The errors of the driver, and [`DuplicateKey`] by a unique index of your own on the parents.
    pub fn migrate_from_references<D: Send + Sync>(
        &self,
        source: &Collection<D>,
        reference: impl Into<String>,
    ) -> MigrateFromReferences<'_> {
        MigrateFromReferences::with_defaults(self.shared(), source.clone_with_type(), reference.into(), None)
    }
}

migration! {
    /// Migrates from references; returned by [`EmbeddedRepository::migrate_from_references`].
    pub struct MigrateFromReferences<'a> {
        shared: &'a Shared,
        source: Collection<RawDocumentBuf>,
        reference: String,
        sort: Option<String>,
    }
    "migrate_from_references" => Migrated;
    in chunks of 1000 "parents";
    of selected documents;
}

impl MigrateFromReferences<'_> {
    mongo_patterns_core::setters! {
        /// Sets the field by which the children of a parent are ordered, ascending, and then by `_id`.
        sort_by(field: impl Into<String>) => sort = Some(field.into());
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let reference = check_settings(collection, &self.source, self.reference, &settings.child_id)?;
        let sort = self.sort.map(FieldName::of_element).transpose()?;
        let migration = Migration {
            query: FromReferences {
                settings,
                parents: collection.name(),
                source: self.source.name(),
                reference: &reference,
                sort: sort.as_ref(),
                filter: &self.options.filter,
                skips_invalid: self.options.skipped.is_some(),
            },
            entry: self.shared.ensure().entry,
            parents: collection,
            source: &self.source,
            options: &self.options,
        };
        migration.migrate_all(conn, progress).await
    }
}
