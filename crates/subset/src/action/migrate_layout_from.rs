use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::index::{PlannedIndex, drop_commands, drop_exactly};
use mongo_patterns_core::progress::{OnProgress, Progress, Reporter};
use mongo_patterns_core::{Error, ErrorKind, Result};

use crate::SubsetRepository;
use crate::migrate::CHUNK;
use crate::migrate::plan::MigrationPlan;
use crate::repair::rebuild::rebuild_in_chunks;
use crate::repository::Shared;

impl<P, C> SubsetRepository<P, C> {
    /// Changes the [order](crate::SubsetRepositoryBuilder::order_by), the [size](crate::SubsetRepositoryBuilder::subset_size) or
    /// the [embedded fields](crate::SubsetRepositoryBuilder::embedded_fields) of live collections, from those of an old repository
    /// to those of this one: its index, and the subset of every parent.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::{Direction, SubsetRepository, SubsetRepositoryBuilder};
    /// # async fn f(
    /// #     by_date: SubsetRepository<i32, i32>,
    /// #     common: SubsetRepositoryBuilder<i32, i32>,
    /// # ) -> mongo_patterns_core::Result<()> {
    /// let by_stars = common.order_by("stars", Direction::Descending).build()?;
    /// let changed = by_stars.migrate_layout_from(&by_date).await?;
    /// println!("{} parents", changed.parents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - Another order: the index of the new one is created, and that of the old one dropped, if it has exactly its
    ///   definition. From then on writers and readers of pages by the old order get
    ///   [`IndexMissing`](ErrorKind::IndexMissing): let them go on with the new one. A transactional write has stored
    ///   nothing then. An eventual one may have [stored](Error::stored_count) its child, whose parent is written here. Then every
    ///   parent is written, so that nothing which was read by the old order can be written after it.
    /// - Another size, or other fields, with the same order: there is nothing by which writers with the old settings could
    ///   be refused. Each write makes the subset of its parent by its own settings, so replace these writers first. Where
    ///   one was still at work, call this once more. The same holds for an old order by the child's id alone, ascending,
    ///   whose index is the unique one.
    ///
    /// In between, each parent has a subset of either form, and each is the first of its children by its order. When it
    /// returns, all are of the new one. It may be broken off and called again.
    ///
    /// # Cost
    /// For another order, the server reads all children once to create the index. One round trip for 10,000 parents, which
    /// reads as many children of each as are embedded, and writes those that change, or all for another order. Then the
    /// look of [`rebuild_all`](Self::rebuild_all) at what is still wrong.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Each parent has a subset of the
    /// old form or of the new one, and the old index may be dropped. Call it again: it resumes.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the repositories differ in anything else but order, size,
    /// embedded fields and consistency, with nothing changed. [`IndexMismatch`](ErrorKind::IndexMismatch) when the index
    /// of the old order has another definition: nothing but the new index was created then. Those of
    /// [`ensure_indexes`](Self::ensure_indexes) and [`rebuild_all`](Self::rebuild_all).
    pub fn migrate_layout_from<'a, A, B>(&'a self, old: &'a SubsetRepository<A, B>) -> MigrateLayoutFrom<'a> {
        MigrateLayoutFrom {
            shared: self.shared(),
            old: old.shared(),
            on_progress: None,
        }
    }
}

/// Changes order, size or embedded fields; made by [`SubsetRepository::migrate_layout_from`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     old: SubsetRepository<Document, Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// println!("{} commands", products.migrate_layout_from(&old).plan().await?.commands.len());
/// products.migrate_layout_from(&old).on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateLayoutFrom<'a> {
    shared: &'a Shared,
    old: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

/// What was changed.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     old: SubsetRepository<Document, Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let changed = products.migrate_layout_from(&old).await?;
/// println!("{} products, index {:?} is gone", changed.parents, changed.dropped_index);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedLayout {
    /// The names of the indexes that were created.
    pub created_indexes: Vec<String>,
    /// The name of the index of the old order, if this call dropped it.
    pub dropped_index: Option<String>,
    /// How many parents there are. Their subsets are right.
    pub parents: u64,
    /// How many of them others wrote meanwhile, so that they were rebuilt one by one.
    pub one_by_one: u64,
}

impl<'a> MigrateLayoutFrom<'a> {
    /// Is called after each chunk, with numbers of parents.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// What it would do, and every command that it would send. It writes nothing.
    ///
    /// # Cost
    /// Three round trips, and one for each 1000 parents, whose ids this process holds.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) and [`IndexMismatch`](ErrorKind::IndexMismatch), as the change.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_layout_from"), |_| async move {
            self.check()?;
            let mut plan = MigrationPlan::default();
            plan.indexes(self.shared).await?;
            if let Some(index) = self.old_index() {
                let mut drop = drop_commands(&self.shared.children, &index).await?;
                plan.commands.append(&mut drop);
            }
            plan.rebuild_in_chunks(self.shared, self.is_other_order()).await?;
            Ok(plan)
        })
    }

    fn is_other_order(&self) -> bool {
        self.shared.settings.order != self.old.settings.order
    }

    /// The index of the old order, unless the new one needs it.
    fn old_index(&self) -> Option<PlannedIndex> {
        let children = self.old.children.name();
        let needed = self.shared.settings.index_plan(children);
        let is_needed = |name: &str| needed.indexes().iter().any(|index| index.name == name);
        let old = self.old.settings.index_plan(children);
        old.indexes().iter().find(|index| !is_needed(&index.name)).cloned()
    }

    fn check(&self) -> Result<()> {
        let names = |shared: &Shared| {
            let settings = &shared.settings;
            let fields = [
                &settings.subset,
                &settings.version,
                &settings.parent,
                &settings.child_id,
            ];
            (
                shared.parents.namespace(),
                shared.children.namespace(),
                fields.map(Clone::clone),
            )
        };
        if names(self.shared) == names(self.old) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            "the old and the new repository must have the same collections, and the same names of subset, version, parent and child id, nothing was changed: move between others",
        ))
    }

    async fn execute(self) -> Result<MigratedLayout> {
        self.check()?;
        let Shared {
            parents,
            children,
            settings,
            ..
        } = self.shared;
        let plan = settings.index_plan(children.name());
        let ensured = plan.ensure_with(children, parents, None).await?;
        let mut changed = MigratedLayout {
            created_indexes: ensured.created,
            ..MigratedLayout::default()
        };
        if let Some(index) = self.old_index()
            && drop_exactly(children, &index).await?
        {
            changed.dropped_index = Some(index.name);
        }
        let every = self.is_other_order();
        let rebuilt = rebuild_in_chunks(self.shared, every, CHUNK, Reporter::new(self.on_progress)).await?;
        changed.parents = rebuilt.parents;
        changed.one_by_one = rebuilt.one_by_one;
        Ok(changed)
    }
}

impl<'a> IntoFuture for MigrateLayoutFrom<'a> {
    type Output = Result<MigratedLayout>;
    type IntoFuture = ActionFuture<'a, MigratedLayout>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_layout_from"), |_| self.execute())
    }
}

impl fmt::Debug for MigrateLayoutFrom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateLayoutFrom")
            .field("shared", self.shared)
            .field("old", self.old)
            .finish_non_exhaustive()
    }
}
