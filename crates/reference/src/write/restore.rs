//! Documents that another repository restores, such as a trash: their copies become current.
//!
//! # Design
//!
//! ## Why are the sources locked?
//!
//! The copies of a document in a trash are as old as its deletion, and its sources may be gone. No update of a source and no
//! check for references sees the document before its transaction commits. So the transaction locks the sources, as an
//! [insert](super::insert) does.

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_ids;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::through::Restores;
use mongo_patterns_core::transaction::lock_documents;
use mongo_patterns_core::{Error, ErrorKind, Result, size};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use crate::form::copy;
use crate::form::document::{copies_mut, not_encoded, stored_copies};
use crate::form::id::distinct;
use crate::read::{Sources, find_sources};
use crate::repository::{ReferenceRepository, Shared};
use crate::settings::{DELETED, ReferenceField};
use crate::write::settle::unmark_all;

/// A restored document refers to existing sources, and its copies are current. Copies of a
/// [snapshot](crate::Reference::snapshot) stay as they are, and so do copies that `KeepCopy` has marked as deleted. A
/// missing source is [`NotFound`](ErrorKind::NotFound), and nothing is restored.
///
/// It takes four round trips, or one more for each source that another client is deleting.
// proof: together::restored::no_restored_order_dangles_beside_writers_of_sources
impl<D, S> Restores for ReferenceRepository<D, S> {
    fn restores(&self) -> &Collection<RawDocumentBuf> {
        self.shared().documents()
    }

    fn restore_in<'a>(
        &'a self,
        documents: Vec<RawDocumentBuf>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
        Box::pin(restore(self.shared(), documents, conn))
    }
}

/// Returns the documents with the copies of their sources, which it locks.
async fn restore(shared: &Shared, documents: Vec<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
    let decoded = documents.iter().map(|document| Document::try_from(document.as_ref()));
    let mut restored: Vec<Document> = decoded
        .collect::<std::result::Result<_, _>>()
        .map_err(CommandError::from)?;
    let fields = || shared.settings.own();
    let copies = restored
        .iter()
        .flat_map(|document| fields().flat_map(|field| stored_copies(field, document).0));
    let ids = distinct(copies.filter_map(|copy| copy.get("_id")));
    if ids.is_empty() {
        return Ok(documents);
    }
    lock_documents(conn, &shared.sources, &by_ids(&ids)).await?;
    let sources = find_sources(shared, &ids, conn).await?;
    unmark_all(shared, &sources, conn).await?;
    for document in &mut restored {
        for field in fields() {
            refresh(shared, field, document, &sources)?;
        }
    }
    restored.iter().map(encoded).collect()
}

/// Makes the copies of a reference in a document current.
fn refresh(shared: &Shared, field: &ReferenceField, document: &mut Document, sources: &Sources) -> Result<()> {
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    for copy in copies_mut(field, document) {
        let Some(of_source) = copy.get("_id") else { continue };
        let Some(source) = sources.get(of_source) else {
            match copy::is_deleted(copy) {
                true => continue,
                false => return Err(no_source(id, field).of_collection(shared.documents())),
            }
        };
        copy.remove(DELETED);
        if !field.is_snapshot {
            copy::refresh(&shared.settings, field, source, copy);
        }
    }
    Ok(())
}

fn encoded(document: &Document) -> Result<RawDocumentBuf> {
    let raw = RawDocumentBuf::try_from(document).map_err(|error| not_encoded(&error))?;
    size::check(&raw)?;
    Ok(raw)
}

fn no_source(document: Bson, field: &ReferenceField) -> Error {
    let text = "a source to which the document refers does not exist, so the document was not restored: insert the source again, or restore the document without through(..), and then change or remove the reference";
    Error::new(ErrorKind::NotFound, text).of_document(document, field.name.as_str())
}
