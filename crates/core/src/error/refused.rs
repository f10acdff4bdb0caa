//! The errors of documents that a collection refuses when they move into it.

use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use super::{CommandError, Error, ErrorKind, duplicate_key, refused_document};

/// Converts the error of an insert of documents that move into a collection, with the `_id` of the one that was refused.
pub fn refused_move(error: CommandError, target: &Collection<RawDocumentBuf>, ids: &[Bson]) -> Error {
    let id = match ids {
        [only] => Some(only),
        _ => refused_document(&error).and_then(|number| ids.get(number)),
    };
    let name = target.name();
    let error = match duplicate_key(&error) {
        Some(duplicate) if duplicate.is_of_id() => Error::from_driver(
            ErrorKind::AlreadyExists,
            format!("`{name}` has a document with this `_id` too, nothing was changed: delete one of the two"),
            error,
        ),
        Some(duplicate) => Error::from_driver(
            ErrorKind::DuplicateKey,
            format!(
                "the unique index `{}` of `{name}` refused a document, which stays where it is: drop the index, or change one of the two documents",
                duplicate.index.unwrap_or_default()
            ),
            error,
        ),
        None => error.into(),
    };
    match id {
        Some(id) => error.at(id.clone(), "").of_collection(target),
        None => error,
    }
}
