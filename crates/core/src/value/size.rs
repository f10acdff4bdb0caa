//! MongoDB's limit of a document.

use mongodb::bson::RawDocument;

use crate::error::{Error, ErrorKind, Result};

/// The most bytes of a document.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The bytes that the driver adds to a document without an `_id`: a type, a name with its NUL, and an ObjectId.
const ID_BYTES: usize = 1 + 4 + 12;

/// Refuses a document that is too large to insert, before anything is sent. The driver would refuse it after earlier
/// documents of the call.
pub fn check(document: &RawDocument) -> Result<()> {
    let id = match document.get("_id") {
        Ok(None) => ID_BYTES,
        _ => 0,
    };
    if document.as_bytes().len() + id <= MAX_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        "the document would pass MongoDB's limit of 16 MiB, nothing was stored: store a smaller one",
    ))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn of_size(mut document: RawDocumentBuf, bytes: usize) -> RawDocumentBuf {
        // The type, the name, the length of the text and its end.
        let head = 1 + 2 + 4 + 1;
        let text = "x".repeat(bytes - document.as_bytes().len() - head);
        document.append(mongodb::bson::cstr!("t"), text);
        assert_eq!(document.as_bytes().len(), bytes);
        document
    }

    #[test]
    fn a_document_is_too_large_with_the_id_that_it_gets() {
        assert!(check(&of_size(rawdoc! { "_id": 1 }, MAX_BYTES)).is_ok());
        assert!(check(&of_size(rawdoc! {}, MAX_BYTES - ID_BYTES)).is_ok());
        for document in [
            of_size(rawdoc! { "_id": 1 }, MAX_BYTES + 1),
            of_size(rawdoc! {}, MAX_BYTES - ID_BYTES + 1),
        ] {
            assert_eq!(check(&document).unwrap_err().kind(), ErrorKind::TooLarge);
        }
    }
}
