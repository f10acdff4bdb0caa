use mongo_patterns_core::migration;
use mongo_patterns_core::migration::{Step, Walk, both};
use mongo_patterns_core::transaction;
use mongodb::error::Error as DriverError;

use super::prelude::*;
use crate::action::{begin, older_than};
use crate::query;
use crate::results::Moved;
use crate::transfer::{ATTEMPTS, Parts, ids, may_pass, read};

impl<D> FileArchive<D> {
    /// Archives the documents that are old enough, in the background, while services read and write. Each chunk is a file.
    ///
    /// ```no_run
    /// # async fn f(archive: mongo_patterns::archive::files::FileArchive<()>) -> mongo_patterns::Result<()> {
    /// let moved = archive.run().rate(20_000).await?; // every night
    /// println!("{} documents", moved.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The oldest documents first. The age is that of the archive's settings, unless the call has a [time](ToFiles::before).
    ///
    /// It also deletes the files that calls have left which died.
    ///
    /// Several calls at once are safe, in any number of processes, and no faster than one. A [lease](mongo_patterns_core::lease)
    /// lets one instance of a service call it.
    ///
    /// [`plan`](ToFiles::plan) counts what would move, and lists the commands of the first chunk.
    ///
    /// # Guarantees
    /// A document is in the collection or in a file of the archive, and with the same bytes. A concurrent update is in the
    /// archived document, or the document stays, or the update finds no document. A document that no longer matches stays.
    ///
    /// # Cost
    /// Four round trips, one more with a progress callback, and for each chunk six: a read, an insert in the catalog, and a
    /// transaction that reads again, deletes, and commits. The server reads the documents three times, and sends them twice.
    /// The file is written before the transaction. Writers of the documents of a chunk wait, or retry, for the time of the
    /// transaction. A chunk is in memory, with its file.
    ///
    /// # Cancel safety
    /// A chunk is archived or not. A file in writing is written to its end, and the next run deletes it. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`InvalidArgument`] for a number that is 0, [`SettingsMismatch`], also when the catalog has no
    /// entry, and [`IndexMissing`]; [`ensure_indexes`](Repository::ensure_indexes) writes both.
    ///
    /// With the chunks before archived: [`FileStore`], and those of the driver. Call it again.
    pub fn run(&self) -> ToFiles<'_> {
        ToFiles::with_defaults(self.shared(), None)
    }
}

migration! {
    /// Archives documents in files; returned by [`FileArchive::run`].
    pub struct ToFiles<'a> {
        shared: &'a Shared,
        before: Option<DateTime>,
    }

    /// Archives the documents from before a time, instead of those of the age of the settings.
    before(time: DateTime) => before = Some(time);

    "run" => Moved;
    in chunks of 5000 "documents";
}

impl ToFiles<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Moved> {
        let (shared, chunk) = (self.shared, self.chunk_size());
        self.options.check_numbers()?;
        let settings = &shared.settings;
        let before = self.before.unwrap_or_else(|| older_than(settings.older_than));
        let filter = query::before(settings, before);
        let walk = Walk::by_bytes(filter.clone(), chunk).by_index(query::index(settings.age.as_str()));
        let mut pace = self.options.pace();
        let mut chunks = begin(&shared.ensure(), &shared.current, walk, conn, &mut reporter).await?;
        match conn.is_plan() {
            true => shared.discard_left(conn).await?,
            false => shared.discard_left(&mut shared.enter().await?).await?,
        }
        let (transfer, mut moved) = (Transfer { shared, filter }, Moved::default());
        while let Some(chunk) = chunks.next_chunk().await? {
            let documents = chunk.ids.len() as u64;
            match (conn.is_plan(), moved.documents) {
                (true, 0) => moved.add(transfer.attempt(&chunk.ids, conn).await?),
                (true, _) => moved.documents += documents,
                (false, _) => moved.add(transfer.chunk(&chunk.ids).await?),
            }
            conn.count_migrated(documents);
            reporter.advance(documents);
            pace.pause(conn, documents).await;
        }
        Ok(moved)
    }
}

/// A move of documents that match a filter into files.
struct Transfer<'a> {
    shared: &'a Shared,
    filter: Document,
}

impl Transfer<'_> {
    async fn chunk(&self, ids: &[Bson]) -> Result<Moved> {
        let conn = &mut self.shared.enter().await?;
        let mut parts = Parts::of(ids);
        while let Some(part) = parts.pop() {
            let done = self.part(part, conn).await;
            parts.add(part, done)?;
        }
        Ok(parts.moved)
    }

    /// Moves documents together, or none of them, until others have refused it a few times.
    async fn part(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let (mut attempts, mut refused) = (self.shared.settings.retry.start(), 0);
        loop {
            let error = match self.attempt(ids, conn).await {
                Ok(moved) => return Ok(moved),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Contention => refused += 1,
                // The driver has waited already.
                ErrorKind::ServerSelection => return Err(error),
                _ if may_pass(&error) => {}
                _ => return Err(error),
            }
            if refused == ATTEMPTS || !attempts.wait().await {
                return Err(attempts.tried(error));
            }
        }
    }

    async fn attempt(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let shared = self.shared;
        let filter = both(by_ids(ids), self.filter.clone());
        let documents = read(&shared.current, filter.clone(), conn).await?;
        if documents.is_empty() {
            return Ok(Moved::default());
        }
        let mut new = NewFile::of(documents, shared.settings.age.as_str()).await?;
        let (name, content) = (new.file.name.clone(), std::mem::take(&mut new.content));
        let record = Step::insert_many("record a file", &shared.records, vec![new.record(shared)?]);
        conn.write(record).await?;
        let moved = Moved {
            documents: new.file.documents,
            ..Moved::default()
        };
        let mut taken = (shared, filter, new);
        if conn.is_plan() {
            take(&mut taken, conn).await?;
            return Ok(moved);
        }
        let written = conn.finish(shared.store.put(&name, content)).await;
        let done = match written {
            Err(error) => Err(store_failed("write", error)),
            Ok(()) => {
                let once = shared.settings.retry.clone().with_max_attempts(1);
                transaction::run(&shared.current, &once, conn, taken, |conn, taken| {
                    Box::pin(take(taken, conn))
                })
                .await
            }
        };
        let error = match done {
            Ok(()) => return Ok(moved),
            // The next run finds out.
            Err(error) if error.is_outcome_unknown() => return Err(error),
            Err(error) => error,
        };
        match shared.discard(&name, conn).await {
            // The store may have refused it for that reason.
            Ok(false) => Err(refused()),
            // If that failed, the next run does it.
            Ok(true) | Err(_) => Err(error),
        }
    }
}

/// Deletes the documents of a file in the collection, and lets the file be a part of the archive. In a transaction.
async fn take((shared, filter, new): &mut (&Shared, Document, NewFile), conn: &mut Conn<'_>) -> Result<()> {
    let Shared { current, records, .. } = *shared;
    let (pending, stored) = (
        shared.record(&new.file.name, &[PENDING]),
        doc! { "$set": { "state": STORED } },
    );
    let store = Step::update_one("let the file be a part of the archive", records, pending, stored);
    let is_pending = conn.write(store).await?.is_none_or(|reply| reply.matched == 1);
    let documents = read(current, filter.clone(), conn).await?;
    if !is_pending || sorted(&documents) != sorted(&new.documents) {
        return Err(refused());
    }
    let delete = Step::delete_many("delete documents", current, by_ids(&ids(&documents)));
    let deleted = conn.write(delete).await?.map(|reply| reply.deleted);
    // More of them if a document of another shard has the same `_id`.
    match deleted.is_none_or(|deleted| deleted == new.file.documents) {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// Returns the bytes of documents in one order.
fn sorted(documents: &[RawDocumentBuf]) -> Vec<&[u8]> {
    let mut bytes: Vec<&[u8]> = documents.iter().map(|document| document.as_bytes()).collect();
    bytes.sort_unstable();
    bytes
}

/// Returns the error of documents that others have written since they were read, or of a file that another process took for that of
/// a dead one.
fn refused() -> Error {
    Error::from_driver(
        ErrorKind::Contention,
        "other calls exhausted the retry policy, nothing was changed: retry later",
        DriverError::custom("a document was written since it was read"),
    )
}
