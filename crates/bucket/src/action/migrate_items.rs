use mongo_patterns_core::migration;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::versions::{Items, check_items, migrate_items};
use mongo_patterns_core::{ItemSteps, MigratedItems};

use super::prelude::*;
use crate::query::figures::recomputed;

impl<K: Key, T> BucketRepository<K, T> {
    /// Converts the items of older versions by steps of the program, while services read and write.
    ///
    /// ```no_run
    /// # use mongo_patterns::ItemSteps;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// let steps = ItemSteps::new().step(1, |mut old: Document| {
    ///     let value = old.remove("qty").unwrap_or(Bson::Null);
    ///     old.insert("quantity", value);
    ///     Ok(old)
    /// });
    /// let migrated = trades.migrate_items(steps).rate(500).await?;
    /// println!("{} items in {} buckets", migrated.items, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A step must keep the time, the id, and the fields with figures of an item. With a [bound of
    /// bytes](crate::BucketRepositoryBuilder::max_bucket_bytes), larger items can exceed it: [`repair`](Self::repair) splits such
    /// buckets. See [`ItemSteps`] for what is true of all
    /// patterns, also for the errors.
    ///
    /// # Cost
    /// Two round trips, one more with a progress callback, and for each chunk three: a read, an update and a commit. The server
    /// reads all buckets, and those with older items twice.
    ///
    /// # Cancel safety
    /// A chunk is converted or not. Call it again: it resumes.
    pub fn migrate_items(&self, steps: ItemSteps) -> MigrateItems<'_> {
        MigrateItems::with_defaults(self.shared(), steps)
    }
}

migration! {
    /// Converts items; returned by [`BucketRepository::migrate_items`].
    pub struct MigrateItems<'a> {
        shared: &'a Shared,
        steps: ItemSteps,
    }
    "migrate_items" => MigratedItems;
    in chunks of 100 "buckets";
}

impl MigrateItems<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<MigratedItems> {
        let chunk = self.chunk_size();
        let steps = check_items(&self.options, self.steps, self.shared.ensure(), conn).await?;
        let (collection, settings) = self.shared.parts();
        let mut fixed: Vec<&str> = settings
            .time
            .iter()
            .chain(&settings.item_id)
            .map(FieldName::as_str)
            .collect();
        let figures = settings.figures.iter().flat_map(|figures| &figures.of);
        fixed.extend(figures.map(|figure| figure.field.as_str()));
        let items = Items {
            collection,
            array: Some(settings.items.as_str()),
            fixed,
            steps: &steps,
            then: settings.bytes.as_ref().and_then(|_| recomputed(settings)),
            retry: &settings.retry,
        };
        migrate_items(&[items], chunk, &self.options, conn, &mut reporter).await
    }
}
