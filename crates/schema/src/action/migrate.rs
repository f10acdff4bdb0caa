use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::{Error, ErrorKind::*, Repository};
use mongo_patterns_core::{Result, migration};
use mongodb::bson::Document;

use crate::repository::{SchemaRepository, Shared};
use crate::results::Migrated;
use crate::{convert, query};

impl<D> SchemaRepository<D> {
    /// Converts all documents of older versions to the newest one, in the background, while services read and write.
    ///
    /// ```no_run
    /// # async fn f(contacts: mongo_patterns::schema::SchemaRepository<()>) -> mongo_patterns::Result<()> {
    /// let migrated = contacts.migrate().rate(5_000).await?;
    /// println!("{} documents", migrated.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One pass, by `_id`: documents that programs of an older release insert concurrently can be left.
    /// [`versions`](Self::versions) shows them. Run it when these programs have ended. Before it is complete, do not delete
    /// a step from the program.
    ///
    /// Concurrent calls are safe, in any number of processes, and no faster than one. A [lease](mongo_patterns_core::lease)
    /// lets one instance of a service call it.
    ///
    /// [`plan`](Migrate::plan) runs the steps on all documents and writes nothing, so it finds the documents that a step
    /// refuses. It lists the commands of the first chunk. Steps that follow a step on the server are not run.
    ///
    /// # Guarantees
    /// A step is applied to a document once. A write of another client is never overwritten. A chunk is converted as a
    /// whole, or not at all if a step is typed.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, and for each chunk one for steps on the server, or three or
    /// four with typed steps. The server reads the older documents twice. Writers of the documents of a chunk wait, or
    /// retry, for a few milliseconds.
    ///
    /// # Cancel safety
    /// A chunk is converted or not; with steps on the server alone, each document. Call it again: it resumes.
    ///
    /// # Errors
    /// With nothing changed:
    ///
    /// - [`InvalidArgument`]: a number is 0.
    /// - [`SettingsMismatch`]: also if the catalog has no entry, which [`ensure_indexes`](Repository::ensure_indexes)
    ///   writes.
    ///
    /// With the chunks before converted; call it again:
    ///
    /// - The error of a step, with its [version](Error::step) and the [document](Error::document_id). A step on the server
    ///   is named only by its version.
    /// - [`Contention`]: writers of the chunk exhausted the retry policy.
    /// - [`TooLarge`], [`DuplicateKey`], and the errors of the driver.
    pub fn migrate(&self) -> Migrate<'_> {
        Migrate::with_defaults(self.shared())
    }
}

migration! {
    /// Converts older documents; returned by [`SchemaRepository::migrate`].
    pub struct Migrate<'a> {
        shared: &'a Shared,
    }
    "migrate" => Migrated;
    in chunks of 500 "documents";
}

impl Migrate<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let mut migrated = Migrated::default();
        let older = query::guarded(Document::new(), query::older(settings));
        let walk = ChunkedFind::by_bytes(older, progress.chunk);
        let (ensure, purpose) = (self.shared.ensure(), "walk through the older documents");
        let mut chunks = ensure
            .begin_chunks(purpose, walk, collection, conn, &mut progress)
            .await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            match conn.is_plan() && migrated.documents > 0 {
                true => convert::store(self.shared, &chunk.ids, &mut Conn::plan()).await?,
                false => convert::store(self.shared, &chunk.ids, conn).await?,
            }
            migrated.documents += chunk.documents();
            progress.advance(conn, chunk.documents()).await;
        }
        Ok(migrated)
    }
}
