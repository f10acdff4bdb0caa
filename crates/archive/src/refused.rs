//! The errors of documents that the target of a move refuses.

use mongo_patterns_core::error::{CommandError, duplicate_key};

use crate::prelude::*;

/// Converts the error of the insert, with the document that was refused.
pub(crate) fn refused(error: CommandError, to: &Raw, id: Option<Bson>) -> Error {
    let error = match duplicate_key(&error) {
        Some(duplicate) if duplicate.is_of_id() => Error::from_driver(
            ErrorKind::AlreadyExists,
            format!(
                "`{}` has a document with this `_id` too, nothing was changed: delete one of the two",
                to.name()
            ),
            error,
        ),
        Some(duplicate) => Error::from_driver(
            ErrorKind::DuplicateKey,
            format!(
                "the unique index `{}` of `{}` refused a document, which stays where it is: drop the index, or change one of the two documents",
                duplicate.index.unwrap_or_default(),
                to.name()
            ),
            error,
        ),
        None => error.into(),
    };
    match id {
        Some(id) => error.at(id, "").of_collection(to),
        None => error,
    }
}
