//! Elements of stored arrays, encoded once and copied into documents without decoding.

mod elements;

use std::ops::Range;
use std::sync::Arc;

use mongodb::bson::raw::CString;
use mongodb::bson::spec::ElementType;
use mongodb::bson::{self, Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use serde::{Serialize, Serializer};

use self::elements::{Element, Elements, decode};
use crate::error::{Error, ErrorKind, Result};

/// MongoDB's limit of a document, minus what it has besides its array.
const MAX_BYTES: usize = 16 * 1024 * 1024 - 8 * 1024;

/// The number of values in one buffer: fewer allocations, and below 2 GiB even at 16 MiB each.
pub const TOGETHER: usize = 100;
/// The bytes of an element besides its value: its type, and its index up to a million, with its NUL.
const MAX_ELEMENT_HEAD: usize = 9;
const DOCUMENT: u8 = ElementType::EmbeddedDocument as u8;
const NOT_ENCODED: &str = "a value cannot be written as BSON, it was not stored: see as_driver_error() for the reason";

/// An encoded value: the bytes of an element in a buffer.
#[derive(Clone)]
pub struct Encoded {
    /// Shared by documents that were encoded together. Any other value is the one field of its buffer.
    buffer: Arc<RawDocumentBuf>,
    /// The type of the value.
    kind: u8,
    /// The bytes of the value.
    at: Range<u32>,
}

crate::redacted_debug!(Encoded);

#[derive(Serialize)]
struct Wrapped<'a, T: ?Sized> {
    i: &'a T,
}

/// The values of an iterator, serialized as an array.
struct Together<I>(I);

impl<'a, T: Serialize + 'a, I: Iterator<Item = &'a T> + Clone> Serialize for Together<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Encodes as an insert does. `serialize_to_bson` would take a document such as `{ "$date": 5 }` for extended JSON.
fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Arc<RawDocumentBuf>> {
    let encoded = bson::serialize_to_raw_document_buf(&Wrapped { i: value });
    let encoded = encoded.map_err(|error| Error::from_driver(ErrorKind::Encode, NOT_ENCODED, error))?;
    Ok(Arc::new(encoded))
}

fn not_encoded() -> Error {
    Error::new(ErrorKind::Encode, NOT_ENCODED)
}

impl Encoded {
    /// Encodes one value.
    pub fn one<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let encoded = encode(value)?;
        let element = Elements::of(encoded.as_bytes()).next();
        Self::element_of(&encoded, &element.ok_or_else(not_encoded)?)
    }

    /// Encodes several values. Documents share a buffer.
    pub fn all<'a, T: Serialize + 'a>(mut values: impl ExactSizeIterator<Item = &'a T> + Clone) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(values.len());
        while values.len() > 0 {
            let together = values.clone().take(TOGETHER);
            values.nth(TOGETHER - 1);
            let encoded = encode(&Together(together.clone()))?;
            let bytes = encoded.as_bytes();
            let array = Elements::of(bytes).next().map_or(&[][..], |array| array.value);
            let before = all.len();
            for (value, element) in together.clone().zip(Elements::of(array)) {
                all.push(match element.kind {
                    DOCUMENT => Self::element_of(&encoded, &element)?,
                    _ => Self::one(value)?,
                });
            }
            if all.len() - before != together.len() {
                return Err(not_encoded());
            }
        }
        Ok(all)
    }

    /// Returns the value of an element of a buffer, which is below 4 GiB.
    fn element_of(buffer: &Arc<RawDocumentBuf>, element: &Element<'_>) -> Result<Self> {
        let start = element.value.as_ptr().addr() - buffer.as_bytes().as_ptr().addr();
        let position = |position| u32::try_from(position).map_err(|_| not_encoded());
        Ok(Self {
            buffer: Arc::clone(buffer),
            kind: element.kind,
            at: position(start)?..position(start + element.value.len())?,
        })
    }

    /// Returns the date in a field of a document.
    pub fn date(&self, field: &str) -> Option<DateTime> {
        if self.kind != DOCUMENT {
            return None;
        }
        let field = Elements::of(self.as_bytes()).find(|element| element.name == field.as_bytes())?;
        if field.kind != ElementType::DateTime as u8 {
            return None;
        }
        let millis = field.value.first_chunk()?;
        Some(DateTime::from_millis(i64::from_le_bytes(*millis)))
    }

    /// Returns the value.
    pub fn value(&self) -> RawBsonRef<'_> {
        if self.kind == DOCUMENT {
            let document = RawDocument::from_bytes(self.as_bytes());
            return RawBsonRef::Document(document.expect("it was a document when it was encoded"));
        }
        let value = self.buffer.get("i").ok().flatten();
        value.expect("it was there when it was encoded")
    }

    /// Returns its bytes, without its type.
    fn as_bytes(&self) -> &[u8] {
        &self.buffer.as_bytes()[self.at.start as usize..self.at.end as usize]
    }

    /// Returns its size as BSON.
    pub fn bytes(&self) -> usize {
        self.at.len()
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// None in practice, because it was encoded here.
    pub fn to_bson(&self) -> mongodb::error::Result<Bson> {
        match decode(self.kind, self.as_bytes()) {
            Some(value) => Ok(value),
            None => Ok(self.value().try_into()?),
        }
    }
}

/// Refuses values that would exceed the limit of a document, `length` adjacent ones in each.
pub fn check_sizes<'v>(in_a_row: usize, values: impl Iterator<Item = &'v Encoded> + Clone) -> Result<()> {
    let bytes = |value: &Encoded| value.bytes() + MAX_ELEMENT_HEAD;
    let mut leaving = values.clone();
    let mut row = 0_usize;
    for (index, value) in values.enumerate() {
        row += bytes(value);
        if index >= in_a_row {
            row -= leaving.next().map_or(0, bytes);
        }
        if row > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "a document of the items would pass MongoDB's limit of 16 MiB, these items were not stored: store smaller items, or fewer a document",
            ));
        }
    }
    Ok(())
}

/// Returns an expression of an array field, which is empty if the field is missing.
pub fn stored(field: &str) -> Document {
    doc! { "$ifNull": [format!("${field}"), []] }
}

/// Returns an expression of a stored array with as many of these values as there is room for, at least one.
pub fn filled(field: &str, values: Vec<Bson>, room: impl Into<Bson>) -> Document {
    // A stored value must not be taken for an expression.
    let values = doc! { "$literal": values };
    doc! { "$concatArrays": [stored(field), { "$slice": [values, room.into()] }] }
}

/// Appends an array to a document. It copies the bytes of the values once.
pub fn append_array<'v>(
    document: RawDocumentBuf,
    name: &str,
    values: impl Iterator<Item = &'v Encoded> + Clone,
) -> mongodb::error::Result<RawDocumentBuf> {
    let name = CString::try_from(name)?;
    let mut bytes = document.into_bytes();
    bytes.reserve(values.clone().map(|value| value.bytes() + MAX_ELEMENT_HEAD).sum());
    bytes.pop(); // the end of the document
    bytes.push(ElementType::Array as u8);
    bytes.extend_from_slice(name.as_str().as_bytes());
    bytes.push(0);
    let array = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    for (index, value) in values.enumerate() {
        bytes.push(value.kind);
        push_decimal(&mut bytes, index);
        bytes.push(0);
        bytes.extend_from_slice(value.as_bytes());
    }
    for start in [array, 0] {
        bytes.push(0);
        let length = i32::try_from(bytes.len() - start).unwrap_or(i32::MAX);
        bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
    Ok(RawDocumentBuf::from_bytes(bytes)?)
}

/// Appends the digits of a number without an allocation, because an array has an index for each value.
fn push_decimal(bytes: &mut Vec<u8>, number: usize) {
    for place in (0..=number.checked_ilog10().unwrap_or(0)).rev() {
        let digit = number / 10_usize.pow(place) % 10;
        bytes.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}
