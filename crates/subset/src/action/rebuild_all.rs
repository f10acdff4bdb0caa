use futures::TryStreamExt;
use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};

use crate::refresh::{Refreshed, refresh};
use crate::repository::Shared;
use crate::scan::Scan;
use crate::{Problem, SubsetRepository, query};

impl<P, C> SubsetRepository<P, C> {
    /// Makes the subsets of all parents anew from their children, on the server: after children were loaded in bulk, or
    /// the [order](crate::SubsetRepositoryBuilder::order_by), the [size](crate::SubsetRepositoryBuilder::size) or the
    /// [embedded fields](crate::SubsetRepositoryBuilder::embed) were changed. Parents without children get an empty one.
    ///
    /// It may run while others write, and may be broken off and called again: each parent is written by itself, and only
    /// where nobody else has written it since its children were read. It ends with a look for what is still wrong, which
    /// is then rebuilt one by one.
    ///
    /// # Cost
    /// Two aggregations, each of which reads all parents and as many children of each as are embedded; the first one
    /// writes the parents whose subset is wrong. Five round trips for each parent that others wrote meanwhile.
    ///
    /// # Errors
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and those of the driver: some parents are rebuilt
    /// then. On a sharded cluster it needs MongoDB 5.1, as `$lookup` does.
    pub fn rebuild_all(&self) -> RebuildAll<'_> {
        RebuildAll { shared: self.shared() }
    }
}

/// Makes all subsets anew; made by [`SubsetRepository::rebuild_all`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct RebuildAll<'a> {
    shared: &'a Shared,
}

/// What was rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RebuiltAll {
    /// How many parents others wrote meanwhile, so that they were rebuilt one by one.
    pub one_by_one: u64,
}

impl<'a> IntoFuture for RebuildAll<'a> {
    type Output = Result<RebuiltAll>;
    type IntoFuture = ActionFuture<'a, RebuiltAll>;

    fn into_future(self) -> Self::IntoFuture {
        let shared = self.shared;
        run(shared.operation("rebuild_all"), move |_| rebuild_all(shared))
    }
}

pub(crate) async fn rebuild_all(shared: &Shared) -> Result<RebuiltAll> {
    shared.check_indexes().await?;
    let Shared {
        parents,
        children,
        settings,
        ..
    } = shared;
    let merge = parents.aggregate(query::rebuild_all(settings, parents.name(), children.name()));
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let merge = merge.selection_criteria(primary).read_concern(ReadConcern::local());
    merge.allow_disk_use(true).await?.try_collect::<Vec<_>>().await?;
    let mut rebuilt = RebuiltAll::default();
    let mut left = Scan::of_parents(shared);
    while let Some(finding) = left.next().await? {
        debug_assert_eq!(finding.problem, Problem::Stale);
        let refreshed = refresh(shared, &finding.parent_id, None, None, None).await?;
        rebuilt.one_by_one += u64::from(matches!(refreshed, Refreshed::Done { .. }));
    }
    Ok(rebuilt)
}
