//! The calls that write one document.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::*;
use mongo_patterns_core::action::Write;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::update::Operators;
use mongo_patterns_core::versions::encode;
use mongo_patterns_core::{Deleted, DocumentId, Error, ErrorKind, Inserted, IntoId, Result, Updated, in_order};
use mongodb::bson::Document;
use serde::Serialize;

use crate::form::{checked, refused};
use crate::repository::SchemaRepository;
use crate::write;
use crate::write::Change;

impl<D: Serialize> SchemaRepository<D> {
    /// Inserts a document, with the newest version.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// contacts.insert(&doc! { "_id": 1, "name": "Taylor" }).await?; // stored with schemaVersion
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The document is stored or not. Retry it: `AlreadyExists` means that it is stored. Without an `_id`, a retry can store
    /// it twice.
    ///
    /// # Errors
    /// - [`AlreadyExists`]: there is a document with this `_id`.
    /// - [`InvalidArgument`]: its version field has another version.
    pub fn insert(&self, document: &D) -> Write<'_, Inserted> {
        let shared = self.shared();
        let document = encode(document).and_then(|document| checked(&shared.settings, &document));
        Write::new(shared.operation("insert"), async move |session| {
            let document = document?;
            let mut conn = Conn::of_caller(session).await?;
            let inserted = conn.insert_one(&shared.collection, document, None).await;
            Ok(Inserted::new(inserted.map_err(not_inserted)?.inserted_id))
        })
    }

    /// Inserts documents with the newest version, in this order, until the server refuses one.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// let inserted = contacts.insert_many(&[doc! { "_id": 1, "name": "Taylor" }, doc! { "_id": 2 }]).await?;
    /// assert_eq!(inserted.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each 8 MB of documents.
    ///
    /// # Cancel safety
    /// Some documents are stored. Call it again: `AlreadyExists` means that some are stored. Then insert the documents that
    /// [`find`](Self::find) does not find. Without an `_id`, a retry can store one twice.
    ///
    /// # Errors
    /// - [`InvalidArgument`], [`Encode`], [`TooLarge`]: as for [`insert`](Self::insert), for any of the documents. Nothing
    ///   is sent.
    /// - [`AlreadyExists`], [`DuplicateKey`]: the server refuses a document. The documents before it are stored, and
    ///   [`stored_count`](mongo_patterns_core::Error::stored_count) is their number. In a transaction of the caller, none
    ///   is.
    pub fn insert_many(&self, documents: &[D]) -> Write<'_, Vec<Inserted>> {
        let shared = self.shared();
        let checked = |document| checked(&shared.settings, &encode(document)?);
        let documents = documents.iter().map(checked).collect::<Result<Vec<_>>>();
        Write::new(shared.operation("insert_many"), async move |session| {
            let documents = documents?;
            let mut conn = Conn::of_caller(session).await?;
            let ids = in_order::insert(&mut conn, &shared.collection, documents, not_inserted).await?;
            Ok(ids.into_iter().map(Inserted::new).collect())
        })
    }

    /// Replaces a document, of the newest or of an older version, by one of the newest. Idempotent: safe to retry.
    ///
    /// The document can have its `_id`, or an equal integer of another type, which is stored then. Fields that other
    /// repositories [own](mongo_patterns_core::catalog#owners) stay as they are, such as a count or the number of a
    /// revision.
    // proof: together::replaced::each_call_keeps_what_each_other_repository_owns
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// contacts.replace(1, &doc! { "name": "Taylor", "contactInfo": { "cell": "+1 555" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document. A refused write takes a second, which reads the reason. A repository
    /// whose `ensure_indexes()` was not called needs one more once.
    ///
    /// # Cancel safety
    /// The document is replaced or not. Retry it.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such document.
    /// - [`NewerVersion`]: the document is of a later release.
    /// - [`Corrupt`]: its version field has another value.
    /// - [`InvalidArgument`]: the new document has another `_id`.
    /// - The errors of [`insert`](Self::insert), but no `AlreadyExists`.
    pub fn replace(&self, id: impl IntoId, document: &D) -> Write<'_, Updated> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        let document = encode(document).and_then(|document| checked(&shared.settings, &document));
        Write::new(shared.operation("replace"), async move |session| {
            let (id, document) = (id?, document?);
            let has_id = document.get("_id").ok().flatten().is_some();
            if has_id && canonical(&id_of(&document)) != canonical(id.value()) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the document has another `_id` than the call, nothing was changed: an `_id` does not change",
                ));
            }
            let replaced = write::run(shared, &id, Change::Replace(document), session);
            Ok(Updated::new(replaced.await?))
        })
    }
}

fn not_inserted(error: CommandError) -> Error {
    match duplicate_key(&error).is_some_and(|duplicate| duplicate.is_of_id()) {
        true => Error::from_driver(
            ErrorKind::AlreadyExists,
            "there is a document with this `_id` already, which was not changed: replace it, or use another `_id`",
            error,
        ),
        false => refused(error),
    }
}

impl<D> SchemaRepository<D> {
    /// Updates a document by update operators, which are for the newest version. An older document is converted first.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(contacts: mongo_patterns::schema::SchemaRepository<()>) -> mongo_patterns::Result<()> {
    /// contacts.update(1, doc! { "$set": { "contactInfo.cell": "+1 555" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [All calls](mongo_patterns_core::action#operators) have the same operators. The version field and `_id` cannot be
    /// changed.
    ///
    /// # Cost
    /// One round trip, which examines one document. For an older document three more with steps on the server alone, or five
    /// with typed steps. A refused write takes a second round trip, which reads the reason.
    ///
    /// # Cancel safety
    /// The document is updated or not; an older document may be converted only. Retry an idempotent update.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such document.
    /// - [`NewerVersion`]: the document is of a later release.
    /// - [`NotMigrated`]: its version has no step.
    /// - [`Corrupt`]: its version field has another value.
    /// - [`InvalidArgument`]: an invalid update, or an update that does not suit the stored values.
    /// - The error of a step.
    pub fn update(&self, id: impl IntoId, update: Document) -> Write<'_, Updated> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Write::new(shared.operation("update"), async move |session| {
            let others = shared.others_of_update().await?;
            let mut fixed = vec![
                (
                    "_id",
                    "the `_id` of a document does not change, nothing was sent: leave it out",
                ),
                (
                    shared.settings.version.as_str(),
                    "the repository sets the version, nothing was sent: leave it out",
                ),
            ];
            fixed.extend(others.fixed());
            let operators = Operators::new(update, &fixed)?.under("");
            let id = id?;
            let updated = write::run(shared, &id, Change::Update(operators), session);
            Ok(Updated::new(updated.await?))
        })
    }

    /// Deletes a document, of the newest or of an older version.
    ///
    /// ```no_run
    /// # async fn f(contacts: mongo_patterns::schema::SchemaRepository<()>) -> mongo_patterns::Result<()> {
    /// let deleted = contacts.delete(1).await?;
    /// println!("{}", deleted.found);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. A second one when there is no such document, or when it was refused. One more, once, if
    /// `ensure_indexes()` was not called.
    ///
    /// # Cancel safety
    /// The document is deleted or not. Retry it: [`found`](Deleted::found) is `false` if it was deleted.
    ///
    /// # Errors
    /// - [`NewerVersion`]: the document is of a later release, which may have more to delete with it.
    /// - [`Corrupt`]: its version field has another value.
    /// - [`SettingsMismatch`]: documents of another repository depend on the document, such as the children of a subset:
    ///   call what the error names.
    pub fn delete(&self, id: impl IntoId) -> Write<'_, Deleted> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Write::new(shared.operation("delete"), async move |session| {
            match write::run(shared, &id?, Change::Delete, session).await {
                Ok(found) => Ok(Deleted::new(found.into())),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Deleted::default()),
                Err(error) => Err(error),
            }
        })
    }
}
