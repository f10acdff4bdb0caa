use std::fmt;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::plan::update;
use mongo_patterns_core::progress::{OnProgress, Progress, Reporter};
use mongodb::bson::doc;

use crate::migrate::CHUNK;
use crate::migrate::plan::MigrationPlan;
use crate::query;
use crate::repair::rebuild::rebuild_in_chunks;
use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::write::unmanaged as unwritten;
use crate::{Problem, SubsetRepository};

impl<P, C> SubsetRepository<P, C> {
    /// Brings two collections into the form of the pattern, whose parents have no subset yet, or one that was kept by
    /// hand: the indexes, the subset of every parent, and a look at the children that belong to no parent.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let adopted = products.migrate_existing().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} parents, {} children of none", adopted.parents, adopted.orphans);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Writers of this crate may go on, and it may be broken off and called again: a parent whose subset is right is not
    /// written. Programs that keep the subset by hand must be stopped before, since they do not count its version.
    ///
    /// A subset that was kept by hand may hold children that are not in their collection. They are leftovers, or were
    /// never [moved](Self::migrate_from_embedded). Such parents are left as they are, and are the error at the end, unless
    /// you [give them up](MigrateExisting::discard_embedded).
    ///
    /// # Cost
    /// That of [`ensure_indexes`](Self::ensure_indexes), of [`rebuild_all`](Self::rebuild_all), in chunks of 10,000
    /// parents with one round trip each, and of [`verify`](Self::verify).
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may still execute the last command. Each parent is written as a whole
    /// or not at all. Call it again: it resumes.
    ///
    /// # Errors
    /// Those of [`ensure_indexes`](Self::ensure_indexes), with nothing changed, and of
    /// [`rebuild_all`](Self::rebuild_all).
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting {
            shared: self.shared(),
            discard_embedded: false,
            on_progress: None,
        }
    }
}

/// Brings two collections into the form of the pattern; made by [`SubsetRepository::migrate_existing`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// println!("{} commands", products.migrate_existing().plan().await?.commands.len());
/// let migrate_existing = products.migrate_existing().discard_embedded();
/// migrate_existing.on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct MigrateExisting<'a> {
    shared: &'a Shared,
    discard_embedded: bool,
    on_progress: Option<OnProgress<'a>>,
}

/// What was brought into form.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let adopted = products.migrate_existing().await?;
/// println!("{} products, and {} reviews of none", adopted.parents, adopted.orphans);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedExisting {
    /// The names of the indexes that were created.
    pub created_indexes: Vec<String>,
    /// How many parents there are. Their subsets are right.
    pub parents: u64,
    /// How many of them others wrote meanwhile, so that they were rebuilt one by one.
    pub one_by_one: u64,
    /// How many children belong to a parent that does not exist, or to none; [`verify`](SubsetRepository::verify) names
    /// the parents.
    pub orphans: u64,
}

impl<'a> MigrateExisting<'a> {
    /// Also where children are embedded that are not in their collection, and that no repository embedded. They are gone
    /// then: say so where they are leftovers of subsets that were kept by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }

    /// Is called after each chunk, with numbers of parents.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// What it would do, and every command that it would send. It writes nothing.
    ///
    /// # Cost
    /// Two round trips, and one for each 1000 parents, whose ids this process holds.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of [`ensure_indexes`](SubsetRepository::ensure_indexes), but for children that violate them.
    pub fn plan(self) -> ActionFuture<'a, MigrationPlan> {
        run(self.shared.operation("migrate_existing"), |_| async move {
            let Shared { parents, settings, .. } = self.shared;
            let mut plan = MigrationPlan::default();
            plan.indexes(self.shared).await?;
            if self.discard_embedded {
                let change = query::count_version(settings).to_vec();
                let discard = doc! { "q": query::unwritten(settings, None), "u": change, "multi": true };
                plan.write("give up what is embedded alone", update(parents.name(), discard));
            }
            plan.rebuild_in_chunks(self.shared, false).await?;
            plan.look_for_orphans(self.shared);
            Ok(plan)
        })
    }

    async fn execute(self) -> Result<MigratedExisting> {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = self.shared;
        let plan = settings.index_plan(children.name());
        let ensured = plan.ensure_with(children, parents, None).await?;
        if self.discard_embedded {
            unwritten::discard(self.shared, None, None).await?;
        }
        let rebuilt = rebuild_in_chunks(self.shared, false, CHUNK, Reporter::new(self.on_progress)).await?;
        let mut adopted = MigratedExisting {
            created_indexes: ensured.created,
            parents: rebuilt.parents,
            one_by_one: rebuilt.one_by_one,
            orphans: 0,
        };
        let mut left = Scan::of_children(self.shared);
        while let Some(finding) = left.next().await? {
            if let Problem::Orphaned { children } = finding.problem {
                adopted.orphans += children;
            }
        }
        Ok(adopted)
    }
}

impl<'a> IntoFuture for MigrateExisting<'a> {
    type Output = Result<MigratedExisting>;
    type IntoFuture = ActionFuture<'a, MigratedExisting>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("migrate_existing"), |_| self.execute())
    }
}

impl fmt::Debug for MigrateExisting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MigrateExisting")
            .field("shared", self.shared)
            .field("discard_embedded", &self.discard_embedded)
            .finish_non_exhaustive()
    }
}
