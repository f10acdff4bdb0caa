#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, Contention, Corrupt, DuplicateKey, IndexMismatch, IndexMissing, InvalidArgument, NotFound,
    Unsupported, ValidationFailed,
};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{DocumentId, IntoId, Result, transaction};
use mongodb::bson::{Bson, doc};
use mongodb::options::{FindOneOptions, Hint};

use crate::entry;
use crate::results::Restored;
use crate::transfer::{already_restored, put_back};
use crate::trash::{BY_DOCUMENT, Shared, Trash};

impl<D> Trash<D> {
    /// Restores a deleted document: moves it back. If several documents with this `_id` were deleted, the newest one.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # async fn f(trash: mongo_patterns::archive::Trash<()>) -> mongo_patterns::Result<()> {
    /// match trash.restore("4a5b").await {
    ///     Err(error) if error.kind() == ErrorKind::DuplicateKey => println!("another user has the address by now"),
    ///     restored => drop(restored?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Idempotent: safe to retry. While older entries have the same `_id`, a retry returns [`AlreadyExists`], with nothing
    /// changed. The newest one is that with the latest time, by the clocks of the clients that deleted them.
    ///
    /// # Cost
    /// Four round trips, in a transaction, and the [check of the indexes](crate#cost) once. The server examines one entry.
    ///
    /// # Cancel safety
    /// The document is restored or not. Retry it. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when neither the trash nor the collection has the document, [`AlreadyExists`] when
    /// both have one, [`DuplicateKey`] by a unique index of the collection, whose value another document has by now,
    /// [`ValidationFailed`] by its validator, [`Corrupt`] for an entry without a document, [`InvalidArgument`] for an id of an
    /// invalid type, [`IndexMissing`], [`IndexMismatch`], [`Unsupported`] on a standalone, and [`Contention`].
    pub fn restore(&self, id: impl IntoId) -> Write<'_, Restored> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Write::new(shared.operation("restore"), async move |session| {
            let id = id?;
            shared.check_indexes().await?;
            let mut conn = shared.enter(session, &id).await?;
            transaction::run(
                &shared.trash,
                &shared.retry,
                &mut conn,
                (shared, &id),
                |conn, (shared, id)| Box::pin(restore(shared, id.value(), conn)),
            )
            .await
        })
    }
}

async fn restore(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Restored> {
    let Shared { current, trash, .. } = shared;
    let newest = FindOneOptions::builder()
        .sort(doc! { entry::DELETED_AT: -1, "_id": -1 })
        .hint(Hint::Name(BY_DOCUMENT.to_owned()))
        .build();
    let Some(stored) = conn.find_one(trash, entry::of_document(id), newest).await? else {
        return already_restored(current, id, conn).await;
    };
    let document = entry::document_of(&stored).map_err(|error| error.of_collection(trash))?;
    // With the shard key.
    let mut of_entry = by_id(&id_of(&stored));
    of_entry.extend(entry::of_document(id));
    put_back(trash, of_entry, document.to_owned(), current, conn).await
}
