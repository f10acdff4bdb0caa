//! The ids of parents and children, as the caller gives them.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::Bson;

/// Refuses what the server would not take for an `_id`, and `null`, which a filter takes for a missing field.
pub(crate) fn checked(id: Bson) -> Result<Bson> {
    match id {
        Bson::Null | Bson::Undefined | Bson::Array(_) | Bson::RegularExpression(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the id is null, an array, a regular expression or undefined, which it cannot be, nothing was stored: pass one of another type",
        )),
        id => Ok(id),
    }
}

/// What stands for an id where a hash is needed.
pub(crate) fn text(id: &Bson) -> String {
    id.to_string()
}
