use mongo_patterns_core::migration;

use super::prelude::*;
use crate::migrate::to_references::Migration;
use crate::query::to_references::ToReferences;

impl<P, C> EmbeddedRepository<P, C> {
    /// Migrates to references: writes each child as a document of its own, with the `_id` of its parent in a field. The
    /// reverse of [`migrate_from_references`](Self::migrate_from_references). The server does the work; only the parents'
    /// ids pass through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::{Document, doc}};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns::Result<()> {
    /// let migrated = patrons.migrate_to_references(&addresses, "patron_id").await?;
    /// println!("{} addresses of {} patrons", migrated.children, migrated.parents);
    /// // When you have checked them:
    /// patrons.collection().update_many(doc! {}, doc! { "$unset": { "addresses": "" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A document is `_id`, the reference, and the fields of the child in their order. A child without an `_id` gets one of
    /// its parent's `_id` and its own id. The target gets an index on the reference. The order of a parent's children is
    /// lost: if it matters, keep it in a field of theirs. The parents keep their arrays: remove them with `$unset`.
    ///
    /// # Requirements
    /// Stop the writers of both collections, which must be in one database.
    ///
    /// # Guarantees
    /// Idempotent: after an interruption, run it again until it returns. A document that exists stays, so nothing is lost
    /// or doubled.
    ///
    /// # Cost
    /// Nine round trips, two more when it is run again, and some for each 1000 parents or 100,000 children. The server reads
    /// the parents six times.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Documents that are written stay.
    /// Call it again: it resumes.
    ///
    /// # Errors
    /// With nothing written:
    ///
    /// - [`Configuration`]: the reference is not the name of a plain field.
    /// - [`InvalidArgument`]: the collections are the same or in two databases; the reference is the child's id; or parents
    ///   have children with another value in a field of that name.
    /// - [`Corrupt`]: the children of parents are not an array, not documents, or have no id.
    /// - [`InvalidItemId`]: children of different parents have the same `_id`.
    /// - [`TargetNotEmpty`]: the target has documents other than these children.
    /// - [`IndexMismatch`] and [`UnsupportedCollation`] of the target.
    ///
    /// With the migration unfinished; run it again:
    ///
    /// - [`CountMismatch`]: at the end the target does not have exactly the children, because another program wrote to one
    ///   of the collections.
    /// - [`DuplicateKey`]: a unique index of your own refused a document.
    /// - Those of the driver.
    pub fn migrate_to_references<D: Send + Sync>(
        &self,
        target: &Collection<D>,
        reference: impl Into<String>,
    ) -> MigrateToReferences<'_> {
        MigrateToReferences::with_defaults(self.shared(), target.clone_with_type(), reference.into())
    }
}

migration! {
    /// Migrates to references; returned by [`EmbeddedRepository::migrate_to_references`].
    pub struct MigrateToReferences<'a> {
        shared: &'a Shared,
        target: Collection<RawDocumentBuf>,
        reference: String,
    }
    "migrate_to_references" => Migrated;
    in chunks of 100_000 "children";
}

impl MigrateToReferences<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, reporter: Reporter<'_>) -> Result<Migrated> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let chunk = self.chunk_size();
        let target = &self.target;
        let reference = check_settings(collection, target, target, self.reference, &settings.child_id)?;
        let migration = Migration {
            query: ToReferences {
                settings,
                target: target.name(),
                reference: &reference,
            },
            entry: self.shared.ensure().entry,
            parents: collection,
            target,
            options: &self.options,
            chunk,
        };
        migration.execute(conn, reporter).await
    }
}
