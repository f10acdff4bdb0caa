//! The id of an item, by which it is stored once.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, RawBsonRef};

use crate::settings::Settings;

/// The id of an item. Two ids are equal exactly where the server takes them for equal: the width of an integer does not
/// matter.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ItemId {
    Integer(i64),
    String(String),
    ObjectId(ObjectId),
    Binary(u8, Vec<u8>),
    Date(i64),
}

impl ItemId {
    /// Returns the id of a stored item. `None` for a value that this crate does not store as an id.
    pub(crate) fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        Some(match value {
            RawBsonRef::String(text) => Self::String(text.to_owned()),
            RawBsonRef::ObjectId(id) => Self::ObjectId(id),
            RawBsonRef::Binary(binary) => Self::Binary(binary.subtype.into(), binary.bytes.to_owned()),
            RawBsonRef::DateTime(time) => Self::Date(time.timestamp_millis()),
            // Shells write integers as doubles.
            number => Self::Integer(stored_integer(number)?),
        })
    }

    /// Returns the id that a caller gives.
    pub(crate) fn from_bson(value: Bson) -> Result<Self> {
        Ok(match value {
            Bson::Int32(number) => Self::Integer(number.into()),
            Bson::Int64(number) => Self::Integer(number),
            Bson::String(text) => Self::String(text),
            Bson::ObjectId(id) => Self::ObjectId(id),
            Bson::Binary(binary) => Self::Binary(binary.subtype.into(), binary.bytes),
            Bson::DateTime(time) => Self::Date(time.timestamp_millis()),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidItemId,
                    "the id of the item has an unsupported type: use a string, an int32 or int64, an ObjectId, binary data or a date",
                ));
            }
        })
    }

    /// Returns the id of an item to store, if the settings have a field for it.
    pub(crate) fn of_item(settings: &Settings, in_item: impl FnOnce(&str) -> Option<Bson>) -> Result<Option<Self>> {
        let Some(field) = &settings.item_id else {
            return Ok(None);
        };
        let id = in_item(field.as_str()).ok_or_else(|| {
            let message = format!("the item has no id in its field `{field}`, it was not stored: set the field");
            Error::new(ErrorKind::InvalidItemId, message)
        })?;
        Self::from_bson(id).map(Some)
    }

    pub(crate) fn to_bson(&self) -> Bson {
        match self {
            Self::Integer(number) => i32::try_from(*number).map_or(Bson::Int64(*number), Bson::Int32),
            Self::String(text) => Bson::String(text.clone()),
            Self::ObjectId(id) => Bson::ObjectId(*id),
            Self::Binary(subtype, bytes) => Bson::Binary(Binary {
                subtype: BinarySubtype::from(*subtype),
                bytes: bytes.clone(),
            }),
            Self::Date(millis) => Bson::DateTime(DateTime::from_millis(*millis)),
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Uuid, rawdoc};

    use super::*;

    #[test]
    fn an_id_is_equal_given_and_stored() {
        let uuid = Uuid::from_bytes([7; 16]);
        for id in [
            Bson::Int32(5),
            Bson::Int64(1 << 40),
            Bson::String("a".into()),
            Bson::ObjectId(ObjectId::from_bytes([1; 12])),
            Bson::Binary(Binary::from_uuid(uuid)),
            Bson::DateTime(DateTime::from_millis(-5)),
        ] {
            let given = ItemId::from_bson(id.clone()).unwrap();
            assert_eq!(given.to_bson(), id);
            let mut stored = rawdoc! {};
            stored.append(mongodb::bson::cstr!("i"), mongodb::bson::RawBson::try_from(id).unwrap());
            let stored = ItemId::from_stored(stored.get("i").unwrap().unwrap());
            assert!(stored == Some(given));
        }
        // A shell writes numbers as doubles.
        let stored = rawdoc! { "i": 5.0 };
        let stored = ItemId::from_stored(stored.get("i").unwrap().unwrap());
        assert!(stored == Some(ItemId::Integer(5)));
    }

    #[test]
    fn a_type_that_the_server_compares_differently_is_refused() {
        for id in [
            Bson::Null,
            Bson::Double(1.0),
            Bson::Boolean(true),
            Bson::Array(vec![]),
            Bson::Document(mongodb::bson::doc! {}),
        ] {
            let Err(error) = ItemId::from_bson(id) else {
                panic!("the id was accepted")
            };
            assert_eq!(error.kind(), ErrorKind::InvalidItemId);
            assert!(error.is_invalid_input());
        }
    }
}
