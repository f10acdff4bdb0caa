use mongo_patterns_core::migration;

use super::prelude::*;
use crate::migrate::to_references::ToReferences;
use crate::query::to_references::Dropped;
use crate::settings::bare::FieldNames;

impl<D, S> ReferenceRepository<D, S> {
    /// Migrates to references: drops the copies, and keeps the ids of the sources alone. The reverse of
    /// [`migrate_from_references`](Self::migrate_from_references). The server does the work; only the ids of the documents
    /// pass through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// // { _id: 1, customer: { _id: 456, name: "Ann", v: 3 } } becomes { _id: 1, customerId: 456 }
    /// let migrated = orders.migrate_to_references().to_field("customer", "customerId").await?;
    /// println!("{} orders", migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It migrates all reference fields of the repository's own documents at once. An id replaces its reference, or is
    /// stored in [another field](MigrateToReferences::to_field) by the write that removes the reference field. Documents
    /// with a missing or null reference have none afterwards, and ids alone stay.
    ///
    /// It drops nothing that is stored nowhere else. So it refuses references with fields of their own, such as a quantity,
    /// and, unless you [allow](MigrateToReferences::drop_snapshots) [it](MigrateToReferences::drop_deleted), snapshots, and
    /// copies whose source does not exist.
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), its value is kept in place of the id, as the copy has
    /// it. A copy with another value than its source is refused. Do not change the key of a source until it returns.
    ///
    /// The indexes and the entry in the [catalog](mongo_patterns_core::catalog) stay.
    ///
    /// # Requirements
    /// Stop the programs that insert documents or change references through repositories, and do not delete sources until
    /// it returns. Concurrent updates of sources, and changes of other fields, are safe.
    ///
    /// # Guarantees
    /// Idempotent: after an interruption, run it again until it returns. Each document is migrated at once.
    ///
    /// # Cost
    /// About seven round trips, and two for each chunk. The server reads all documents three times, those to migrate once
    /// more, by id, and their sources once.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Each document is migrated or
    /// unchanged. Call it again: it resumes.
    ///
    /// # Errors
    /// With nothing written, and with a [document](mongo_patterns_core::Error::document_id) as an example:
    ///
    /// - [`NotMigrated`]: references have fields of their own, the copies are snapshots, or the source of a copy does not
    ///   exist, or has another key.
    /// - [`Corrupt`]: a reference field has another value than references.
    /// - [`TargetNotEmpty`]: the field for the ids has another value.
    /// - [`InvalidItemId`]: the id of a source is a document with an `_id`, which is not distinguished from a reference.
    ///
    /// Also with nothing written:
    ///
    /// - [`Configuration`]: the field for the ids is not a plain field.
    /// - [`InvalidArgument`]: there is no such reference field; the field for the ids is one of another reference;
    ///   `drop_deleted()` is set beside a source key, which another source can have by now; the chunk
    ///   size or the rate is 0; or an unfinished migration has other settings.
    /// - [`SettingsMismatch`]: the catalog has other settings.
    ///
    /// With the migration unfinished; run it again:
    ///
    /// - [`CountMismatch`]: at the end there are documents with copies, because another program wrote them.
    /// - [`Contention`]: another call has taken the migration over.
    /// - [`DuplicateKey`]: a unique index of your own refused a document.
    /// - Those of the driver.
    pub fn migrate_to_references(&self) -> MigrateToReferences<'_> {
        MigrateToReferences::with_defaults(self.shared(), FieldNames::default(), Dropped::default())
    }
}

migration! {
    /// Migrates to references; returned by [`ReferenceRepository::migrate_to_references`].
    pub struct MigrateToReferences<'a> {
        shared: &'a Shared,
        fields: FieldNames,
        dropped: Dropped,
    }

    /// Drops also copies that may be the last ones: those with `deleted: true`, and those whose source does not exist. Their
    /// ids stay.
    drop_deleted() => dropped.deleted = true;

    /// Drops also [snapshots](crate::Reference::snapshot), such as the price that was paid, which no source has. Their ids
    /// stay.
    drop_snapshots() => dropped.snapshots = true;

    "migrate_to_references" => Migrated;
    in chunks of 1000 "documents";
}

impl MigrateToReferences<'_> {
    /// Sets the field for the id of the source, or for the array of ids, for one reference field: `customerId` for
    /// `customer`. By default the ids stay in the reference field itself. The migration removes the reference field then.
    pub fn to_field(mut self, reference: impl Into<String>, field: impl Into<String>) -> Self {
        self.fields.add(reference.into(), field.into());
        self
    }

    async fn migrate(self, conn: &mut Conn<'_>, reporter: Reporter<'_>) -> Result<Migrated> {
        let migration = ToReferences {
            shared: self.shared,
            fields: self.fields.checked(&self.shared.settings)?,
            chunk: self.chunk_size(),
            options: self.options,
            dropped: self.dropped,
        };
        migration.execute(conn, reporter).await
    }
}
