#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, Contention, DuplicateKey, InvalidArgument, SettingsMismatch, ValidationFailed,
};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::follow::followers_of;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress};
use mongo_patterns_core::through::Restores;
#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::{Error, Repository};
use mongo_patterns_core::{FieldName, Moved, PlanWarning, Result, age, migration};
use mongodb::bson::DateTime;

use crate::newest::Newest;
use crate::repository::{Archive, Shared};
use crate::through;
use crate::transfer::{Left, Transfer};

impl<D> Archive<D> {
    /// Archives the documents that are old enough, in the background, while services read and write.
    ///
    /// ```no_run
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>) -> mongo_patterns::Result<()> {
    /// let moved = archive.run().rate(2_000).await?; // every night
    /// println!("{} documents, {} conflicts", moved.documents, moved.conflicts);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The oldest documents first. The age is the age of the archive's settings, unless the call has a [time](Run::before).
    ///
    /// A document whose `_id` is in the archive already was inserted again: it stays, and is counted as a
    /// [conflict](Moved::conflicts), unless [`replace_archived`](Run::replace_archived) is set. So is one that a unique index of the
    /// archive refuses. [`verify`](Self::verify) names both.
    ///
    /// A document that others write is tried again at the end, for the time of the [retry
    /// policy](mongo_patterns_core::RetryPolicy), by default 2 minutes. Then it stays, and is counted as
    /// [busy](Moved::busy).
    ///
    /// Concurrent calls are safe, in any number of processes, and no faster than one. A [lease](mongo_patterns_core::lease)
    /// lets one instance of a service call it.
    ///
    /// [`plan`](Run::plan) counts the documents to move, their bytes, and the conflicts. It lists the commands of the first
    /// chunk, and [warns](mongo_patterns_core::PlanWarning) of each follower of the collection.
    ///
    /// # Guarantees
    /// A document is in one of the collections, for every reader of a snapshot, and with the same bytes. A concurrent update
    /// is in the archived document, or the document stays, or the update finds no document. A document that no longer
    /// matches stays.
    ///
    /// # Cost
    /// Four round trips, one more with a progress callback, and four or five for each chunk.
    /// [Related](crate::ArchiveBuilder::related) documents add one for each of their collections, or four if there are some,
    /// and [`keep_newest_by`](crate::ArchiveBuilder::keep_newest_by) two. The server examines only documents that are old
    /// enough, and reads them twice. Writers of the documents of a chunk wait, or retry, for a few milliseconds.
    ///
    /// # Cancel safety
    /// A chunk is archived or not. Call it again.
    ///
    /// # Errors
    /// With nothing changed:
    ///
    /// - [`InvalidArgument`]: a number is 0.
    /// - [`SettingsMismatch`]: the catalog has other settings, or no entry, which
    ///   [`ensure_indexes`](Repository::ensure_indexes) writes. Or another pattern has parts of the documents in a
    ///   collection that is not [related](crate::ArchiveBuilder::related).
    ///
    /// With all other documents archived, for the first [document](Error::document_id) that the archive refused, which stays
    /// in its [collection](Error::document_namespace):
    ///
    /// - [`ValidationFailed`]: by the validator.
    /// - [`AlreadyExists`]: the archive has the `_id` of a [related](crate::ArchiveBuilder::related) document.
    ///
    /// With [`keep_newest_by`](crate::ArchiveBuilder::keep_newest_by), a document that cannot move ends the run, with
    /// [`DuplicateKey`] and [`Contention`] too. After an error of the driver, some chunks are archived: call it again.
    pub fn run(&self) -> Run<'_> {
        Run::with_defaults(self.shared(), None, false, Vec::new())
    }
}

migration! {
    /// Archives documents; returned by [`Archive::run`].
    pub struct Run<'a> {
        shared: &'a Shared,
        before: Option<DateTime>,
        replaces: bool,
        through: Vec<&'a dyn Restores>,
    }

    /// Archives the documents from before a time, instead of the age of the settings.
    before(time: DateTime) => before = Some(time);

    /// Deletes an archived document when a document with its `_id` is archived again, which replaces it. The older content
    /// is lost.
    replace_archived() => replaces = true;

    "run" => Moved;
    in chunks of 500 "documents";
}

impl<'a> Run<'a> {
    /// Lets a repository of the archived documents bring them up to date, in the transaction of each chunk. Can be called
    /// several times.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(
    /// #     archive: Archive<Document>,
    /// #     archived_readings: BucketRepository<u32, Document>,
    /// # ) -> mongo_patterns::Result<()> {
    /// archive.run().through(&archived_readings).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`Restore::through`](super::Restore::through). Buckets of a window join archived buckets. The plan does not list
    /// the work of the repository.
    // proof: together::late_items::archived_buckets_join_those_of_late_items
    pub fn through(mut self, repository: &'a dyn Restores) -> Self {
        self.through.push(repository);
        self
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Moved> {
        let shared = self.shared;
        through::check(&self.through, &shared.archived)?;
        let before = self.before.unwrap_or_else(|| shared.limit.time());
        let (filter, age) = (shared.limit.before(before), shared.age_field());
        let walk = ChunkedFind::by_bytes(filter.clone(), progress.chunk).by_index(age::index(age));
        let newest = |by| Newest { by, age, before };
        let transfer = Transfer {
            replaces: self.replaces,
            newest: shared.newest_by.as_ref().map(FieldName::as_str).map(newest),
            through: &self.through,
            ..shared.transfer(&filter, false)
        };
        if conn.is_plan() {
            warn_of_followers(shared, conn).await?;
        }
        move_all(shared, transfer, walk, conn, progress).await
    }
}

/// Warns of the followers that take documents which move for deleted ones.
async fn warn_of_followers(shared: &Shared, conn: &mut Conn<'_>) -> Result<()> {
    let related = shared.related.collections.iter().map(|related| &related.current);
    for collection in [&shared.current].into_iter().chain(related) {
        let followers = followers_of(collection).await?.into_iter();
        conn.warn(followers.map(|follower| PlanWarning::Followed {
            follower,
            collection: collection.namespace().to_string(),
        }));
    }
    Ok(())
}

pub(super) async fn move_all(
    shared: &Shared,
    transfer: Transfer<'_>,
    walk: ChunkedFind,
    conn: &mut Conn<'_>,
    mut progress: MigrationProgress<'_>,
) -> Result<Moved> {
    let (ensure, purpose) = (shared.ensure(), "walk through the documents");
    let chunks = ensure.begin_chunks(purpose, walk, transfer.from, conn, &mut progress);
    let mut chunks = chunks.await?;
    shared.check_parts().await?;
    let (mut moved, mut left) = (Moved::default(), Left::nothing(&shared.retry));
    while let Some(chunk) = chunks.next_chunk().await? {
        moved.add(match (conn.is_plan(), moved == Moved::default()) {
            (true, false) => transfer.move_chunk(&chunk.ids, &mut left, &mut Conn::plan()).await?,
            _ => transfer.move_chunk(&chunk.ids, &mut left, conn).await?,
        });
        progress.advance(conn, chunk.documents()).await;
    }
    moved.add(transfer.move_left(left, conn).await?);
    Ok(moved)
}
