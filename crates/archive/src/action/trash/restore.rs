#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, Corrupt, DuplicateKey, NotFound, SettingsMismatch, ValidationFailed,
};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{DocumentId, IntoId, Result, transaction};
use mongodb::bson::{Bson, doc};
use mongodb::options::{FindOneOptions, Hint};

use crate::action::restore_one::Restore;
use crate::entry;
use crate::related_entries;
use crate::results::Restored;
use crate::through::{self, Through};
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
    /// Idempotent: safe to retry. While older entries have the same `_id`, a retry returns [`AlreadyExists`]. The newest
    /// entry is the one with the latest time, by the clocks of the clients.
    ///
    /// # Cost
    /// Four round trips, in a transaction, and the [check of the indexes](crate#cost) once. The server examines one entry.
    /// With [related](crate#related-documents-of-a-trash) documents two more, and one for each of their collections.
    ///
    /// # Cancel safety
    /// The document is restored or not. Retry it.
    ///
    /// # Errors
    /// - [`NotFound`]: neither the trash nor the collection has the document, or some of its related documents are gone from
    ///   the trash.
    /// - [`SettingsMismatch`]: related documents are of a collection that the trash does not name.
    /// - [`AlreadyExists`]: both have one.
    /// - [`DuplicateKey`], [`ValidationFailed`]: a unique index or the validator of the collection refuses the document by
    ///   now.
    /// - [`Corrupt`]: an entry has no document.
    pub fn restore(&self, id: impl IntoId) -> Restore<'_> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Restore::new(shared.operation("restore"), async move |session, through| {
            let id = id?;
            through::check(&through, &shared.current)?;
            shared.check_indexes().await?;
            let mut conn = shared.enter(session, &id).await?;
            transaction::run(
                &shared.trash,
                &shared.retry,
                &mut conn,
                (shared, &id, through.as_slice()),
                |conn, (shared, id, through)| Box::pin(restore(shared, id.value(), through, conn)),
            )
            .await
        })
    }
}

async fn restore(shared: &Shared, id: &Bson, through: &Through<'_>, conn: &mut Conn<'_>) -> Result<Restored> {
    let Shared { current, trash, .. } = shared;
    let newest = FindOneOptions::builder()
        .sort(doc! { entry::DELETED_AT: -1, "_id": -1 })
        .hint(Hint::Name(BY_DOCUMENT.to_owned()))
        .build();
    let of_document = and(entry::of_document(id), shared.of_documents());
    let Some(stored) = conn.find_one(trash, of_document, newest).await? else {
        return already_restored(current, id, conn).await;
    };
    related_entries::check(shared, &stored)?;
    let document = entry::document_of(&stored).map_err(|error| error.of_collection(trash))?;
    let related = related_entries::find(shared, &stored, conn).await?;
    let documents = through::updated(through, vec![document.to_owned()], conn).await?;
    // With the shard key.
    let mut of_entry = by_id(&id_of(&stored));
    of_entry.extend(entry::of_document(id));
    let restored = put_back(trash, of_entry, documents, current, conn).await?;
    related_entries::restore(&related, conn).await?;
    Ok(restored)
}
