use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::progress::{OnProgress, Progress, Reporter};
use mongo_patterns_core::{FieldName, Result};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::embedding::Embedding;
use crate::migrate::from_references::FromReferences;
use crate::migrate::run::check_settings;
use crate::repository::Shared;
use crate::{EmbeddedRepository, Migrated, MigrationPlan};

impl<P, C> EmbeddedRepository<P, C> {
    /// Embeds the children of a collection, where each is a document that holds the `_id` of its parent in a field, in
    /// their parents. The server does it, and nothing but the parents' ids passes through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>) -> mongo_patterns_core::Result<()> {
    /// let moved = patrons.migrate_from_references(&addresses, "patron_id").await?;
    /// println!("{} addresses of {} patrons, {} of none", moved.children, moved.parents, moved.orphans);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A child is its document without the reference: `_id`, and all other fields in their order. The children of a parent
    /// come in the order of their `_id`, or of a [field](MigrateFromReferences::sort_by). A parent without children gets an
    /// empty array. Documents that refer to no parent are counted, and [`orphans`](Self::orphans) lists them. The source
    /// is only read, and is yours to drop, when you have looked at its orphans.
    ///
    /// # Before
    /// Stop the writers of the source, and do not write to the children of the parents before it is done. Both
    /// collections must be in one database, and the source needs an index that starts with the reference.
    ///
    /// # When it is interrupted
    /// Run it again until it returns. Each parent gets all its children at once, and one that has them is passed over, so
    /// nothing is lost or doubled, also when the server still goes on with the command of a client that was killed.
    /// Calling it once more changes nothing.
    ///
    /// # Cost
    /// Six round trips, one more where the child's id is not `_id`, and two for each 1000 parents. The server reads the
    /// source three times, by index where it gathers the children of a parent, and the parents four times.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Each parent has all of its
    /// children or none. Call it again: it resumes.
    ///
    /// # Errors
    /// Nothing is written when an error is one of these. It names a [document](mongo_patterns_core::Error::document_id).
    ///
    /// - [`Configuration`](mongo_patterns_core::ErrorKind::Configuration): the name of the reference or the sort field is that of no plain
    ///   field.
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): the collections are one, or of two databases, or the reference
    ///   is the field of the child's id.
    /// - [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing): the source has no index on the reference.
    /// - [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId): so many children have no id that can be used, or one that another
    ///   child of their parent has.
    /// - [`LimitReached`](mongo_patterns_core::ErrorKind::LimitReached): so many parents would have more children than they may.
    /// - [`TooLarge`](mongo_patterns_core::ErrorKind::TooLarge): so many parents would pass 16 MiB.
    /// - [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt): so many parents have something else than an array.
    /// - [`Unsupported`](mongo_patterns_core::ErrorKind::Unsupported): the server is older than MongoDB 5.0.
    /// - [`TargetNotEmpty`](mongo_patterns_core::ErrorKind::TargetNotEmpty): so many parents have other children than those that refer to them.
    ///
    /// With these, the move is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`](mongo_patterns_core::ErrorKind::CountMismatch): at the end a parent does not have as many children as refer to it,
    ///   because something wrote to one of the collections.
    /// - [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey): a unique index of your own refused a parent with its children.
    /// - Those of the driver.
    pub fn migrate_from_references<D: Send + Sync>(
        &self,
        source: &Collection<D>,
        reference: impl Into<String>,
    ) -> MigrateFromReferences<'_> {
        MigrateFromReferences {
            shared: self.shared(),
            source: source.clone_with_type(),
            reference: reference.into(),
            sort: None,
            chunk_parents: CHUNK_PARENTS,
            on_progress: None,
        }
    }
}

const CHUNK_PARENTS: u64 = 1000;

/// Embeds children that are documents of their own; made by [`EmbeddedRepository::migrate_from_references`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moving = patrons.migrate_from_references(&addresses, "patron_id").sort_by("city");
/// let plan = moving.plan().await?; // the checks, and nothing written
/// println!("{} addresses, {} of no patron", plan.children, plan.orphans);
/// patrons.migrate_from_references(&addresses, "patron_id").sort_by("city").await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateFromReferences<'a> {
    shared: &'a Shared,
    source: Collection<RawDocumentBuf>,
    reference: String,
    sort: Option<String>,
    chunk_parents: u64,
    on_progress: Option<OnProgress<'a>>,
}

impl<'a> MigrateFromReferences<'a> {
    /// The field by which the children of a parent are ordered, ascending; where it is equal, by their `_id`.
    pub fn sort_by(mut self, field: impl Into<String>) -> Self {
        self.sort = Some(field.into());
        self
    }

    /// How many parents get their children by one command; 1000 by default.
    pub fn chunk_parents(mut self, parents: u64) -> Self {
        self.chunk_parents = parents;
        self
    }

    /// Is called after each chunk, with numbers of parents. It takes one round trip more, to count them.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// What it would do, and every command that it would send. It runs the checks, and writes nothing.
    ///
    /// # Cost
    /// Four round trips, one more where the child's id is not `_id`, and one for each 1000 parents. The server reads source
    /// and parents once, and this process holds the ids of the parents.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the move with which nothing is written.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_from_references"), |_| async move {
            let (reference, sort) = self.fields()?;
            self.moving(&reference, sort.as_ref()).plan().await
        })
    }

    async fn execute(mut self) -> Result<Migrated> {
        let (reference, sort) = self.fields()?;
        let reporter = Reporter::new(self.on_progress.take());
        self.moving(&reference, sort.as_ref()).run(reporter).await
    }

    fn fields(&self) -> Result<(FieldName, Option<FieldName>)> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let reference = self.reference.clone();
        let reference = check_settings(collection, &self.source, collection, reference, &settings.child_id)?;
        Ok((reference, self.sort.clone().map(FieldName::of_element).transpose()?))
    }

    fn moving<'m>(&'m self, reference: &'m FieldName, sort: Option<&'m FieldName>) -> Embedding<'m> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let form = FromReferences {
            settings,
            parents: collection.name(),
            source: self.source.name(),
            reference,
            sort,
        };
        Embedding {
            form,
            parents: collection,
            source: &self.source,
            chunk_parents: self.chunk_parents,
        }
    }
}

impl<'a> IntoFuture for MigrateFromReferences<'a> {
    type Output = Result<Migrated>;
    type IntoFuture = ActionFuture<'a, Migrated>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_from_references"), |_| self.execute())
    }
}

impl fmt::Debug for MigrateFromReferences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateFromReferences")
            .field("shared", self.shared)
            .field("source", &self.source.namespace())
            .field("reference", &self.reference)
            .field("sort", &self.sort)
            .finish_non_exhaustive()
    }
}
