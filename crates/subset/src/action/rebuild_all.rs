use super::prelude::*;
use crate::repair::rebuild;

impl<P, C> SubsetRepository<P, C> {
    /// Rebuilds the subsets of all parents from their children, on the server. Parents without children get an empty
    /// subset.
    ///
    /// Use it after a bulk load or a bulk deletion of children. For another order, size or other embedded fields, use
    /// [`migrate_layout_from`](Self::migrate_layout_from).
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// products.children_collection().delete_many(doc! { "spam": true }).await?;
    /// let rebuilt = products.rebuild_all().await?;
    /// println!("{} products were written concurrently", rebuilt.rebuilt_individually);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers: each parent is written individually, and only if no other client has written it
    /// since its children were read. If another client has, the aggregation fails and the call checks again: a second
    /// aggregation rebuilds the rest, and a scan finds the parents that are still stale, which are rebuilt one by one. The
    /// scan can miss a wrong total or computed field if a child of the parent is written at that moment: call it again
    /// later, or [`rebuild`](Self::rebuild).
    ///
    /// # Cost
    /// One aggregation, which reads all parents, and as many children of each as are embedded. It writes the stale
    /// parents. If a parent is unmanaged, or other clients write stale parents concurrently: two more such aggregations,
    /// of which the last one only reads, and five round trips for each parent that is still stale then.
    ///
    /// # Cancel safety
    /// Each parent is either rebuilt or unchanged, and the server may still execute the last command. Call it again: it
    /// rebuilds the rest.
    ///
    /// # Errors
    /// [`SettingsMismatch`], with nothing changed, when the settings contradict the
    /// [catalog](mongo_patterns_core::catalog). [`IndexMissing`], and those of the driver, with some parents rebuilt. [`NotMigrated`] at the end, with all other
    /// parents rebuilt, when a parent embeds children that are stored nowhere else (see
    /// [`discard_embedded`](RebuildAll::discard_embedded)).
    pub fn rebuild_all(&self) -> RebuildAll<'_> {
        RebuildAll {
            shared: self.shared(),
            discard_embedded: false,
        }
    }
}

action! {
    /// Rebuilds all subsets; returned by [`SubsetRepository::rebuild_all`].
    pub struct RebuildAll<'a> {
        shared: &'a Shared,
        discard_embedded: bool,
    }
    "rebuild_all" => RebuiltAll
}

impl RebuildAll<'_> {
    /// Discards embedded children that are not in their collection and that no repository has embedded. They are
    /// deleted: use it if they are leftovers of subsets that were maintained by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }

    async fn execute(self) -> Result<RebuiltAll> {
        self.shared.ensure().require(&mut Conn::new()).await?;
        if self.discard_embedded {
            self.shared.check_indexes().await?;
            rebuild::discard_embedded(self.shared, &mut Conn::new()).await?;
        }
        rebuild::rebuild_all(self.shared).await
    }
}
