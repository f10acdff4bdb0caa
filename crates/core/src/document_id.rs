//! The `_id` of a document, as a caller gives it.

use std::fmt;
use std::hash::{Hash, Hasher};

use mongodb::bson::Bson;

use crate::error::{Error, ErrorKind, Result};
use crate::into_id::IntoId;

/// An `_id` that a document can have.
#[derive(Clone, PartialEq)]
pub struct DocumentId(Bson);

impl DocumentId {
    /// Refuses what the server would not take for an `_id`, `null`, which a filter takes for a missing field, and what
    /// no document should be named by.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument).
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

    /// The value. Compare with it by `$eq` or `$literal`: it may be a document with operators.
    pub fn value(&self) -> &Bson {
        &self.0
    }

    /// The value, for a command.
    pub fn to_bson(&self) -> Bson {
        self.0.clone()
    }

    /// The value.
    pub fn into_bson(self) -> Bson {
        self.0
    }
}

/// What stands for an id where a hash is needed. Not all that the server takes for equal is the same: 1 and 1.0 are not.
pub fn text(id: &Bson) -> String {
    id.to_string()
}

/// By its [`text`].
impl Hash for DocumentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        text(&self.0).hash(state);
    }
}

/// Does not show the id, which is a user value.
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
