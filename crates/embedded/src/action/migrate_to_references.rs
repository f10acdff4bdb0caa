use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::progress::{OnProgress, Progress, Reporter};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::referencing::Referencing;
use crate::migrate::run::check_settings;
use crate::migrate::to_references::ToReferences;
use crate::repository::Shared;
use crate::{EmbeddedRepository, Migrated, MigrationPlan};

impl<P, C> EmbeddedRepository<P, C> {
    /// Makes a document of its own of each child, with the `_id` of its parent in a field: the way back from
    /// [`migrate_from_references`](Self::migrate_from_references). The server does it, and nothing but the parents' ids passes through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Collection, bson::{Document, doc}};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns_core::Result<()> {
    /// let moved = patrons.migrate_to_references(&addresses, "patron_id").await?;
    /// println!("{} addresses of {} patrons", moved.children, moved.parents);
    /// // When you have looked at them:
    /// patrons.collection().update_many(doc! {}, doc! { "$unset": { "addresses": "" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A document is `_id`, the reference, and the fields of the child in their order. A child without an `_id` gets one of
    /// its parent's `_id` and its own id. The target gets an index on the reference. The order of a parent's children is
    /// not kept: where it matters, let a field of theirs tell it.
    ///
    /// The parents keep their arrays, which are yours to remove, with an update of all that has `$unset`.
    ///
    /// # Before
    /// Stop the writers of both collections, which must be in one database.
    ///
    /// # When it is interrupted
    /// Run it again until it returns. A document that is there stays, so nothing is lost or doubled.
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
    /// Nothing is written when an error is one of these:
    ///
    /// - [`Configuration`](mongo_patterns_core::ErrorKind::Configuration): the name of the reference is that of no plain field.
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): the collections are one, or of two databases; the reference is
    ///   the field of the child's id; or so many parents have children with a field of that name and another value in it.
    /// - [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt): the children of so many parents are no array, no documents, or have no id.
    /// - [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId): so many `_id`s would be those of several documents, as children of
    ///   different parents have the same.
    /// - [`TargetNotEmpty`](mongo_patterns_core::ErrorKind::TargetNotEmpty): the target has documents that are not those children.
    /// - [`IndexMismatch`](mongo_patterns_core::ErrorKind::IndexMismatch) and [`UnsupportedCollation`](mongo_patterns_core::ErrorKind::UnsupportedCollation) of the target.
    ///
    /// With these, the move is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`](mongo_patterns_core::ErrorKind::CountMismatch): at the end the target does not have exactly the children, because
    ///   something wrote to one of the collections.
    /// - [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey): a unique index of your own refused a document.
    /// - Those of the driver.
    pub fn migrate_to_references<D: Send + Sync>(
        &self,
        target: &Collection<D>,
        reference: impl Into<String>,
    ) -> MigrateToReferences<'_> {
        MigrateToReferences {
            shared: self.shared(),
            target: target.clone_with_type(),
            reference: reference.into(),
            chunk_children: CHUNK_CHILDREN,
            on_progress: None,
        }
    }
}

const CHUNK_CHILDREN: u64 = 100_000;

/// Makes documents of their own of children; made by [`EmbeddedRepository::migrate_to_references`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moved = patrons.migrate_to_references(&addresses, "patron_id").await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateToReferences<'a> {
    shared: &'a Shared,
    target: Collection<RawDocumentBuf>,
    reference: String,
    chunk_children: u64,
    on_progress: Option<OnProgress<'a>>,
}

impl<'a> MigrateToReferences<'a> {
    /// About how many children go by one command, at least one parent's; 100,000 by default.
    pub fn chunk_children(mut self, children: u64) -> Self {
        self.chunk_children = children;
        self
    }

    /// Is called after each chunk, with numbers of children.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// What it would do, and every command that it would send. It runs the checks, and writes nothing.
    ///
    /// # Cost
    /// Six round trips, two more where the target is not empty, and one for each 1000 parents. The server reads the parents
    /// three times, and this process holds their ids.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the move with which nothing is written.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_to_references"), |_| async move {
            let reference = self.field()?;
            self.moving(&reference).plan().await
        })
    }

    async fn execute(mut self) -> Result<Migrated> {
        let reference = self.field()?;
        let reporter = Reporter::new(self.on_progress.take());
        self.moving(&reference).run(reporter).await
    }

    fn field(&self) -> Result<FieldName> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let reference = self.reference.clone();
        check_settings(collection, &self.target, &self.target, reference, &settings.child_id)
    }

    fn moving<'m>(&'m self, reference: &'m FieldName) -> Referencing<'m> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let form = ToReferences {
            settings,
            target: self.target.name(),
            reference,
        };
        Referencing {
            form,
            parents: collection,
            target: &self.target,
            chunk_children: self.chunk_children,
        }
    }
}

impl<'a> IntoFuture for MigrateToReferences<'a> {
    type Output = Result<Migrated>;
    type IntoFuture = ActionFuture<'a, Migrated>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_to_references"), |_| self.execute())
    }
}

impl fmt::Debug for MigrateToReferences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateToReferences")
            .field("shared", self.shared)
            .field("target", &self.target.namespace())
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}
