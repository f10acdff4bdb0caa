//! Documents of several versions, and the steps that convert them by functions of the program.

mod replace;
mod unknown;

use std::ops::Range;
use std::sync::Arc;

use mongodb::bson::raw::CStr;
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::field::FieldName;
use crate::settings::configuration;
use crate::value::number::Number;
use crate::value::size;
use crate::value::stored::{decode, id_of};

pub use self::replace::{check_distinct, in_commands, replace};
pub use self::unknown::{Unknown, unknown};

/// A stored document, decoded and converted.
pub struct Converted {
    /// The stored document as the old type writes it: with the fields that this type has.
    known: RawDocumentBuf,
    new: RawDocumentBuf,
}

crate::redacted_debug!(Converted);

/// A step by a function of the program.
pub type Convert = Arc<dyn Fn(&RawDocument) -> Result<Converted> + Send + Sync>;

/// Returns the step of a function.
pub fn converting<Old, New>(convert: impl Fn(Old) -> Result<New> + Send + Sync + 'static) -> Convert
where
    Old: Serialize + DeserializeOwned,
    New: Serialize,
{
    Arc::new(move |stored| {
        let text =
            "a stored document cannot be read as the type of its version: change the type, or correct the document";
        let old: Old = decode(stored, text)?;
        let known = encode(&old)?;
        let new = encode(&convert(old)?)?;
        Ok(Converted { known, new })
    })
}

/// Steps without a gap, each from a version to the next.
#[derive(Clone)]
pub struct Steps<W> {
    oldest: u32,
    list: Vec<W>,
}

crate::redacted_debug!(Steps<W>);

impl<W> Steps<W> {
    /// Checks the steps. The newest version is the one after the last step, or the given one.
    pub fn new(mut given: Vec<(u32, W)>, newest: Option<u32>) -> Result<Self> {
        given.sort_by_key(|(from, _)| *from);
        let oldest = match given.first() {
            Some((from, _)) => *from,
            None => newest.unwrap_or(1),
        };
        let mut in_order = (u64::from(oldest)..).zip(&given);
        if !in_order.all(|(version, (from, _))| version == u64::from(*from)) {
            return Err(configuration(
                "the steps have a gap, or two of them convert the same version: give one step for each version, from the oldest stored one to the one before the newest",
            ));
        }
        let list: Vec<W> = given.into_iter().map(|(_, work)| work).collect();
        if oldest == 0 || i32::try_from(u64::from(oldest) + list.len() as u64).is_err() {
            return Err(configuration("a version is from 1 to 2,147,483,647"));
        }
        let steps = Self { oldest, list };
        match newest.is_none_or(|newest| newest == steps.newest()) {
            true => Ok(steps),
            false => Err(configuration(
                "the version of the repository's type is not the one after the last step: add the missing step, or correct newest(..)",
            )),
        }
    }

    /// Returns the oldest version that has a step, or the newest one.
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Returns the version after the last step.
    pub fn newest(&self) -> u32 {
        self.oldest + u32::try_from(self.list.len()).unwrap_or(0)
    }

    /// Returns the versions that have a step.
    pub fn older(&self) -> Range<u32> {
        self.oldest..self.newest()
    }

    /// Returns the step that converts documents of a version.
    pub fn from(&self, version: u32) -> Option<&W> {
        self.list.get(version.checked_sub(self.oldest)? as usize)
    }

    /// Returns all steps.
    pub fn all(&self) -> &[W] {
        &self.list
    }
}

/// Matches documents of these versions. Documents without the field, or with null, have version 1.
pub fn of_versions(field: &FieldName, versions: impl Iterator<Item = u32>) -> Document {
    let mut values = Vec::new();
    for version in versions {
        if version == 1 {
            values.push(Bson::Null);
        }
        values.push(number(version));
    }
    let condition = match (values.len(), values.pop()) {
        (1, Some(version)) => version,
        (_, last) => {
            values.extend(last);
            doc! { "$in": values }.into()
        }
    };
    doc! { field.as_str(): condition }
}

/// Returns a version as it is stored.
pub fn number(version: u32) -> Bson {
    i32::try_from(version).unwrap_or(i32::MAX).into()
}

/// Returns the version of a stored document. `None` if the field has another value than a version.
pub fn version_of(field: &FieldName, document: &RawDocument) -> Option<u32> {
    match document.get(field.as_str()).ok()? {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Some(1),
        Some(value) => {
            let number = Number::of(value)?;
            let version = u32::try_from(i32::try_from(number.whole()?).ok()?).ok()?;
            (version > 0).then_some(version)
        }
    }
}

/// Encodes a value as a document.
pub fn encode<T: Serialize>(value: &T) -> Result<RawDocumentBuf> {
    bson::serialize_to_raw_document_buf(value).map_err(|error| {
        let text = "the value cannot be written as a document, nothing was stored: use a type with named fields";
        Error::from_driver(ErrorKind::Encode, text, error)
    })
}

/// Converts a document by the typed step of its version.
pub fn convert(field: &FieldName, step: &Convert, version: u32, stored: &RawDocument) -> Result<RawDocumentBuf> {
    let converted = step(stored).and_then(|converted| joined(field, version + 1, stored, &converted));
    converted.map_err(|error| {
        let error = match error.document_id() {
            Some(_) => error,
            None => error.of_document(id_of(stored), ""),
        };
        error.with_step(version.to_string())
    })
}

/// Returns what a step returned, and the fields that its old type does not have.
fn joined(field: &FieldName, version: u32, stored: &RawDocument, converted: &Converted) -> Result<RawDocumentBuf> {
    let Converted { known, new } = converted;
    if new.get("_id").ok().flatten().is_some() && id_of(new) != id_of(stored) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a step returned a document with another `_id`, nothing was changed: keep the `_id`, or leave it out",
        ));
    }
    let mut document = with_version(stored, field, version, new.iter().flatten());
    let mut others = unknown(stored, known);
    others.retain(|field_of| field_of.path() != "_id" && field_of.path() != field.as_str());
    if !others.is_empty() {
        document = unknown::add(&document, &others)?;
    }
    size::check(&document)?;
    Ok(document)
}

/// Returns a document with the `_id` of a stored document, a version, and these fields.
pub fn with_version<'f>(
    of: &RawDocument,
    field: &FieldName,
    version: u32,
    fields: impl Iterator<Item = (&'f CStr, RawBsonRef<'f>)>,
) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    if let Ok(Some(id)) = of.get("_id") {
        document.append(cstr!("_id"), id);
    }
    if let Ok(field) = <&CStr>::try_from(field.as_str()) {
        document.append(field, i32::try_from(version).unwrap_or(i32::MAX));
    }
    for (name, value) in fields {
        if name.as_str() != "_id" && name.as_str() != field.as_str() {
            document.append(name, value);
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_whole_number_of_any_type() {
        let version = |value: Bson| {
            let document = RawDocumentBuf::try_from(&doc! { "v": value }).unwrap();
            version_of(&FieldName::new("v").unwrap(), &document)
        };
        for one in [Bson::Null, Bson::Undefined, 1.into(), 1_i64.into(), 1.0.into()] {
            assert_eq!(version(one), Some(1));
        }
        assert_eq!(version(i32::MAX.into()), Some(i32::MAX as u32));
        for none in [
            "1".into(),
            0.into(),
            (-1).into(),
            1.5.into(),
            f64::NAN.into(),
            (1_i64 << 31).into(),
            true.into(),
        ] {
            assert_eq!(version(none), None);
        }
        let none = RawDocumentBuf::new();
        assert_eq!(version_of(&FieldName::new("v").unwrap(), &none), Some(1));
    }
}
