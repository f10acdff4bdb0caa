//! An iterator over the elements of a document that was encoded here.
//!
//! # Design
//!
//! ## Why not the driver's iterator?
//!
//! It validates each name and value. A batch would spend half of its client time on that, for bytes that the driver has just
//! written.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::ElementType;
use mongodb::bson::{Bson, DateTime, Document};

/// An element: its type, its name without the NUL, and the bytes of its value.
pub(super) struct Element<'a> {
    pub(super) kind: u8,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Ends early at an invalid element, or at one of an unknown type.
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    pub(super) fn of(document: &'a [u8]) -> Self {
        Self {
            rest: document.get(4..).unwrap_or_default(),
        }
    }

    /// Returns whether it ended at the end of the document.
    fn is_at_end(&self) -> bool {
        self.rest == [0]
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, after) = self.rest.split_first()?;
        let end = after.iter().position(|byte| *byte == 0)?;
        let (name, after) = (&after[..end], &after[end + 1..]);
        let (value, rest) = after.split_at_checked(length(kind, after)?)?;
        self.rest = rest;
        Some(Element { kind, name, value })
    }
}

/// Returns the value of this type and these bytes. `None` for a rare type, which is left to the driver.
pub(super) fn decode(kind: u8, bytes: &[u8]) -> Option<Bson> {
    Some(match ElementType::from(kind)? {
        ElementType::Null => Bson::Null,
        ElementType::Boolean => Bson::Boolean(*bytes.first()? != 0),
        ElementType::Int32 => Bson::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::Int64 => Bson::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::Double => Bson::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
        ElementType::DateTime => Bson::DateTime(DateTime::from_millis(i64::from_le_bytes(*bytes.first_chunk()?))),
        ElementType::ObjectId => Bson::ObjectId(ObjectId::from_bytes(*bytes.first_chunk()?)),
        ElementType::String => Bson::String(text(bytes.get(4..bytes.len().checked_sub(1)?)?)?),
        ElementType::EmbeddedDocument => Bson::Document(document(bytes)?),
        ElementType::Array => {
            let mut elements = Elements::of(bytes);
            let values = elements.by_ref().map(|element| decode(element.kind, element.value));
            let values = values.collect::<Option<_>>()?;
            elements.is_at_end().then_some(Bson::Array(values))?
        }
        _ => return None,
    })
}

fn document(bytes: &[u8]) -> Option<Document> {
    let mut document = Document::new();
    let mut elements = Elements::of(bytes);
    for element in elements.by_ref() {
        document.insert(text(element.name)?, decode(element.kind, element.value)?);
    }
    elements.is_at_end().then_some(document)
}

fn text(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes).ok().map(str::to_owned)
}

/// Returns the length of the value that starts here.
fn length(kind: u8, bytes: &[u8]) -> Option<usize> {
    let counted = || usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok();
    Some(match ElementType::from(kind)? {
        ElementType::Null | ElementType::Undefined | ElementType::MinKey | ElementType::MaxKey => 0,
        ElementType::Boolean => 1,
        ElementType::Int32 => 4,
        ElementType::Double | ElementType::DateTime | ElementType::Timestamp | ElementType::Int64 => 8,
        ElementType::ObjectId => 12,
        ElementType::Decimal128 => 16,
        ElementType::EmbeddedDocument | ElementType::Array | ElementType::JavaScriptCodeWithScope => counted()?,
        ElementType::String | ElementType::JavaScriptCode | ElementType::Symbol => counted()?.checked_add(4)?,
        ElementType::Binary => counted()?.checked_add(5)?,
        ElementType::DbPointer => counted()?.checked_add(16)?,
        ElementType::RegularExpression => {
            let mut ends = (0..bytes.len()).filter(|at| bytes[*at] == 0);
            ends.nth(1)? + 1
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::spec::BinarySubtype;
    use mongodb::bson::{
        Binary, Bson, DateTime, Decimal128, JavaScriptCodeWithScope, RawDocumentBuf, Regex, Timestamp, cstr, doc,
    };

    #[test]
    fn elements_of_every_type_are_those_of_the_driver() {
        let pattern = Bson::RegularExpression(Regex {
            pattern: cstr!("^a").to_owned(),
            options: cstr!("i").to_owned(),
        });
        let code = JavaScriptCodeWithScope {
            code: "f()".to_owned(),
            scope: doc! { "x": 1 },
        };
        let binary = Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![0, 3, 9],
        };
        let document = doc! {
            "": 1, "i64": 2_i64, "double": 0.5, "string": "text", "no text": "", "document": { "a": [1, { "b": null }] },
            "array": ["x", 2], "binary": binary, "id": ObjectId::from_bytes([7; 12]), "bool": true, "null": null,
            "date": DateTime::from_millis(5), "regex": pattern, "code": Bson::JavaScriptCode("f()".to_owned()),
            "scope": code, "symbol": Bson::Symbol("s".to_owned()), "time": Timestamp { time: 1, increment: 2 },
            "decimal": Decimal128::from_bytes([3; 16]), "min": Bson::MinKey, "max": Bson::MaxKey,
            "undefined": Bson::Undefined, "last.$one": "end",
        };
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let elements: Vec<Element<'_>> = Elements::of(raw.as_bytes()).collect();
        assert_eq!(elements.len(), document.len());
        for (element, (name, value)) in elements.iter().zip(&document) {
            assert_eq!(element.name, name.as_bytes());
            let alone = RawDocumentBuf::try_from(&doc! { "": value.clone() }).unwrap();
            let bytes = alone.as_bytes();
            assert_eq!(
                (element.kind, element.value),
                (bytes[4], &bytes[6..bytes.len() - 1]),
                "{name}"
            );
            assert!(decode(element.kind, element.value).is_none_or(|decoded| decoded == *value));
        }
    }

    #[test]
    fn a_document_of_plain_values_is_decoded_as_by_the_driver() {
        let document = doc! {
            "": 1, "i64": 2_i64, "double": -0.5, "string": "t\u{e9}xt\0", "no text": "", "bool": true, "false": false,
            "document": { "a": [1, { "b": null }, []], "$c.d": {} }, "id": ObjectId::from_bytes([7; 12]),
            "date": DateTime::from_millis(-5),
        };
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        let kind = ElementType::EmbeddedDocument as u8;
        assert_eq!(decode(kind, raw.as_bytes()), Some(Bson::Document(document)));
        let rare = RawDocumentBuf::try_from(&doc! { "a": [{ "b": Timestamp { time: 1, increment: 2 } }] }).unwrap();
        assert_eq!(decode(kind, rare.as_bytes()), None);
    }

    #[test]
    fn what_is_cut_off_ends_early() {
        let raw = RawDocumentBuf::try_from(&doc! { "a": "text", "b": { "c": 1 } }).unwrap();
        let bytes = raw.as_bytes();
        for length in 0..bytes.len() - 1 {
            assert!(Elements::of(&bytes[..length]).count() < 2, "{length}");
            assert_eq!(decode(ElementType::EmbeddedDocument as u8, &bytes[..length]), None);
        }
        assert_eq!(Elements::of(&[5, 0, 0, 0, 99, b'a', 0, 1]).count(), 0);
    }
}
