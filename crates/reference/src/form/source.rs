//! A source, as far as it is copied.

use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{Error, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument};

use crate::settings::copied::FieldPath;
use crate::settings::{MARK, Settings};

/// What a copy of a source is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) id: Bson,
    pub(crate) version: u64,
    /// The mark of a deletion that is checking the references.
    pub(crate) mark: Option<ObjectId>,
    fields: Document,
}

impl Source {
    /// Decodes a source.
    pub(crate) fn read(settings: &Settings, document: &RawDocument) -> Result<Self> {
        let version = match document.get(settings.version.as_str()).ok().flatten() {
            None => Some(0),
            Some(version) => stored_version(version),
        };
        let version = version.ok_or_else(|| {
            let message = "the version of a source is not an integer from 0, no copy was written: see document_id(), and correct it";
            Error::corrupt(id_of(document), settings.version.as_str(), message)
        })?;
        Ok(Self {
            id: id_of(document),
            version,
            mark: value(document, MARK).and_then(|mark| mark.as_object_id()),
            fields: Document::try_from(document).map_err(CommandError::from)?,
        })
    }

    pub(crate) fn value(&self, path: &FieldPath) -> Option<&Bson> {
        path.value(&self.fields)
    }

    pub(crate) fn stored_version(&self) -> Bson {
        version_to_bson(self.version)
    }
}

/// Returns a stored version. `None` for anything but an integer from 0.
pub(crate) fn stored_version(version: RawBsonRef<'_>) -> Option<u64> {
    u64::try_from(stored_integer(version)?).ok()
}

pub(crate) fn version_to_bson(version: u64) -> Bson {
    Bson::Int64(i64::try_from(version).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;
    use crate::settings::tests::example;

    #[test]
    fn a_source_without_a_version_has_the_version_0() {
        let settings = example();
        let version = |document: &RawDocument| Source::read(&settings, document).map(|source| source.version);
        assert_eq!(version(&rawdoc! { "_id": 1 }).unwrap(), 0);
        for stored in [rawdoc! { "v": 3 }, rawdoc! { "v": 3_i64 }, rawdoc! { "v": 3.0 }] {
            assert_eq!(version(&stored).unwrap(), 3);
        }
        for invalid in [rawdoc! { "v": -1 }, rawdoc! { "v": "3" }, rawdoc! { "v": 1.5 }] {
            assert!(version(&invalid).unwrap_err().is_corrupt());
        }
    }
}
