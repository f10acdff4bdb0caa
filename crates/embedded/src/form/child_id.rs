//! The ids of children.

use std::fmt;

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document};

use crate::settings::Settings;

/// The types of a child's id, by their names in `$type` and `bsonType`.
///
/// No decimal128: ids are equal if the server takes them for equal, which would require decimal arithmetic.
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

/// The id of a child among those of its parent.
#[derive(Clone)]
pub(crate) struct ChildId {
    id: Bson,
    /// Bytes that are equal exactly if the server takes the ids for equal, under the simple collation.
    form: Vec<u8>,
}

impl ChildId {
    pub(crate) fn new(id: Bson) -> Result<Self> {
        let mut form = Vec::new();
        let usable = !matches!(id, Bson::Null | Bson::Array(_)) && write_form(&mut form, &id);
        if usable {
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

    /// Returns whether a stored id matches this one, as by `$eq` in a find: also an array that has it.
    pub(crate) fn is(&self, stored: &Bson) -> bool {
        let is_equal = |stored: &Bson| {
            let mut form = Vec::new();
            write_form(&mut form, stored) && form == self.form
        };
        match stored {
            Bson::Array(ids) => ids.iter().any(is_equal),
            id => is_equal(id),
        }
    }

    pub(crate) fn to_bson(&self) -> Bson {
        self.id.clone()
    }

    pub(crate) fn form(&self) -> &[u8] {
        &self.form
    }
}

/// Does not print the id, which is a user value.
impl fmt::Debug for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChildId")
    }
}

/// Appends bytes that are the same for all values that the server takes for equal: a tag, a length and content. Returns
/// whether the value is valid in an id.
fn write_form(form: &mut Vec<u8>, value: &Bson) -> bool {
    let sized = |form: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
        form.push(tag);
        form.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        form.extend_from_slice(bytes);
    };
    match value {
        Bson::Null => form.push(0),
        Bson::Int32(number) => sized(form, 1, &i64::from(*number).to_be_bytes()),
        Bson::Int64(number) => sized(form, 1, &number.to_be_bytes()),
        Bson::Double(number) => match whole(*number) {
            Some(number) => sized(form, 1, &number.to_be_bytes()),
            None if number.is_nan() => sized(form, 2, &[]),
            None => sized(form, 2, &number.to_be_bytes()),
        },
        Bson::String(text) => sized(form, 3, text.as_bytes()),
        Bson::Boolean(boolean) => form.extend_from_slice(&[4, u8::from(*boolean)]),
        Bson::ObjectId(id) => sized(form, 5, &id.bytes()),
        Bson::Binary(binary) => {
            sized(form, 6, &binary.bytes);
            form.push(binary.subtype.into());
        }
        Bson::DateTime(time) => sized(form, 7, &time.timestamp_millis().to_be_bytes()),
        Bson::Timestamp(stamp) => {
            sized(form, 8, &stamp.time.to_be_bytes());
            form.extend_from_slice(&stamp.increment.to_be_bytes());
        }
        Bson::Array(values) => {
            sized(form, 9, &(values.len() as u64).to_be_bytes());
            return values.iter().all(|value| write_form(form, value));
        }
        Bson::Document(fields) => {
            sized(form, 10, &(fields.len() as u64).to_be_bytes());
            return fields.iter().all(|(name, value)| {
                sized(form, 11, name.as_bytes());
                write_form(form, value)
            });
        }
        _ => return false,
    }
    true
}

/// Returns the integer that equals a double.
#[allow(clippy::cast_possible_truncation)] // it is in the range, and whole
fn whole(number: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    (number.fract() == 0.0 && (-BOUND..BOUND).contains(&number)).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Decimal128, Regex, cstr};

    use mongo_patterns_core::DocumentId;
    use mongodb::bson::doc;

    use super::*;

    fn form(id: impl Into<Bson>) -> Vec<u8> {
        ChildId::new(id.into()).unwrap().form().to_vec()
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
