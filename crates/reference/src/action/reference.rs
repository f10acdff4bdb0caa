#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, InvalidArgument, NotFound};
use mongo_patterns_core::{DocumentId, IntoId, Result, Updated, action};

use crate::repository::{ReferenceRepository, Shared};
use crate::settings::invalid_argument;
use crate::write::reference::{Change, field_of, remove};

impl<D, S> ReferenceRepository<D, S> {
    /// Sets the reference of a document to a source, with a copy of it. Replaces the previous reference.
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), the source is named by its key.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// orders.set_reference(1, 457).await?;
    /// orders.set_reference(1, 458).field("payer").await?; // another reference field
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips: the source, the document, and the source again. One more if the source was updated in between.
    /// Four in a transaction of the caller.
    ///
    /// # Cancel safety
    /// The reference is set or not. Its copy can be outdated, if the source was updated or deleted concurrently. Call it
    /// again: idempotent.
    ///
    /// # Errors
    /// - [`NotFound`]: the document or the source does not exist. If the source was deleted concurrently, the document has
    ///   no reference.
    /// - [`InvalidArgument`]: an unknown field or an array.
    /// - [`Corrupt`]: the version of the source is not an integer.
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the reference is set, and its
    /// copy can be outdated.
    pub fn set_reference(&self, id: impl IntoId, source: impl IntoId) -> SetReference<'_> {
        let ids = [DocumentId::new(id), DocumentId::new(source)];
        SetReference::create(self.shared(), ids, None)
    }

    /// Removes the reference of a document.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let cleared = orders.clear_reference(1).await?;
    /// println!("it had one: {}", cleared.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The reference is removed or not. Call it again: idempotent.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    /// - [`InvalidArgument`]: an unknown field or an array.
    pub fn clear_reference(&self, id: impl IntoId) -> ClearReference<'_> {
        ClearReference::create(self.shared(), DocumentId::new(id), None)
    }

    /// Adds a reference to the end of an array, with a copy of the source. Idempotent: if the array refers to the source
    /// already, the result is not `modified`.
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), the source is named by its key.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// orders.add_reference_to(1, "pen").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`set_reference`](Self::set_reference), also if the array has the reference already.
    ///
    /// # Cancel safety
    /// As [`set_reference`](Self::set_reference).
    ///
    /// # Errors
    /// - The errors of [`set_reference`](Self::set_reference).
    /// - [`InvalidArgument`]: the field is not an array of references.
    pub fn add_reference_to(&self, id: impl IntoId, source: impl IntoId) -> AddReference<'_> {
        let ids = [DocumentId::new(id), DocumentId::new(source)];
        AddReference::create(self.shared(), ids, None)
    }

    /// Removes a reference from an array, by the `_id` of its source. The result is not `modified` if the array does not
    /// have it.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let removed = orders.remove_reference(1, "pen").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one more if the document does not have the reference.
    ///
    /// # Cancel safety
    /// As [`clear_reference`](Self::clear_reference).
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    /// - [`InvalidArgument`]: the field is not an array of references.
    pub fn remove_reference(&self, id: impl IntoId, source: impl IntoId) -> RemoveReference<'_> {
        let ids = [DocumentId::new(id), DocumentId::new(source)];
        RemoveReference::create(self.shared(), ids, None)
    }
}

action! {
    /// Sets a reference; returned by [`ReferenceRepository::set_reference`].
    pub struct SetReference<'a> {
        shared: &'a Shared,
        ids: [Result<DocumentId>; 2],
        field: Option<String>,
    }
    with session;

    /// Sets the reference field; by default the builder's `reference_field`.
    field(name: impl Into<String>) => field = Some(name.into());

    "set_reference" => Updated
}

action! {
    /// Removes a reference; returned by [`ReferenceRepository::clear_reference`].
    pub struct ClearReference<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        field: Option<String>,
    }
    with session;

    /// Sets the reference field; by default the builder's `reference_field`.
    field(name: impl Into<String>) => field = Some(name.into());

    "clear_reference" => Updated
}

action! {
    /// Adds a reference to an array; returned by [`ReferenceRepository::add_reference_to`].
    pub struct AddReference<'a> {
        shared: &'a Shared,
        ids: [Result<DocumentId>; 2],
        field: Option<String>,
    }
    with session;

    /// Sets the reference field; by default the builder's `reference_field`.
    field(name: impl Into<String>) => field = Some(name.into());

    "add_reference_to" => Updated
}

action! {
    /// Removes a reference from an array; returned by [`ReferenceRepository::remove_reference`].
    pub struct RemoveReference<'a> {
        shared: &'a Shared,
        ids: [Result<DocumentId>; 2],
        field: Option<String>,
    }
    with session;

    /// Sets the reference field; by default the builder's `reference_field`.
    field(name: impl Into<String>) => field = Some(name.into());

    "remove_reference" => Updated
}

/// Checks the arguments of a call that stores a copy.
fn change<'a>(
    shared: &'a Shared,
    ids: [Result<DocumentId>; 2],
    field: Option<&str>,
    arrays: bool,
) -> Result<Change<'a>> {
    let [document, source] = ids;
    if shared.settings.key.is_some()
        && source
            .as_ref()
            .is_ok_and(|source| source.value().as_document().is_some())
    {
        return Err(invalid_argument(
            "a source is named by the value of its source key, which is not a document, nothing was sent: pass the value alone",
        ));
    }
    Ok(Change {
        field: field_of(shared, field, arrays)?,
        shared,
        document: document?.into_bson(),
        source: source?.into_bson(),
    })
}

impl SetReference<'_> {
    async fn execute(self) -> Result<Updated> {
        let change = change(self.shared, self.ids, self.field.as_deref(), false)?;
        change.send(self.session).await
    }
}

impl AddReference<'_> {
    async fn execute(self) -> Result<Updated> {
        let change = change(self.shared, self.ids, self.field.as_deref(), true)?;
        change.send(self.session).await
    }
}

impl ClearReference<'_> {
    async fn execute(self) -> Result<Updated> {
        let field = field_of(self.shared, self.field.as_deref(), false)?;
        let id = self.id?.into_bson();
        remove(self.shared, field, &id, None, self.session).await
    }
}

impl RemoveReference<'_> {
    async fn execute(self) -> Result<Updated> {
        let field = field_of(self.shared, self.field.as_deref(), true)?;
        let [document, source] = self.ids;
        let (document, source) = (document?.into_bson(), source?.into_bson());
        remove(self.shared, field, &document, Some(&source), self.session).await
    }
}
