//! Documents of the caller, checked before anything is sent.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{self, Bson, Document, Timestamp, doc};
use serde::Serialize;

use crate::document_id::{DocumentId, canonical};
use crate::error::{Error, ErrorKind, Result};
use crate::field::FieldName;
use crate::value::size;

/// A document to insert, or to replace the content of a stored one.
#[derive(Clone)]
pub struct NewDocument {
    /// The value of its id field.
    pub id: Bson,
    /// The document, with an `_id` at its start.
    pub document: Document,
}

crate::redacted_debug!(NewDocument);

impl NewDocument {
    /// Encodes a document with the id in this field.
    ///
    /// # Errors
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): an invalid id or `_id`, or a field that the server would replace.
    pub fn encode<D: Serialize>(id: &FieldName, document: &D) -> Result<Self> {
        let raw = bson::serialize_to_raw_document_buf(document).map_err(not_encoded)?;
        size::check(&raw)?;
        let mut encoded = Document::try_from(raw).map_err(not_encoded)?;
        let replaced = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
        if encoded.values().any(|value| *value == replaced) {
            return Err(refused(
                "a field of the document is `Timestamp(0, 0)`, which the server replaces by the time of an insert, so that a copy would differ from the document, nothing was stored: use another value",
            ));
        }
        let Some(id) = encoded.get(id.as_str()) else {
            return Err(refused("the document has no id field, nothing was stored: set it"));
        };
        let id = DocumentId::new(id.clone())?.into_bson();
        let own = encoded.remove("_id").unwrap_or_else(|| ObjectId::new().into());
        let mut document = doc! { "_id": DocumentId::new(own)?.into_bson() };
        document.extend(encoded);
        Ok(Self { id, document })
    }

    /// Returns the content of a replacement: the document without its `_id`, which does not change.
    ///
    /// # Errors
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): it has another id.
    pub fn into_replacement(mut self, id: &Bson) -> Result<Document> {
        if canonical(&self.id) != canonical(id) {
            return Err(refused(
                "the id in the document is not the id of the call, nothing was changed: an id does not change; insert a document with the other id",
            ));
        }
        self.document.remove("_id");
        Ok(self.document)
    }
}

fn not_encoded(error: bson::error::Error) -> Error {
    let message = "the document cannot be encoded as BSON, nothing was stored: see as_driver_error() for the reason";
    Error::from_driver(ErrorKind::Encode, message, error)
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
