use std::time::Duration;

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{DuplicateKey, InvalidArgument, SettingsMismatch, TooLarge, ValidationFailed};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::{Deleted, DocumentId, Error, ErrorKind, IntoId, Result, transaction};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, RawBson, doc};
use mongodb::options::FindOneOptions;

use crate::entry::{Entry, of_size};
use crate::related_entries::{self, RelatedEntries};
use crate::trash::{Shared, Trash};

impl<D> Trash<D> {
    /// Deletes a document: moves it to the trash.
    ///
    /// ```no_run
    /// # async fn f(trash: mongo_patterns::archive::Trash<()>) -> mongo_patterns::Result<()> {
    /// let deleted = trash.delete("4a5b").by("ann").await?;
    /// if !deleted.found {
    ///     println!("there is no such user");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The result counts the document and its [related](crate::TrashBuilder::related) ones. A document that is not found is
    /// no error: a retry finds nothing. The time of the deletion is by the client's clock.
    ///
    /// # Guarantees
    /// An acknowledged write of another client is in the entry, or it finds no document. Of several deletions of a document,
    /// one finds it. The unique indexes of the collection no longer have its values.
    ///
    /// # Cost
    /// Three round trips, in a transaction. The server examines one document, and sends it to the client. For each
    /// [related](crate::TrashBuilder::related) collection one more, or three if it has documents. After a conflict two more
    /// for each. And the [check of the indexes](crate#cost) once.
    ///
    /// # Cancel safety
    /// The document is deleted, with its related ones, or not. Retry it.
    ///
    /// # Errors
    /// - [`TooLarge`]: an entry would pass MongoDB's limit of 16 MiB, because a document is close to it. Or there are too
    ///   many [related](crate#related-documents-of-a-trash) documents.
    /// - [`ValidationFailed`], [`DuplicateKey`]: a validator or a unique index of the trash refuses an entry.
    /// - [`SettingsMismatch`]: documents of another pattern depend on the document, in a collection that is not
    ///   [related](crate::TrashBuilder::related). Call the deletion that the error names, through the trash.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(id), None)
    }
}

mongo_patterns_core::action! {
    /// Deletes a document; returned by [`Trash::delete`].
    pub struct Delete<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        by: Option<Bson>,
    }
    with session;

    /// Stores who deletes it, or why: any value.
    by(who: impl Into<Bson>) => by = Some(who.into());

    "delete" => Deleted
}

impl Delete<'_> {
    async fn execute(self) -> Result<Deleted> {
        let (shared, id) = (self.shared, self.id?);
        let deleted_by = self.by.map(RawBson::try_from).transpose().map_err(|error| {
            let text = "who deletes it is a value that BSON does not have, nothing was sent: pass another one";
            Error::from_driver(ErrorKind::InvalidArgument, text, error)
        })?;
        let entry = entry_of_now(shared, deleted_by);
        shared.check_dependents().await?;
        shared.check_related_indexes().await?;
        let mut conn = shared.enter(self.session, &id).await?;
        let context = (shared, &id, &entry, false);
        transaction::run(
            &shared.current,
            &shared.retry,
            &mut conn,
            context,
            |conn, (shared, id, entry, is_again)| {
                Box::pin(async move {
                    if std::mem::replace(is_again, true) {
                        related_entries::lock(shared, id.value(), conn).await?;
                    }
                    delete(shared, id.value(), entry, conn).await
                })
            },
        )
        .await
    }
}

/// Returns what the entry of a deletion at this moment has.
pub(super) fn entry_of_now(shared: &Shared, deleted_by: Option<RawBson>) -> Entry {
    let deleted_at = DateTime::now();
    Entry {
        id: ObjectId::new(),
        deleted_at,
        deleted_by,
        expires_at: shared.expires_after.map(|after| later(deleted_at, after)),
        related: shared.has_related().then_some(0),
    }
}

fn later(time: DateTime, after: Duration) -> DateTime {
    let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_millis(time.timestamp_millis().saturating_add(after))
}

/// Moves a document to the trash with its related ones, in a transaction.
pub(super) async fn delete(shared: &Shared, id: &Bson, entry: &Entry, conn: &mut Conn<'_>) -> Result<Deleted> {
    let current = &shared.current;
    let mut related = RelatedEntries::default();
    if conn.is_of_caller() {
        related = RelatedEntries::read(shared, id, entry, conn).await?;
    }
    let fits = of_size(id, entry.most_bytes());
    let Some(document) = conn.find_one_and_delete(current, fits, None).await? else {
        let options = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
        return match conn.find_one(current, by_id(id), options).await? {
            None => Ok(Deleted::default()),
            Some(_) => Err(too_large(id).of_collection(current)),
        };
    };
    if !conn.is_of_caller() {
        related = RelatedEntries::read(shared, id, entry, conn).await?;
    }
    related.delete_documents(conn).await?;
    related.insert_with(shared, entry, &document, conn).await
}

fn too_large(id: &Bson) -> Error {
    let text = "the document with its deletion would pass MongoDB's limit of 16 MiB, nothing was changed: remove a part of the document first, or delete it without the trash";
    Error::new(ErrorKind::TooLarge, text).of_document(id.clone(), "")
}
