#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{FileStore, InvalidArgument, SettingsMismatch};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress};
use mongo_patterns_core::retry::PutAside;
#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::{Error, Repository};
use mongo_patterns_core::{Moved, Result, age, migration};
use mongodb::bson::DateTime;

use crate::repository::{FileArchive, Shared};
use crate::transfer::Transfer;

impl<D> FileArchive<D> {
    /// Archives the documents that are old enough, in the background, while services read and write. Each chunk is a file.
    ///
    /// ```no_run
    /// # async fn f(archive: mongo_patterns::archive_files::FileArchive<()>) -> mongo_patterns::Result<()> {
    /// let moved = archive.run().rate(20_000).await?; // every night
    /// println!("{} documents", moved.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The oldest documents first. The age is the age of the archive's settings, unless the call has a [time](Run::before).
    ///
    /// A document that others write is tried again at the end, for the time of the [retry
    /// policy](mongo_patterns_core::RetryPolicy). Then it stays, and is counted as [busy](Moved::busy). It also deletes
    /// files that were left by calls which died.
    ///
    /// Concurrent calls are safe, in any number of processes, and no faster than one. A [lease](mongo_patterns_core::lease)
    /// lets one instance of a service call it.
    ///
    /// [`plan`](Run::plan) counts the documents to move, and their bytes. It lists the commands of the first chunk.
    ///
    /// # Guarantees
    /// A document is in the collection or in a file of the archive, and with the same bytes. A concurrent update is in the
    /// archived document, or the document stays, or the update finds no document.
    ///
    /// # Cost
    /// Four round trips, one more with a progress callback, and six for each chunk, which is in memory with its file. The
    /// server reads the documents three times, and sends them twice. Writers of the documents of a chunk wait, or retry, for
    /// the time of the transaction, which begins after the file is written.
    ///
    /// # Cancel safety
    /// A chunk is archived or not. A file in writing is written to its end, and the next run deletes it. Call it again.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a number is 0.
    /// - [`SettingsMismatch`]: also if the catalog has no entry, which [`ensure_indexes`](Repository::ensure_indexes)
    ///   writes.
    /// - [`FileStore`]: the store failed, with some chunks archived. Call it again. The cause is the custom error of
    ///   [`as_driver_error`](Error::as_driver_error), an `object_store::Error`, whose text can contain paths.
    pub fn run(&self) -> Run<'_> {
        Run::with_defaults(self.shared(), None)
    }
}

migration! {
    /// Archives documents in files; returned by [`FileArchive::run`].
    pub struct Run<'a> {
        shared: &'a Shared,
        before: Option<DateTime>,
    }

    /// Archives the documents from before a time, instead of the age of the settings.
    before(time: DateTime) => before = Some(time);

    "run" => Moved;
    in chunks of 5000 "documents";
}

impl Run<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut progress: MigrationProgress<'_>) -> Result<Moved> {
        let shared = self.shared;
        let before = self.before.unwrap_or_else(|| shared.limit.time());
        let filter = shared.limit.before(before);
        let walk = ChunkedFind::by_bytes(filter.clone(), progress.chunk).by_index(age::index(shared.age_field()));
        let (ensure, purpose) = (shared.ensure(), "walk through the documents");
        let chunks = ensure.begin_chunks(purpose, walk, &shared.current, conn, &mut progress);
        let mut chunks = chunks.await?;
        match conn.is_plan() {
            true => shared.discard_abandoned(conn).await?,
            false => shared.discard_abandoned(&mut shared.enter().await?).await?,
        }
        let (transfer, mut moved) = (Transfer { shared, filter }, Moved::default());
        let mut busy = PutAside::new(&shared.retry);
        while let Some(chunk) = chunks.next_chunk().await? {
            moved.add(match (conn.is_plan(), moved.documents) {
                (true, 0) => transfer.attempt(&chunk.ids, conn).await?,
                (true, _) => transfer.count(&chunk.ids).await?,
                (false, _) => transfer.move_chunk(&chunk.ids, &mut busy).await?,
            });
            progress.advance(conn, chunk.documents()).await;
        }
        moved.add(transfer.move_busy(busy).await?);
        Ok(moved)
    }
}
