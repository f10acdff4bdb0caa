use mongo_patterns_core::migration;
use mongo_patterns_core::versions::{Items, check_items, migrate_items};
use mongo_patterns_core::{ItemSteps, MigratedItems};

use super::prelude::*;

impl<D, E> OutlierRepository<D, E> {
    /// Converts the elements of older versions by steps of the program, while services read and write.
    ///
    /// ```no_run
    /// # use mongo_patterns::ItemSteps;
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document};
    /// # async fn f(books: OutlierRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let steps = ItemSteps::new().step(1, |mut old: Document| {
    ///     let value = old.remove("user").unwrap_or(Bson::Null);
    ///     old.insert("customer", value);
    ///     Ok(old)
    /// });
    /// let migrated = books.migrate_items(steps).rate(500).await?;
    /// println!("{} elements in {} documents", migrated.items, migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Elements that are no documents stay as they are. See [`ItemSteps`] for what is true of all patterns, also for the errors.
    ///
    /// With [unique elements](crate::OutlierRepositoryBuilder::unique_elements) it is refused as [`InvalidArgument`]: a converted
    /// element is another element.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, and for each chunk three: a read, an update and a commit. The server
    /// reads all documents of both collections, and those with older elements twice.
    ///
    /// # Cancel safety
    /// A chunk is converted or not. Call it again: it resumes.
    pub fn migrate_items(&self, steps: ItemSteps) -> MigrateItems<'_> {
        MigrateItems::with_defaults(self.shared(), steps)
    }
}

migration! {
    /// Converts elements; returned by [`OutlierRepository::migrate_items`].
    pub struct MigrateItems<'a> {
        shared: &'a Shared,
        steps: ItemSteps,
    }
    "migrate_items" => MigratedItems;
    in chunks of 100 "documents";
}

impl MigrateItems<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<MigratedItems> {
        let (
            chunk,
            Shared {
                main,
                overflow,
                settings,
                ..
            },
        ) = (self.chunk_size(), self.shared);
        if settings.unique {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the elements are unique, and a converted element is another one, nothing was changed: migrate to a list without unique elements first",
            ));
        }
        let steps = check_items(&self.options, self.steps, self.shared.ensure(), conn).await?;
        let of = |collection, array| Items {
            collection,
            array: Some(array),
            fixed: Vec::new(),
            steps: &steps,
            then: None,
            retry: &settings.retry,
        };
        let parts = [
            of(main, settings.array.as_str()),
            of(overflow, settings.extras.as_str()),
        ];
        migrate_items(&parts, chunk, &self.options, conn, &mut reporter).await
    }
}
