//! The ids of children.

use std::fmt;

use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document};

use crate::settings::Settings;

/// The types of a child's id, by their names in `$type` and `bsonType`.
///
/// No decimal128, which has several forms of one number.
pub(crate) const CHILD_ID_TYPES: [&str; 10] = [
    "string",
    "int",
    "long",
    "double",
    "bool",
    "objectId",
    "binData",
    "date",
    "timestamp",
    "object",
];

/// The id of a child in its parent.
#[derive(Clone)]
pub(crate) struct ChildId {
    id: Bson,
    /// A text that is equal exactly if the server takes the ids for equal, under the simple collation.
    form: String,
}

impl ChildId {
    pub(crate) fn new(id: Bson) -> Result<Self> {
        if !matches!(id, Bson::Null | Bson::Array(_)) && is_valid(&id) {
            let form = canonical(&id);
            Ok(Self { id, form })
        } else {
            Err(Error::new(
                ErrorKind::InvalidItemId,
                "the id of a child, or of an element of its list, must be a string, a number other than decimal128, a boolean, an ObjectId, binary data, a date, a timestamp, or a document; nothing was changed",
            ))
        }
    }

    /// Returns the id of a child that will be stored.
    pub(crate) fn of_child(settings: &Settings, child: &Document) -> Result<Self> {
        let id = child.get(settings.child_id.as_str()).ok_or_else(|| {
            let message = format!(
                "the child has no field `{}`, which identifies it; nothing was changed",
                settings.child_id
            );
            Error::new(ErrorKind::InvalidItemId, message)
        })?;
        Self::new(id.clone())
    }

    /// Returns whether a stored id matches this one, as by `$eq` in a find: also an array that contains it.
    pub(crate) fn is(&self, stored: &Bson) -> bool {
        let is_equal = |stored: &Bson| canonical(stored) == self.form;
        match stored {
            Bson::Array(ids) => ids.iter().any(is_equal),
            id => is_equal(id),
        }
    }

    pub(crate) fn to_bson(&self) -> Bson {
        self.id.clone()
    }

    pub(crate) fn form(&self) -> &str {
        &self.form
    }
}

/// Does not print the id, which is a user value.
impl fmt::Debug for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChildId")
    }
}

/// Returns whether a value is valid in an id.
fn is_valid(value: &Bson) -> bool {
    match value {
        Bson::Array(values) => values.iter().all(is_valid),
        Bson::Document(fields) => fields.values().all(is_valid),
        Bson::Null
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Double(_)
        | Bson::String(_)
        | Bson::Boolean(_)
        | Bson::ObjectId(_)
        | Bson::Binary(_)
        | Bson::DateTime(_)
        | Bson::Timestamp(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Decimal128, Regex, cstr};

    use mongo_patterns_core::DocumentId;
    use mongodb::bson::doc;

    use super::*;

    fn form(id: impl Into<Bson>) -> String {
        ChildId::new(id.into()).unwrap().form().to_owned()
    }

    #[test]
    fn ids_are_compared_as_by_the_server() {
        assert_eq!(form(1), form(1_i64));
        assert_eq!(form(1), form(1.0));
        assert_eq!(form(0.0), form(-0.0));
        assert_eq!(
            form(doc! { "a": [1, { "b": 2.0 }] }),
            form(doc! { "a": [1.0, { "b": 2 }] })
        );
        for (a, b) in [
            (Bson::from(1), Bson::from("1")),
            (1.into(), 1.5.into()),
            (1.into(), true.into()),
            (doc! { "a": 1, "b": 2 }.into(), doc! { "b": 2, "a": 1 }.into()),
            (doc! { "a": ["b", "c"] }.into(), doc! { "a": ["bc"] }.into()),
            (i64::MAX.into(), 9_223_372_036_854_775_808.0.into()),
        ] {
            assert_ne!(form(a.clone()), form(b.clone()), "{a} {b}");
        }
    }

    #[test]
    fn a_stored_id_matches_as_in_a_find() {
        let one = ChildId::new(1.into()).unwrap();
        for stored in [Bson::from(1), 1_i64.into(), 1.0.into(), vec![0.0, 1.0].into()] {
            assert!(one.is(&stored), "{stored}");
        }
        for stored in [
            Bson::Null,
            2.into(),
            "1".into(),
            true.into(),
            Bson::Array(vec![vec![1].into()]),
        ] {
            assert!(!one.is(&stored), "{stored}");
        }
    }

    #[test]
    fn an_invalid_id_is_refused() {
        let regex = || {
            Bson::RegularExpression(Regex {
                pattern: cstr!("a").into(),
                options: cstr!("").into(),
            })
        };
        let never = [
            Bson::Null,
            Bson::Undefined,
            Bson::Array(vec![]),
            regex(),
            Bson::MinKey,
            Bson::MaxKey,
        ];
        for id in never {
            assert_eq!(
                DocumentId::new(id.clone()).unwrap_err().kind(),
                ErrorKind::InvalidArgument
            );
            assert_eq!(ChildId::new(id).unwrap_err().kind(), ErrorKind::InvalidItemId);
        }
        let decimal = Bson::Decimal128("1".parse::<Decimal128>().unwrap());
        for id in [
            decimal.clone(),
            doc! { "a": decimal.clone() }.into(),
            doc! { "a": regex() }.into(),
        ] {
            assert_eq!(ChildId::new(id).unwrap_err().kind(), ErrorKind::InvalidItemId);
        }
        assert!(DocumentId::new(decimal).is_ok());
    }
}
