//! Keys as prefixes of `_id`. No key is the prefix of another.
//!
//! A key is encoded as text, and `_` ends it: every `_id` of customer 123 starts with `123_`. The text itself contains no
//! `_`, so no other customer's `_id` starts with it. `_` is escaped as `%5F`, `%` as `%25`, and NUL, which is invalid in a
//! regular expression, as `%00`. A backslash before a `|` is escaped as `%5C`, because MongoDB takes the two for an
//! alternative and derives no index bounds. All other characters are stored unchanged, as in MongoDB's manual.
//!
//! | type | stored in the key field as | text |
//! |---|---|---|
//! | `i32`, `i64`, `u32`, `u64` | int32 where it fits, else int64 | decimal, `123` |
//! | `String`, `str` | string | as above, `12%5F3` for `12_3` |
//! | [`ObjectId`] | ObjectId | 24 hex digits |
//! | [`Uuid`] | binary, subtype 4 | 36 characters, lower case |
//!
//! One collection contains keys of one type: the number 123 and the string `"123"` have the same text. All integers are one
//! type here. The [catalog](crate::catalog) has the type, and refuses a repository with another type.
//!
//! Implement [`AsKey`] for a type of yours, such as a newtype over one of these.

mod as_key;
mod encoded;
mod error;
mod expressions;

use std::borrow::Cow;
use std::fmt;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, RawBsonRef, Uuid};

use self::expressions::EXACT;
pub use as_key::AsKey;
pub use encoded::EncodedKey;
pub use error::{KeyError, MAX_KEY_BYTES};
pub use expressions::KeyExpressions;

mod sealed {
    pub trait Sealed {}

    /// Seals the traits for the types of the module's table.
    pub trait Stored: super::Key {}
}

impl sealed::Stored for String {}
impl sealed::Stored for ObjectId {}
impl sealed::Stored for Uuid {}

/// A value that can be encoded as a key: every [`Key`], and `str` for `String` keys. Sealed: implement [`AsKey`] for types
/// of yours.
pub trait EncodeKey: sealed::Sealed + Sync {
    /// Encodes the key: its text in `_id`, and its value in the key field.
    ///
    /// ```
    /// # use mongo_patterns::key::EncodeKey;
    /// let key = 123_u32.encode_key()?;
    /// assert_eq!((key.text(), key.value()), ("123", &123.into()));
    /// assert_eq!("12_3".encode_key()?.text(), "12%5F3");
    /// # Ok::<(), mongo_patterns::key::KeyError>(())
    /// ```
    ///
    /// # Errors
    /// When the text would be too long, or the integer is out of range.
    fn encode_key(&self) -> Result<EncodedKey, KeyError>;
}

/// The key type of a repository. Sealed: the [module](self) lists the types, and [`AsKey`] is for types of yours.
pub trait Key: EncodeKey + Clone + Eq + fmt::Debug + Send + Sized + 'static {
    /// The valid BSON types of the key field, by their names in `$jsonSchema`.
    const BSON_TYPES: &'static [&'static str];

    /// Decodes the key with this text. `None` when no key of the type has it.
    fn decode_key(text: &str) -> Option<Self>;

    /// Decodes the value of a key field. `None` when it is not a key of the type. Integers can have any numeric type, because
    /// shells write them as doubles.
    fn from_stored(value: RawBsonRef<'_>) -> Option<Self>;

    /// Returns the codec as aggregation expressions. `stored` is the path of the key, such as `$customerId`.
    fn expressions(stored: &str) -> KeyExpressions;
}

/// Returns the integer in a stored value of any numeric type, if it is one.
#[doc(hidden)]
pub fn stored_integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        RawBsonRef::Int64(value) => Some(value),
        #[allow(clippy::cast_possible_truncation)] // checked to be an integer in the exact range
        RawBsonRef::Double(value) if value.fract() == 0.0 && value.abs() <= EXACT => Some(value as i64),
        _ => None,
    }
}

fn integer_bson(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

macro_rules! integer_key {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}

        impl sealed::Stored for $type {}

        impl EncodeKey for $type {
            fn encode_key(&self) -> Result<EncodedKey, KeyError> {
                let value = i64::try_from(*self).map_err(|_| KeyError::OutOfRange)?;
                EncodedKey::new(value.to_string(), integer_bson(value))
            }
        }

        impl Key for $type {
            const BSON_TYPES: &'static [&'static str] = &["int", "long", "double"];

            fn decode_key(text: &str) -> Option<Self> {
                let value: Self = text.parse().ok()?;
                // "+5" and "05" parse too, but no key has these texts
                (value.to_string() == text && i64::try_from(value).is_ok()).then_some(value)
            }

            fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
                Self::try_from(stored_integer(value)?).ok()
            }

            fn expressions(stored: &str) -> KeyExpressions {
                let largest = i64::try_from(Self::MAX).unwrap_or(i64::MAX);
                expressions::integer(stored, i64::try_from(Self::MIN).unwrap_or(i64::MIN), largest)
            }
        }
    )*};
}

integer_key!(i32, i64, u32, u64);

impl sealed::Sealed for str {}

impl EncodeKey for str {
    fn encode_key(&self) -> Result<EncodedKey, KeyError> {
        EncodedKey::new(escape(self).into_owned(), Bson::String(self.to_owned()))
    }
}

impl sealed::Sealed for String {}

impl EncodeKey for String {
    fn encode_key(&self) -> Result<EncodedKey, KeyError> {
        self.as_str().encode_key()
    }
}

impl Key for String {
    const BSON_TYPES: &'static [&'static str] = &["string"];

    fn decode_key(text: &str) -> Option<Self> {
        unescape(text)
    }

    fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }

    fn expressions(stored: &str) -> KeyExpressions {
        expressions::string(stored)
    }
}

impl sealed::Sealed for ObjectId {}

impl EncodeKey for ObjectId {
    fn encode_key(&self) -> Result<EncodedKey, KeyError> {
        EncodedKey::new(self.to_hex(), Bson::ObjectId(*self))
    }
}

impl Key for ObjectId {
    const BSON_TYPES: &'static [&'static str] = &["objectId"];

    fn decode_key(text: &str) -> Option<Self> {
        let id = Self::parse_str(text).ok()?;
        (id.to_hex() == text).then_some(id)
    }

    fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        value.as_object_id()
    }

    fn expressions(stored: &str) -> KeyExpressions {
        expressions::object_id(stored)
    }
}

impl sealed::Sealed for Uuid {}

impl EncodeKey for Uuid {
    fn encode_key(&self) -> Result<EncodedKey, KeyError> {
        EncodedKey::new(self.to_string(), Bson::Binary(Binary::from_uuid(*self)))
    }
}

impl Key for Uuid {
    const BSON_TYPES: &'static [&'static str] = &["binData"];

    fn decode_key(text: &str) -> Option<Self> {
        let id = Self::parse_str(text).ok()?;
        (id.to_string() == text).then_some(id)
    }

    fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        let binary = value.as_binary()?;
        if binary.subtype != BinarySubtype::Uuid {
            return None;
        }
        Some(Self::from_bytes(binary.bytes.try_into().ok()?))
    }

    fn expressions(stored: &str) -> KeyExpressions {
        expressions::uuid(stored)
    }
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['_', '%', '\0', '\\']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '_' => escaped.push_str("%5F"),
            '%' => escaped.push_str("%25"),
            '\0' => escaped.push_str("%00"),
            '\\' if characters.peek() == Some(&'|') => escaped.push_str("%5C"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Returns the string with this text. `None` for a text that [`escape`] does not return.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        plain.push(match rest.get(at..at + 3)? {
            "%5F" => '_',
            "%25" => '%',
            "%00" => '\0',
            "%5C" => '\\',
            _ => return None,
        });
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    (escape(&plain) == text).then_some(plain)
}

#[cfg(test)]
mod tests;
