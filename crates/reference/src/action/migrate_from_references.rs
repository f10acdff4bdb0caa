#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Contention, Corrupt, CountMismatch, DuplicateKey, IndexMissing, InvalidArgument, InvalidItemId,
    NotFound, TargetNotEmpty, TooLarge,
};
#[allow(unused_imports)] // the links of the documentation use the trait
use mongo_patterns_core::Repository;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Result, migration};

use crate::migrate::Migration;
use crate::repository::{ReferenceRepository, Shared};
use crate::results::Migrated;
use crate::settings::bare::FieldNames;

impl<D, S> ReferenceRepository<D, S> {
    /// Migrates from references: documents with the ids of their sources alone get copies of the sources, as
    /// [`insert`](Self::insert) stores them. Only ids pass through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// // { _id: 1, customerId: 456 } becomes { _id: 1, customer: { _id: 456, name: "Ann", v: 3 } }
    /// let plan = orders.migrate_from_references().from_field("customer", "customerId").plan().await?;
    /// println!("{} orders, by {} commands", plan.migrated.documents, plan.commands.len()); // nothing is written yet
    /// let migrated = orders.migrate_from_references().from_field("customer", "customerId").await?;
    /// println!("{} orders", migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It migrates all reference fields of the repository's own documents at once. The ids are in the [reference
    /// field](crate::ReferenceRepositoryBuilder::reference_field) itself, or in [another
    /// field](MigrateFromReferences::from_field), which the same write removes:
    ///
    /// | before | after |
    /// |---|---|
    /// | `customer: 456` | `customer: { _id: 456, name, v }` |
    /// | `customer: { _id: 456 }`, with or without other fields | the same, and these fields after the copy |
    /// | `products: [1, { _id: 2, quantity: 5 }]`, an array | `products: [{ _id: 1, name, v }, { _id: 2, name, v, quantity: 5 }]` |
    /// | `customerId: 456` | `customer: { _id: 456, name, v }` as the last field |
    /// | `customerId: null` | without the field, and without a reference |
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), such as `username`, the values are keys:
    ///
    /// | before | after |
    /// |---|---|
    /// | `author: "ann"` | `author: { _id: 7, username: "ann", name, v }` |
    /// | `author: { username: "ann", note: "x" }` | the same, and `note` after the copy |
    ///
    /// A [snapshot](crate::Reference::snapshot) with other copied fields beside the key keeps them, and gets the `_id`. The
    /// migration creates the index of the key, and stores the settings, before it checks the documents. A plan without this
    /// index is refused with [`IndexMissing`]: call [`ensure_indexes`](Self::ensure_indexes) first.
    ///
    /// References with a version, or with `deleted: true`, are extended already and stay. So do snapshots with copied
    /// fields, and documents with a missing or null reference. A document without an `_id` in the reference field is the id
    /// of a source itself.
    ///
    /// The migration also creates the [indexes](Self::indexes), and stores the settings in the
    /// [catalog](mongo_patterns_core::catalog).
    ///
    /// # Requirements
    /// Until it returns,
    ///
    /// - stop the programs that write references in the old form: repositories write the new one,
    /// - do not delete sources: [`delete_source`](Self::delete_source) does not find references in the old form,
    /// - with ids in another field, do not change references of documents that are not migrated,
    /// - with a source key, do not change the key of a source: another source can get the old key.
    ///
    /// Concurrent updates of sources, inserts of documents by repositories, and changes of other fields are safe.
    ///
    /// # Guarantees
    /// Idempotent: after an interruption, run it again until it returns. Each document gets all its copies at once, and only
    /// if its references are still the ones that the server has read. When it has returned, every copy that it wrote is
    /// current: it reads the sources of a chunk again, as [`insert`](Self::insert) does. A migration that resumes also
    /// updates all outdated copies.
    ///
    /// If a source is deleted nevertheless, its copy can be left with `deleted: true`.
    ///
    /// # Cost
    /// About ten round trips, six more the first time, and three for each chunk. The server reads all documents three times,
    /// the documents to migrate twice more, and their sources three times. A concurrently updated source costs one for each
    /// reference.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Each document is migrated or unchanged.
    /// Copies of the last chunk can be outdated. Call it again: it resumes.
    ///
    /// # Invalid documents
    /// A document can be [skipped](MigrateFromReferences::skip_invalid) for the first of these reasons:
    ///
    /// | reason | meaning |
    /// |---|---|
    /// | `no_array` | the field of an array of references has another value than an array |
    /// | `not_an_id` | a reference is null, an array, or of another type that an `_id` cannot have |
    /// | `twice` | an array refers to one source twice, by its key or its `_id` |
    /// | `other_value` | the reference field has another value than references, although the ids are in another field |
    /// | `other_reference` | the reference field refers to other sources than the field of the ids; by a source key, both have a value |
    /// | `reserved_field` | a reference by the source key has an `_id`, `deleted` or a version of its own, which would be lost |
    /// | `db_ref` | a reference is a DBRef, which an update with a pipeline converts |
    /// | `without_id` | a reference is a document without an `_id`, and no source has it as its `_id`: an update with a pipeline renames its field with the id |
    /// | `source_missing` | a source does not exist |
    /// | `source_version` | the version of a source is not an integer from 0 |
    /// | `too_large` | the document would exceed MongoDB's limit of 16 MiB |
    ///
    /// A run that resumes updates outdated copies of skipped documents too.
    ///
    /// # Errors
    /// With nothing written, and with a [document](mongo_patterns_core::Error::document_id) as an example, unless invalid
    /// documents are skipped:
    ///
    /// - [`InvalidItemId`]: a reference is not an id, or has another form, or an array refers to one source twice.
    /// - [`NotFound`]: a source does not exist.
    /// - [`TargetNotEmpty`]: the reference field has another value, or refers to other sources than the field of the ids.
    /// - [`Corrupt`]: the field of an array is not an array, or the version of a source is not an integer from 0.
    /// - [`TooLarge`]: a document would exceed 16 MiB.
    ///
    /// Also with nothing written:
    ///
    /// - [`Configuration`]: the field of the ids is not a plain field.
    /// - [`InvalidArgument`]: there is no such reference field, no document has the field of the ids, or another reference
    ///   has it. The server refuses the filter. The chunk size or the rate is 0. Or an unfinished migration has other
    ///   settings.
    /// - [`Driver`](mongo_patterns_core::ErrorKind::Driver): through a router, the database does not exist.
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// With the migration unfinished; run it again:
    ///
    /// - [`CountMismatch`]: there are documents in the old form, because another program wrote them.
    /// - [`Contention`]: another call has taken the migration over.
    /// - The errors of the driver, and [`DuplicateKey`] by a unique index of your own.
    pub fn migrate_from_references(&self) -> MigrateFromReferences<'_> {
        MigrateFromReferences::with_defaults(self.shared(), FieldNames::default())
    }
}

migration! {
    /// Migrates from references; returned by [`ReferenceRepository::migrate_from_references`].
    pub struct MigrateFromReferences<'a> {
        shared: &'a Shared,
        fields: FieldNames,
    }
    "migrate_from_references" => Migrated;
    in chunks of 1000 "documents";
    of selected documents;
}

impl MigrateFromReferences<'_> {
    /// Sets the field with the id of the source, or the array of ids, for one reference field: `customerId` for `customer`.
    /// The migration removes it. By default the ids are in the reference field itself.
    pub fn from_field(mut self, reference: impl Into<String>, field: impl Into<String>) -> Self {
        self.fields.add(reference.into(), field.into());
        self
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        let migration = Migration {
            shared: self.shared,
            fields: self.fields.checked(&self.shared.settings)?,
            options: self.options,
        };
        migration.migrate_all(conn, progress).await
    }
}
