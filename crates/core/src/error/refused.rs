//! The errors of commands, and of documents that a collection refuses when they move into it.

use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use super::cause::{CONFLICT_ADVICE, classify};
use super::{CommandError, Error, ErrorKind, Remedy, duplicate_key, refused_document};

/// Converts the error of an insert of documents that move from one collection into another, with the `_id` of the refused
/// document, and the collection in which it stays.
pub fn refused_move(
    error: CommandError,
    from: &Collection<RawDocumentBuf>,
    target: &Collection<RawDocumentBuf>,
    ids: &[Bson],
) -> Error {
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
                "the unique index `{}` of `{name}` refused a document, which stays where it is: change or delete one of the two documents, or drop the index if it is your own",
                duplicate.index.unwrap_or_default()
            ),
            error,
        ),
        None => {
            let error = Error::from(error);
            match error.kind() {
                ErrorKind::ValidationFailed => error.with_text(format!(
                    "the validator of `{name}` refused a document, which stays where it is: change the document or the validator"
                )),
                _ => error,
            }
        }
    };
    match id {
        Some(id) => error.of_document(id.clone(), "").of_collection(from),
        None => error,
    }
}

/// The error of a write that relies on an index that does not exist.
pub(crate) fn index_missing(name: &str) -> Error {
    Error::new(
        ErrorKind::IndexMissing,
        format!(
            "the index `{name}` does not exist, and nothing was written: call ensure_indexes() once before the first write"
        ),
    )
    .with_remedy(Remedy::EnsureIndexes)
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        if let Some(own) = error.get_custom::<Self>() {
            return own.clone();
        }
        if let Some(index) = &error.missing_index {
            return index_missing(index).caused_by(error);
        }
        let (kind, message) = classify(&error);
        Self::from_driver(kind, message, error)
    }
}

/// Converts the error of a write whose duplicate key can only be a concurrent writer's: a retry, or another transaction,
/// sees that document.
pub fn lost_race(error: CommandError) -> Error {
    match duplicate_key(&error) {
        Some(_) => Error::from_driver(ErrorKind::Contention, CONFLICT_ADVICE, error),
        None => error.into(),
    }
}
