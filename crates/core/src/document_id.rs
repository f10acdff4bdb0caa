//! The `_id` of a document.

use std::fmt;
use std::hash::{Hash, Hasher};

use mongodb::bson::{self, Bson, Document, doc};

use crate::error::{Error, ErrorKind, Result};
use crate::into_id::IntoId;
pub use crate::value::order::canonical;
use crate::value::stored::can_be_in;

/// The types that an `_id` can have, as a `$jsonSchema` names them.
pub const TYPES: [&str; 14] = [
    "double",
    "string",
    "object",
    "binData",
    "objectId",
    "bool",
    "date",
    "int",
    "timestamp",
    "long",
    "decimal",
    "symbol",
    "javascript",
    "dbPointer",
];

/// A valid `_id`.
#[derive(Clone, PartialEq)]
pub struct DocumentId(Bson);

impl DocumentId {
    /// Checks an `_id`. Refuses the types that the server refuses, and `null`, which a filter takes for a missing field.
    pub fn new(id: impl IntoId) -> Result<Self> {
        match id.into_id()? {
            Bson::Null
            | Bson::Undefined
            | Bson::Array(_)
            | Bson::RegularExpression(_)
            | Bson::MinKey
            | Bson::MaxKey => Err(Error::new(
                ErrorKind::InvalidArgument,
                "an id must not be null, undefined, an array, a regular expression, or a min or max key, nothing was sent: pass that of a document",
            )),
            id => Ok(Self(id)),
        }
    }

    /// Returns the value. Compare with it by `$eq` or `$literal`, because it can be a document with operators.
    pub fn value(&self) -> &Bson {
        &self.0
    }

    /// Returns a copy of the value, for a command.
    pub fn to_bson(&self) -> Bson {
        self.0.clone()
    }

    /// Returns the value.
    pub fn into_bson(self) -> Bson {
        self.0
    }
}

/// Returns the bytes of an id with its type, which no other id has.
pub fn bytes(id: &Bson) -> Vec<u8> {
    // An id that a document can have is valid BSON.
    bson::serialize_to_vec(&doc! { "": id }).unwrap_or_default()
}

/// Matches a document by `_id`. By `$eq`, because an id may be a document with operators.
pub fn by_id(id: &Bson) -> Document {
    doc! { "_id": { "$eq": id } }
}

/// Matches documents by `_id`. At least one id.
pub fn by_ids(ids: &[Bson]) -> Document {
    with_ids("_id", ids)
}

/// Matches documents by the id in a field. At least one id.
pub fn with_ids(field: &str, ids: &[Bson]) -> Document {
    let equal = |id: &Bson| doc! { field: { "$eq": id } };
    match ids {
        [id] => equal(id),
        ids if ids.iter().all(can_be_in) => doc! { field: { "$in": ids } },
        ids => doc! { "$or": ids.iter().map(equal).collect::<Vec<_>>() },
    }
}

/// Hashes its [text](canonical).
impl Hash for DocumentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        canonical(&self.0).hash(state);
    }
}

/// Does not print the id, which is a user value.
impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DocumentId")
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn what_no_document_is_named_by_is_refused() {
        for id in [
            Bson::Null,
            Bson::Undefined,
            Bson::Array(vec![]),
            Bson::MinKey,
            Bson::MaxKey,
        ] {
            assert_eq!(DocumentId::new(id).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        for id in [Bson::from("alice"), 7.into(), doc! { "$gt": 1 }.into()] {
            let checked = DocumentId::new(id.clone()).unwrap();
            assert_eq!(checked.to_bson(), id);
            assert_eq!(format!("{checked:?}"), "DocumentId");
        }
    }
}
