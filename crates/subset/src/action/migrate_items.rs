use mongo_patterns_core::migration;
use mongo_patterns_core::migration::Walk;
use mongo_patterns_core::versions::{CheckedSteps, Items, check_items, migrate_items};
use mongo_patterns_core::{ItemSteps, MigratedItems};

use super::prelude::*;
use crate::write::refresh_parent;

impl<P, C> SubsetRepository<P, C> {
    /// Converts the children of older versions by steps of the program, while services read and write, and then the subsets
    /// that embed them.
    ///
    /// ```no_run
    /// # use mongo_patterns::ItemSteps;
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let steps = ItemSteps::new().step(1, |mut old: Document| {
    ///     let value = old.remove("text").unwrap_or(Bson::Null);
    ///     old.insert("review_text", value);
    ///     Ok(old)
    /// });
    /// let migrated = products.migrate_items(steps).rate(500).await?;
    /// println!("{} reviews", migrated.items);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A step must keep the parent, the id, and the fields of the orders, filters and figures of a child. See [`ItemSteps`] for
    /// what is true of all patterns, also for the errors. Between the conversion of a child and that of the subset,
    /// [`verify`](Self::verify) finds a stale subset. A plan does not list the refreshes of the subsets.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, for each chunk three, and those of a
    /// [rebuild](Self::rebuild) for each parent that embeds an older child, or any child if
    /// [`embedded_fields`](crate::Subset::embedded_fields) leaves the version out. The server reads all children, and older ones
    /// twice.
    ///
    /// # Cancel safety
    /// A chunk is converted or not, and a subset is refreshed or not. Call it again: it resumes.
    pub fn migrate_items(&self, steps: ItemSteps) -> MigrateItems<'_> {
        MigrateItems::with_defaults(self.shared(), steps)
    }
}

migration! {
    /// Converts children; returned by [`SubsetRepository::migrate_items`].
    pub struct MigrateItems<'a> {
        shared: &'a Shared,
        steps: ItemSteps,
    }
    "migrate_items" => MigratedItems;
    in chunks of 100 "children";
}

impl MigrateItems<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<MigratedItems> {
        let (chunk, Shared { children, settings, .. }) = (self.chunk_size(), self.shared);
        let steps = check_items(&self.options, self.steps, self.shared.ensure(), conn).await?;
        let mut fixed = vec![settings.parent.as_str(), settings.child_id.as_str()];
        fixed.extend(settings.scalar_fields().map(FieldName::as_str));
        fixed.extend(settings.subsets.iter().flat_map(|subset| subset.filter.fields()));
        let items = Items {
            collection: children,
            array: None,
            fixed,
            steps: &steps,
            then: None,
            retry: &settings.retry,
        };
        let migrated = migrate_items(&[items], chunk, &self.options, conn, &mut reporter).await?;
        if !conn.is_plan() {
            refresh(self.shared, &steps, conn).await?;
        }
        Ok(migrated)
    }
}

/// Refreshes the parents that embed an older child.
async fn refresh(shared: &Shared, steps: &CheckedSteps, conn: &mut Conn<'_>) -> Result<()> {
    /// The ids of a chunk are in memory.
    const CHUNK: u64 = 1000;
    let embeds = |array: &str| doc! { array: { "$elemMatch": steps.older() } };
    let subsets = shared
        .settings
        .subsets
        .iter()
        .map(|subset| embeds(subset.field.as_str()));
    let walk = Walk::by_number(doc! { "$or": subsets.collect::<Vec<_>>() }, CHUNK);
    let mut chunks = conn.chunks("walk through the parents", walk, &shared.parents).await?;
    while let Some(chunk) = chunks.next_chunk().await? {
        for parent in &chunk.ids {
            refresh_parent(shared, parent).await?;
        }
    }
    Ok(())
}
