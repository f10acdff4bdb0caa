#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{AlreadyExists, DuplicateKey, InvalidArgument, NotFound, TooLarge};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress, check_filter};
use mongo_patterns_core::through::Restores;
use mongo_patterns_core::{DocumentId, IntoId, Moved, Result, document_id, migration, transaction};
use mongodb::bson::{Bson, Document};

use super::restore_one::Restore;
use super::run::move_all;
use crate::related;
use crate::repository::{Archive, Shared};
use crate::results::Restored;
use crate::through::{self, Through};
use crate::transfer::{Transfer, already_restored, put_back};

impl<D> Archive<D> {
    /// Restores an archived document: moves it back. Idempotent: safe to retry.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::mongodb::{Client, bson::{DateTime, doc}};
    /// # async fn f(client: Client, archive: Archive<()>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// archive.restore(1).session(&mut session).await?;
    /// // Otherwise the next run archives it again.
    /// let keep = doc! { "$set": { "retentionPolicy": "permanent" } };
    /// archive.collection().update_one(doc! { "_id": 1 }, keep).session(&mut session).await?;
    /// session.commit_transaction().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The document is as old as before, so the next [`run`](Self::run) archives it again, unless it is changed: give it
    /// another age, or let it match the filter of the documents to [keep](crate::ArchiveBuilder::keep).
    ///
    /// # Cost
    /// Four round trips, in a transaction. For each collection of [related](crate::ArchiveBuilder::related) documents one
    /// more, or four if there are some.
    ///
    /// # Cancel safety
    /// The document is restored or not. Retry it.
    ///
    /// # Errors
    /// - [`NotFound`]: neither collection has the document.
    /// - [`AlreadyExists`]: both collections have one.
    /// - [`DuplicateKey`]: a unique index of the collection refuses it, because another document has its value by now.
    /// - [`TooLarge`]: it has too many [related](crate#related-documents) documents.
    pub fn restore(&self, id: impl IntoId) -> Restore<'_> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Restore::new(shared.operation("restore"), async move |session, through| {
            let id = id?;
            through::check(&through, &shared.current)?;
            let mut conn = Conn::enter(session, &shared.lanes, &document_id::canonical(id.value())).await?;
            let retry = &shared.retry;
            transaction::run(
                &shared.archived,
                retry,
                &mut conn,
                (shared, &id, through.as_slice()),
                |conn, (shared, id, through)| Box::pin(restore(shared, id.value(), through, conn)),
            )
            .await
        })
    }

    /// Restores all archived documents that match a filter, in the background, as [`run`](Self::run) archives them.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>) -> mongo_patterns::Result<()> {
    /// let moved = archive.restore_many(doc! { "customer_name": "Claire" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An empty filter restores everything. It works as [`run`](Self::run), in the other direction: a document whose `_id`
    /// is in the collection stays in the archive.
    ///
    /// # Cost
    /// As [`run`](Self::run), and one round trip that checks a filter which is not empty. The archive is read in the order
    /// of the `_id`s, and no other index is used.
    ///
    /// # Cancel safety
    /// A chunk is restored or not. Call it again.
    ///
    /// # Errors
    /// - The errors of [`run`](Self::run).
    /// - [`DuplicateKey`]: a unique index of the collection refused a document, with all others restored.
    /// - [`InvalidArgument`]: the server refuses the filter.
    pub fn restore_many(&self, filter: Document) -> RestoreMany<'_> {
        RestoreMany::with_defaults(self.shared(), filter, Vec::new())
    }
}

async fn restore(shared: &Shared, id: &Bson, through: &Through<'_>, conn: &mut Conn<'_>) -> Result<Restored> {
    let Shared { current, archived, .. } = shared;
    match conn.find_one(archived, by_id(id), None).await? {
        Some(document) => {
            let documents = std::slice::from_ref(&document);
            let related = shared.related.read(documents, true, conn).await;
            let related = related.map_err(|error| error.of_collection(archived))?;
            let documents = through::updated(through, vec![document], conn).await?;
            related::delete(&related, conn).await?;
            let restored = put_back(archived, by_id(id), documents, current, conn).await?;
            related::insert(&related, conn).await?;
            Ok(restored)
        }
        None => already_restored(current, id, conn).await,
    }
}

migration! {
    /// Restores documents; returned by [`Archive::restore_many`].
    pub struct RestoreMany<'a> {
        shared: &'a Shared,
        filter: Document,
        through: Vec<&'a dyn Restores>,
    }
    "restore_many" => Moved;
    in chunks of 500 "documents";
}

impl<'a> RestoreMany<'a> {
    /// Lets another repository of the collection bring the documents up to date, in the transaction of each chunk. Can be
    /// called several times.
    ///
    /// See [`Restore::through`]. A document whose source does not exist stays in the archive. All others are restored, and
    /// then the call ends with [`NotFound`] for the first such [document](mongo_patterns_core::Error::document_id). The plan
    /// does not list the work of the repository.
    /// what the repository does.
    // proof: together::restored::restore_many_leaves_what_has_no_source
    pub fn through(mut self, repository: &'a dyn Restores) -> Self {
        self.through.push(repository);
        self
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Moved> {
        let shared = self.shared;
        through::check(&self.through, &shared.current)?;
        check_filter(conn, &shared.archived, &self.filter).await?;
        let walk = ChunkedFind::by_bytes(self.filter.clone(), progress.chunk);
        let transfer = Transfer {
            through: &self.through,
            ..shared.transfer(&self.filter, true)
        };
        move_all(shared, transfer, walk, conn, progress).await
    }
}
