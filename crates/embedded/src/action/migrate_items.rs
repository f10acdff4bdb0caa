use mongo_patterns_core::migration;
use mongo_patterns_core::versions::{Items, check_items, migrate_items};
use mongo_patterns_core::{ItemSteps, MigratedItems};

use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Converts the children of older versions by steps of the program, while services read and write.
    ///
    /// ```no_run
    /// # use mongo_patterns::ItemSteps;
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let steps = ItemSteps::new().step(1, |mut old: Document| {
    ///     let value = old.remove("zip").unwrap_or(Bson::Null);
    ///     old.insert("postcode", value);
    ///     Ok(old)
    /// });
    /// let migrated = patrons.migrate_items(steps).rate(500).await?;
    /// println!("{} addresses of {} patrons", migrated.items, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A step must keep the id of a child. See [`ItemSteps`] for what is true of all patterns, also for the errors.
    ///
    /// # Cost
    /// Two round trips, one more with a progress callback, and for each chunk three: a read, an update and a commit. The server
    /// reads all parents, and those with older children twice.
    ///
    /// # Cancel safety
    /// A chunk is converted or not. Call it again: it resumes.
    pub fn migrate_items(&self, steps: ItemSteps) -> MigrateItems<'_> {
        MigrateItems::with_defaults(self.shared(), steps)
    }
}

migration! {
    /// Converts children; returned by [`EmbeddedRepository::migrate_items`].
    pub struct MigrateItems<'a> {
        shared: &'a Shared,
        steps: ItemSteps,
    }
    "migrate_items" => MigratedItems;
    in chunks of 100 "parents";
}

impl MigrateItems<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<MigratedItems> {
        let (
            chunk,
            Shared {
                collection, settings, ..
            },
        ) = (self.chunk_size(), self.shared);
        let steps = check_items(&self.options, self.steps, self.shared.ensure(), conn).await?;
        let items = Items {
            collection,
            array: Some(settings.children.as_str()),
            fixed: vec![settings.child_id.as_str()],
            steps: &steps,
            then: None,
            retry: &settings.retry,
        };
        migrate_items(&[items], chunk, &self.options, conn, &mut reporter).await
    }
}
