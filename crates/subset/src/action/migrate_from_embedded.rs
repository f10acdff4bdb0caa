use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::{Error, ErrorKind, ErrorKind::*, Repository};
use mongo_patterns_core::{FoundInvalid, Result, migration};

use crate::migrate::from_embedded::FromEmbedded;
use crate::repository::{Shared, SubsetRepository};
use crate::results::Migrated;

impl<P, C> SubsetRepository<P, C> {
    /// Migrates children that are all embedded in their parents, in the field of the subset, into the collection of the
    /// children. Each parent keeps the first of them.
    ///
    /// Only the ids of the parents pass through the client.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let plan = products.migrate_from_embedded().plan().await?;
    /// println!("{} children of {} parents, by {} commands", plan.migrated.children, plan.migrated.documents, plan.commands.len());
    /// let migration = products.migrate_from_embedded().chunk(10_000);
    /// let migrated = migration.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} children of {} parents", migrated.children, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The document of a child has the `_id` of its parent, in the [parent
    /// field](crate::SubsetRepositoryBuilder::parent_field), followed by all fields of the embedded child in their order. It
    /// keeps its `_id`, or the server generates one. The migration also creates the indexes.
    ///
    /// Parents with a version were written by repositories. They stay unchanged.
    ///
    /// # Concurrent writers
    /// Writers of this crate and of the embedded pattern may continue. A write by this crate to a parent that is not
    /// migrated yet, or to its children, fails with [`NotMigrated`], with nothing stored: retry it later. A call of
    /// `EmbeddedRepository` fails with [`NewerVersion`] from the moment when its parent is marked, by a version that is
    /// null. An abandoned migration leaves this mark in the parents of one chunk, where `$unset` removes it. Smaller
    /// [chunks](MigrateFromEmbedded::chunk) shorten the time that one parent takes.
    ///
    /// Stop other programs that embed children. What they embed stays in the parent, until a write of this repository
    /// replaces the subset: [`verify`](Self::verify) reports it as [`NotStored`](crate::Problem::NotStored), and this call
    /// as [`CountMismatch`]. [`get`](Self::get) returns all embedded children before a parent is migrated, and the first of
    /// them afterwards. [`children`](Self::children) and [`child`](Self::child) find them afterwards.
    ///
    /// # Interruptions
    /// Call it again until it returns. No interruption loses or duplicates a child: a parent drops embedded children only
    /// when all of them are stored, and stored children stay unchanged. One more call changes nothing.
    ///
    /// The collection `mongo_patterns` of the database records which call is active. So an earlier call, which the server
    /// may still execute, cannot insert children again that were deleted since.
    ///
    /// # Invalid documents
    /// A parent can be [skipped](MigrateFromEmbedded::skip_invalid) for the first of these reasons. Calls that need the
    /// children of a skipped parent return [`NotMigrated`].
    ///
    /// | reason | meaning |
    /// |---|---|
    /// | `no_array` | the field of the subset has another value than an array |
    /// | `no_parent_id` | the `_id` is one by which no child can refer to the parent |
    /// | `no_document` | it embeds values that are not documents |
    /// | `no_id` | it embeds children without a valid id |
    /// | `twice` | it embeds several children with the same id |
    /// | `other_parent` | it embeds children of another parent |
    /// | `array_in_order` | it embeds children with an array in a field of the order or of a figure |
    ///
    /// # Cost
    /// Four round trips a chunk, and at the end a [`refresh_all`](Self::refresh_all) that checks again. The server reads the
    /// parents up to five times. If the collection of the children is not empty, it reads the children of each parent once
    /// more.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Call it again: it resumes, and returns
    /// `Contention` while the server still executes the dropped call.
    ///
    /// # Errors
    /// With nothing written, and with the [id](Error::document_id) of a parent as an example:
    ///
    /// - [`InvalidItemId`]: parents embed children without a valid id, or two with the same id, or several embedded children
    ///   share an `_id`.
    /// - [`Corrupt`]: the field of the subset is not an array of documents, or two stored children have the same parent and
    ///   id.
    /// - [`InvalidArgument`]: embedded children have another value in the parent field, or an array in a field of the order.
    ///   An unfinished migration has other names. The chunk size is 0. Or the field of the version does not have the default
    ///   name, by which `EmbeddedRepository` knows migrated parents.
    /// - [`TargetNotEmpty`]: see [`allow_non_empty_target`](MigrateFromEmbedded::allow_non_empty_target).
    /// - The errors of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// With the migration unfinished, so that it can be resumed:
    ///
    /// - [`CountMismatch`]: another program embedded children concurrently. Stop it. If its parent is not migrated, call
    ///   this again with [`allow_non_empty_target`](MigrateFromEmbedded::allow_non_empty_target). If it is, the error says
    ///   so: [insert](Self::insert_many) the children that only the parent has, or discard them by
    ///   [`refresh`](Self::refresh).
    /// - [`DuplicateKey`]: a unique index refused a child.
    /// - [`Contention`]: another call has taken the migration over, or the server still executes an earlier one.
    /// - The errors of the driver.
    pub fn migrate_from_embedded(&self) -> MigrateFromEmbedded<'_> {
        MigrateFromEmbedded::with_defaults(self.shared(), false)
    }
}

migration! {
    /// Migrates embedded children into their collection; returned by [`SubsetRepository::migrate_from_embedded`].
    pub struct MigrateFromEmbedded<'a> {
        shared: &'a Shared,
        allow_non_empty_target: bool,
    }
    "migrate_from_embedded" => Migrated;
    in chunks of 100_000 "children";
    of selected documents;
}

impl<'a> MigrateFromEmbedded<'a> {
    mongo_patterns_core::setters! {
        /// Migrates into a collection of children that is not empty. A stored child with the parent and the id of an
        /// embedded child must have the same content. Otherwise nothing is migrated.
        allow_non_empty_target() => allow_non_empty_target = true;
    }

    /// Finds the parents that cannot be migrated. Writes nothing.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let found = products.migrate_from_embedded().find_invalid(None).await?;
    /// println!("{} of {} parents: {}", found.invalid.total(), found.checked, found.filter);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// The server reads the parents, or a random sample of this number of parents with embedded children.
    ///
    /// # Errors
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): the server refuses the [filter](Self::filter).
    pub fn find_invalid(self, sample: Option<u32>) -> ActionFuture<'a, FoundInvalid> {
        run(self.shared.operation("migrate_from_embedded"), async move {
            self.migration().find_invalid(sample).await
        })
    }

    fn migration(self) -> FromEmbedded<'a> {
        FromEmbedded {
            shared: self.shared,
            allow_non_empty_target: self.allow_non_empty_target,
            options: self.options,
        }
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        self.migration().migrate(conn, progress).await
    }
}
