//! The errors of writes that fail at a parent.

use mongo_patterns_core::{Error, ErrorKind};

pub(super) fn no_parent() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the parent does not exist, and none of its children was stored: insert it first",
    )
}

/// Adds the number of stored children to an error, and replaces its text, which would report that nothing was stored.
pub(super) fn with_stored(error: Error, stored: usize) -> Error {
    if stored == 0 {
        return error;
    }
    let error = error.with_stored(stored as u64);
    let text = match error.kind() {
        // Its text already concerns only the parent.
        ErrorKind::Contention => return error,
        ErrorKind::TooLarge => {
            "the write to the children is stored, but with the new subset the parent would exceed MongoDB's limit of 16 MiB, and it keeps its previous subset: reduce the subset size or the embedded fields, then call rebuild(..)"
        }
        ErrorKind::NotFound => {
            "the write to the children is stored, but their parent was deleted concurrently: delete them with delete_parent(..), or insert the parent again and call rebuild(..)"
        }
        ErrorKind::NotMigrated => {
            "the write to the children is stored, but their parent embeds children that are not in their collection, and keeps them: migrate them with migrate_from_embedded(), or discard them with rebuild(..).discard_embedded()"
        }
        ErrorKind::IndexMissing => {
            "the write to the children is stored, but an index is missing and the subset of their parent was not updated: call ensure_indexes(), then rebuild(..)"
        }
        ErrorKind::Unauthorized => {
            "the write to the children is stored, but the user lacks a privilege to update the subset of their parent: grant the role `readWrite`, then call rebuild(..)"
        }
        ErrorKind::InvalidArgument => {
            "the write to the children is stored, but the server refused the name of one of their fields in the subset of the parent: names that start with `$` need MongoDB 5.0; rename the field, then call rebuild(..)"
        }
        ErrorKind::Network | ErrorKind::WriteConcern => {
            "the write to the children is stored, but it is unknown whether the subset of their parent was updated: call rebuild(..)"
        }
        _ => {
            "the write to the children is stored, but the subset of their parent may be outdated, because a command failed: see as_driver_error() for the reason, then call rebuild(..)"
        }
    };
    error.with_text(text)
}

/// Names the parent in the server's error for a document that is too large.
pub(super) fn of_parent(error: Error) -> Error {
    match error.kind() {
        ErrorKind::TooLarge => error.with_text(
            "with the new subset the parent would exceed MongoDB's limit of 16 MiB, and it was not stored: reduce the subset size or the embedded fields",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_after_a_stored_child_reports_that_nothing_was_stored() {
        use ErrorKind::*;
        for kind in [
            TooLarge,
            NotFound,
            NotMigrated,
            IndexMissing,
            Unauthorized,
            InvalidArgument,
            Network,
            WriteConcern,
            ServerSelection,
            Driver,
        ] {
            let error = Error::new(kind, "nothing was stored");
            assert_eq!(with_stored(error.clone(), 0).to_string(), "nothing was stored");
            let error = with_stored(error, 2);
            assert_eq!((error.kind(), error.stored_count()), (kind, Some(2)));
            let text = error.to_string();
            assert!(text.starts_with("the write to the children is stored, but "), "{text}");
            assert!(!error.is_transient() && !error.is_invalid_input(), "{text}");
        }
    }
}
