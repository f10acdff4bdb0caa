//! Changes of the references of one document.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::update::failed;
use mongo_patterns_core::{Error, ErrorKind, Result, Updated};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;

use crate::form::document::copies;
use crate::form::id::canonical;
use crate::form::source::Source;
use crate::query;
use crate::read::find_references;
use crate::repository::Shared;
use crate::results::{no_document, no_source};
use crate::settings::ReferenceField;
use crate::write::is_in_transaction;
use crate::write::settle::{Placed, new_copy, read_sources, settle, stored};

/// Returns the reference field of a call: the field of this name, or the first.
pub(crate) fn field_of<'a>(shared: &'a Shared, name: Option<&str>, is_array: bool) -> Result<&'a ReferenceField> {
    let is_named = |field: &&ReferenceField| name.is_none_or(|name| field.name.as_str() == name);
    let field = shared.settings.own().find(is_named).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            "the documents have no reference field of this name, nothing was sent: pass one of the builder",
        )
    })?;
    match (field.is_array, is_array) {
        (false, true) => Err(of_other_kind(
            field,
            "is not an array: call set_reference(..) or clear_reference(..)",
        )),
        (true, false) => Err(of_other_kind(
            field,
            "is an array: call add_reference_to(..) or remove_reference(..)",
        )),
        _ => Ok(field),
    }
}

fn of_other_kind(field: &ReferenceField, problem: &str) -> Error {
    let message = format!("the reference field `{}` {problem}; nothing was sent", field.name);
    Error::new(ErrorKind::InvalidArgument, message)
}

/// A change of one document that stores a copy of a source.
pub(crate) struct Change<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) field: &'a ReferenceField,
    pub(crate) document: Bson,
    /// The name of the source: its `_id`, or the value of the source key.
    pub(crate) source: Bson,
}

/// The end of an attempt.
enum Attempt {
    Done(Updated),
    /// The document was changed concurrently.
    Again,
}

impl Change<'_> {
    /// Sets the reference, or adds it to the array.
    pub(crate) async fn send(&self, session: Option<&mut ClientSession>) -> Result<Updated> {
        let shared = self.shared;
        let mut conn = shared.enter(&self.document, session).await?;
        let mut attempts = shared.settings.retry.start();
        loop {
            let sources = read_sources(shared, std::slice::from_ref(&self.source), &mut conn).await?;
            let source = sources.get(&self.source).ok_or_else(no_source)?;
            let attempt = match self.field.is_array {
                true => self.add(source, &mut conn).await?,
                false => self.set(source, &mut conn).await?,
            };
            if let Attempt::Done(updated) = attempt {
                return Ok(updated);
            }
            let changed = CommandError::custom("the document was changed concurrently");
            if is_in_transaction(&conn) {
                return Err(Error::from_driver(
                    ErrorKind::Contention,
                    "another writer changed the document at the same moment, nothing was changed: run the transaction again",
                    changed,
                ));
            }
            attempts.next(changed).await?;
        }
    }

    async fn set(&self, source: &Source, conn: &mut Conn<'_>) -> Result<Attempt> {
        let Self { shared, field, .. } = self;
        let filter = query::settable(&shared.settings, field, &self.document, source);
        let update = query::set(field, new_copy(shared, field, source));
        if let Some(updated) = self.update(filter, update, conn).await? {
            return self.settle(source, updated, conn).await;
        }
        match find_references(shared, &self.document, conn).await? {
            None => Err(no_document()),
            Some(_) => Ok(Attempt::Again),
        }
    }

    async fn add(&self, source: &Source, conn: &mut Conn<'_>) -> Result<Attempt> {
        let Self { shared, field, .. } = self;
        let copy = new_copy(shared, field, source);
        let filter = query::addable(field, &self.document, &source.id);
        let update = query::add(field, copy.clone());
        if let Some(updated) = self.update(filter, update, conn).await? {
            return self.settle(source, updated, conn).await;
        }
        let Some(found) = find_references(shared, &self.document, conn).await? else {
            return Err(no_document());
        };
        if matches!(found.get(field.name.as_str()), Some(Bson::Null)) {
            let filter = query::null_array(field, &self.document);
            let first = query::set_array(field, copy);
            return match self.update(filter, first, conn).await? {
                Some(updated) => self.settle(source, updated, conn).await,
                None => Ok(Attempt::Again),
            };
        }
        let Ok(copies) = copies(field, &found) else {
            let message = "the stored value of the field is not an array of references, nothing was changed: see document_id(), and correct it";
            return Err(Error::corrupt(self.document.clone(), field.name.as_str(), message));
        };
        let source = canonical(&source.id);
        let is_own = |copy: &Document| copy.get("_id").is_some_and(|id| canonical(id) == source);
        match copies.into_iter().any(is_own) {
            true => Ok(Attempt::Done(Updated::new(false))),
            false => Ok(Attempt::Again),
        }
    }

    /// Updates the document. Returns whether that changed it; `None` if it did not match.
    async fn update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
        conn: &mut Conn<'_>,
    ) -> Result<Option<Updated>> {
        update_document(self.shared, filter, update, conn).await
    }

    /// Makes the stored copy current. If its source was deleted, removes the reference.
    async fn settle(&self, source: &Source, updated: Updated, conn: &mut Conn<'_>) -> Result<Attempt> {
        let Self { shared, field, .. } = self;
        let placed = Placed {
            field,
            source: source.id.clone(),
            version: source.version,
        };
        let settled = settle(shared, &self.document, vec![placed], conn).await;
        for copy in settled.map_err(stored)? {
            let filter = query::one_referring_to_existing(field, &self.document, &copy.source);
            let removal = query::removal(field, &copy.source);
            let removed = conn.update_one(shared.documents(), filter, removal, None).await;
            let removed = removed.map_err(|error| stored(error.into()))?;
            if removed.matched_count > 0 {
                return Err(removed_again());
            }
        }
        Ok(Attempt::Done(updated))
    }
}

/// Removes a reference: of the field, or to this source of an array.
pub(crate) async fn remove(
    shared: &Shared,
    field: &ReferenceField,
    document: &Bson,
    source: Option<&Bson>,
    session: Option<&mut ClientSession>,
) -> Result<Updated> {
    let mut conn = shared.enter(document, session).await?;
    let (filter, update) = match source {
        None => (query::by_id(document), query::unset(field)),
        Some(source) => (
            query::one_referring(field, document, source),
            query::removal(field, source),
        ),
    };
    if let Some(updated) = update_document(shared, filter, update, &mut conn).await? {
        return Ok(updated);
    }
    let copy = match source {
        None => None,
        Some(_) => find_references(shared, document, &mut conn).await?,
    };
    match copy {
        None => Err(no_document()),
        Some(_) => Ok(Updated::new(false)),
    }
}

async fn update_document(
    shared: &Shared,
    filter: Document,
    update: impl Into<UpdateModifications>,
    conn: &mut Conn<'_>,
) -> Result<Option<Updated>> {
    let updated = conn.update_one(shared.documents(), filter, update, None).await;
    let updated = updated.map_err(|error| failed(refused(error)))?;
    Ok((updated.matched_count > 0).then(|| Updated::new(updated.modified_count > 0)))
}

/// Converts the error of a write. The pattern has no unique index of its own.
fn refused(error: CommandError) -> Error {
    match duplicate_key(&error) {
        Some(_) => Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of the application refused the change, nothing was changed: use other values",
            error,
        ),
        None => error.into(),
    }
}

fn removed_again() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the source was deleted concurrently, and the new reference was removed again: refer to another source",
    )
}
