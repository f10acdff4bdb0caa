use std::fmt;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::progress::{OnProgress, Progress, Reporter};

use crate::SubsetRepository;
use crate::migrate::from_embedded::Moving;
use crate::migrate::plan::MigrationPlan;
use crate::migrate::{CHUNK, Migrated};
use crate::repository::Shared;

impl<P, C> SubsetRepository<P, C> {
    /// Moves children that are all embedded in their parents, in the field of the subset, into the collection of the
    /// children. Each parent keeps the first of them. The server does it, and nothing but the parents' ids passes through
    /// the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let plan = products.migrate_from_embedded().plan().await?;
    /// println!("{} children of {} parents, by {} commands", plan.children, plan.parents, plan.commands.len());
    /// let moved = products.migrate_from_embedded().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} children of {} parents", moved.children, moved.parents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A child's document is the `_id` of its parent, in the [parent
    /// field](crate::SubsetRepositoryBuilder::parent_field), and all fields of the embedded child in their order, whatever
    /// their names. It keeps its `_id`, or gets one from the server. The indexes are created.
    ///
    /// # Who may write meanwhile
    /// Stop the programs that embed children. Writers of this crate may go on. A write to a parent that is not moved yet,
    /// or to its children, is refused with [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) and nothing stored: try
    /// it again when the move has come to that parent. With smaller [chunks](MigrateFromEmbedded::chunk_children) a parent is
    /// between the two for a shorter time. [`get`](Self::get) finds all children embedded before a parent is moved, and
    /// the first of them after it; [`children`](Self::children) and [`child`](Self::child) find them after it.
    ///
    /// Parents that repositories have written have a version, and are passed over.
    ///
    /// # When it is interrupted
    /// Call it again until it returns. Wherever it was killed, nothing is lost or doubled: a parent gives up children only
    /// where all of them are in the collection, and what is there stays. Calling it once more changes
    /// nothing. Which call is at work is noted in the collection `mongo_patterns_moves` of the database, so that an earlier
    /// one, with which the server may still go on, cannot bring back what was deleted since.
    ///
    /// # Cost
    /// The server reads the parents that are to be moved once or twice to check them, and twice, by id, to move them. A
    /// chunk is three round trips. It ends with [`rebuild_all`](Self::rebuild_all). Where the collection of the children is not empty, the
    /// children of each parent are read once more to compare them.
    ///
    /// # Cancel safety
    /// It stops between two commands, and the server may still execute the last one. Nothing is lost or doubled. Call
    /// it again: it resumes, and returns `Contention` while the server is still at work for the dropped call.
    ///
    /// # Errors
    /// Nothing is written when an error is one of these. It names one [parent](mongo_patterns_core::Error::document_id):
    ///
    /// - [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId): so many parents have embedded children without
    ///   an id that can be used, or two with the same; or `_id`s are those of several embedded children.
    /// - [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt): so many have something else than an array of documents, or two documents that
    ///   are in the collection of the children have the same parent and id.
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): so many have embedded children with another
    ///   value in the parent field, or an array in a field of the order; an unfinished move was begun with other names;
    ///   or a chunk is to be of no child.
    /// - [`TargetNotEmpty`](mongo_patterns_core::ErrorKind::TargetNotEmpty): see
    ///   [`allow_non_empty_target`](MigrateFromEmbedded::allow_non_empty_target).
    /// - Those of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// With these, the move is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`](mongo_patterns_core::ErrorKind::CountMismatch): something embedded children meanwhile.
    /// - [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey): a unique index refused a child.
    /// - [`Contention`](mongo_patterns_core::ErrorKind::Contention): another call has taken the move over, or an earlier
    ///   one is still at work at the server.
    /// - Those of the driver.
    pub fn migrate_from_embedded(&self) -> MigrateFromEmbedded<'_> {
        MigrateFromEmbedded {
            shared: self.shared(),
            allow_non_empty_target: false,
            chunk_children: CHUNK,
            on_progress: None,
        }
    }
}

/// Moves embedded children into their collection; made by [`SubsetRepository::migrate_from_embedded`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// println!("{} commands", products.migrate_from_embedded().plan().await?.commands.len());
/// let moving = products.migrate_from_embedded().allow_non_empty_target().chunk_children(10_000);
/// moving.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateFromEmbedded<'a> {
    shared: &'a Shared,
    allow_non_empty_target: bool,
    chunk_children: u64,
    on_progress: Option<OnProgress<'a>>,
}

impl<'a> MigrateFromEmbedded<'a> {
    /// Moves also when the collection of the children has documents already. One that has the parent and the id of an
    /// embedded child must have its content, too: otherwise nothing is moved.
    pub fn allow_non_empty_target(mut self) -> Self {
        self.allow_non_empty_target = true;
        self
    }

    /// About how many children go in one chunk, at least one parent's; 100,000 by default.
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
    /// Some six round trips, and one for each 1000 parents. The server reads the parents that are to be moved once or
    /// twice to check them, and this process holds the ids of all of them.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the move with which nothing is written.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_from_embedded"), |_| async move {
            self.moving().plan().await
        })
    }

    fn moving(&self) -> Moving<'a> {
        Moving {
            shared: self.shared,
            allow_non_empty_target: self.allow_non_empty_target,
            chunk_children: self.chunk_children,
        }
    }
}

impl<'a> IntoFuture for MigrateFromEmbedded<'a> {
    type Output = Result<Migrated>;
    type IntoFuture = ActionFuture<'a, Migrated>;

    fn into_future(self) -> Self::IntoFuture {
        let moving = self.moving();
        run(self.shared.operation("migrate_from_embedded"), move |_| {
            moving.run(Reporter::new(self.on_progress))
        })
    }
}

impl fmt::Debug for MigrateFromEmbedded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateFromEmbedded")
            .field("shared", self.shared)
            .field("allow_non_empty_target", &self.allow_non_empty_target)
            .field("chunk_children", &self.chunk_children)
            .finish_non_exhaustive()
    }
}
