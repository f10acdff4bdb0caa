#[allow(unused_imports)] // the documentation links to it
use mongo_patterns_core::Error;
#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{AlreadyExists, Corrupt, DuplicateKey, FileStore, NotFound};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::refused_move;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Moved, Result, transaction};
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::files::not_found;
use crate::form::STORED;
use crate::repository::{FileArchive, Shared};

impl<D> FileArchive<D> {
    /// Restores the documents of a file: inserts them in the collection, and deletes the file.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive_files::FileArchive;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document};
    /// # async fn f(archive: FileArchive<Document>, march: DateTime, april: DateTime) -> mongo_patterns::Result<()> {
    /// for file in archive.files(march..april).await? {
    ///     archive.restore_file(file.name).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All documents of the file, or none. They are as old as before, so the next [`run`](Self::run) archives them again,
    /// unless they are changed. In a transaction of the caller, the next [`run`](Self::run) deletes the file, if the caller
    /// commits.
    ///
    /// # Cost
    /// A read of the file, and five round trips. The documents are in memory.
    ///
    /// # Cancel safety
    /// The file is restored or not. If it is, the next [`run`](Self::run) may have to delete it.
    ///
    /// # Errors
    /// - [`NotFound`]: the archive has no file of this name, also when it was restored already.
    /// - [`AlreadyExists`]: the collection has a [document](Error::document_id) with the `_id` of one.
    /// - [`DuplicateKey`]: a unique index of the collection refuses a document.
    /// - [`Corrupt`]: the file is missing or changed.
    /// - [`FileStore`]: the store failed.
    pub fn restore_file(&self, name: impl Into<String>) -> Write<'_, Moved> {
        let (shared, name): (&Shared, String) = (self.shared(), name.into());
        Write::new(shared.operation("restore_file"), async move |session| {
            let documents = shared.load(&name, &mut Conn::new()).await?;
            let moved = Moved::of(&documents, shared.age_field());
            let mut conn = Conn::enter(session, &shared.lanes, "").await?;
            let (retry, context) = (&shared.retry, (shared, name.as_str(), documents));
            transaction::run(&shared.current, retry, &mut conn, context, |conn, context| {
                Box::pin(restore(context, conn))
            })
            .await?;
            if !conn.is_in_transaction() {
                // The documents are restored; the next run deletes the file otherwise.
                let _ = shared.remove(&name, &mut conn).await;
            }
            Ok(moved)
        })
    }
}

/// Runs in a transaction.
async fn restore(
    (shared, name, documents): &mut (&Shared, &str, Vec<RawDocumentBuf>),
    conn: &mut Conn<'_>,
) -> Result<()> {
    if !shared.mark_deleted(name, &[STORED], conn).await? {
        return Err(not_found());
    }
    let current = &shared.current;
    let inserted = conn.insert_many(current, documents.clone(), None).await;
    inserted.map(drop).map_err(|error| {
        let ids: Vec<Bson> = documents.iter().map(|document| id_of(document)).collect();
        refused_move(error, current, current, &ids)
    })
}
