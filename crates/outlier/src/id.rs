//! The `_id` of a main document, as the caller gives it.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::Bson;

/// Refuses what the server would not take for an `_id`, and `null`, which a filter takes for a missing field.
pub(crate) fn checked(id: Bson) -> Result<Bson> {
    match id {
        Bson::Null | Bson::Undefined | Bson::Array(_) | Bson::RegularExpression(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the id is null, an array, a regular expression or undefined, which an `_id` cannot be: pass the `_id` of a document",
        )),
        id => Ok(id),
    }
}

/// What stands for an id where a hash is needed.
pub(crate) fn text(id: &Bson) -> String {
    id.to_string()
}
