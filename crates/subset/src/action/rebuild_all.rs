use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};

use crate::repair::rebuild::{rebuild, rebuild_stale};
use crate::repository::Shared;
use crate::write::unmanaged as unwritten;
use crate::{SubsetRepository, query};

impl<P, C> SubsetRepository<P, C> {
    /// Makes the subsets of all parents anew from their children, on the server: after children were loaded in bulk, or
    /// the [order](crate::SubsetRepositoryBuilder::order_by), the [size](crate::SubsetRepositoryBuilder::subset_size) or the
    /// [embedded fields](crate::SubsetRepositoryBuilder::embedded_fields) were changed. Parents without children get an empty one.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// products.children_collection().delete_many(doc! { "spam": true }).await?;
    /// let rebuilt = products.rebuild_all().await?;
    /// println!("{} products were written by others meanwhile", rebuilt.one_by_one);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It may run while others write, and may be broken off and called again: each parent is written by itself, and only
    /// where nobody else has written it since its children were read. It ends with a look for what is still wrong, which
    /// is then rebuilt one by one.
    ///
    /// # Cost
    /// Two aggregations, each of which reads all parents and as many children of each as are embedded; the first one
    /// writes the parents whose subset is wrong. Five round trips for each parent that others wrote meanwhile.
    ///
    /// # Cancel safety
    /// Each parent is rebuilt or as it was, and the server may still execute the last command. Call it again: it
    /// rebuilds the rest.
    ///
    /// # Errors
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and those of the driver: some parents are rebuilt
    /// then. [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) at the end, when a parent holds children that are
    /// nowhere else (see [`discard_embedded`](RebuildAll::discard_embedded)): all others are rebuilt then. On a sharded cluster it needs MongoDB 5.1, as `$lookup` does.
    pub fn rebuild_all(&self) -> RebuildAll<'_> {
        RebuildAll {
            shared: self.shared(),
            discard_embedded: false,
        }
    }
}

/// Makes all subsets anew; made by [`SubsetRepository::rebuild_all`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// products.rebuild_all().discard_embedded().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct RebuildAll<'a> {
    shared: &'a Shared,
    discard_embedded: bool,
}

mongo_patterns_core::redacted_debug!(RebuildAll<'_>);

impl RebuildAll<'_> {
    /// Also where children are embedded that are not in their collection, and that no repository embedded. They are gone
    /// then: say so where they are leftovers of subsets that were kept by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }
}

/// What was rebuilt.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let rebuilt = products.rebuild_all().await?;
/// println!("{} products were written by others meanwhile", rebuilt.one_by_one);
/// # Ok(())
/// # }
/// ```
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
        let Self {
            shared,
            discard_embedded,
        } = self;
        run(shared.operation("rebuild_all"), move |_| async move {
            if discard_embedded {
                shared.check_indexes().await?;
                unwritten::discard(shared, None, None).await?;
            }
            rebuild_all(shared).await
        })
    }
}

/// Of all parents, those that are wrong.
pub(crate) async fn rebuild_all(shared: &Shared) -> Result<RebuiltAll> {
    shared.check_indexes().await?;
    rebuild(shared, query::Rebuilt::Wrong).await?;
    let one_by_one = rebuild_stale(shared).await?;
    Ok(RebuiltAll { one_by_one })
}
