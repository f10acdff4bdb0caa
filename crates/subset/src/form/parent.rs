//! A stored parent, as a write sees it.

use super::embedded::Embedded;
use crate::prelude::*;

/// The subsets and the version of a parent.
///
/// A parent without a version is *unmanaged*: no repository has written it yet. The children that it embeds may be
/// stored nowhere else.
#[derive(Debug)]
pub(crate) struct ParentState {
    version: Option<i64>,
    /// `None` for a guess.
    document: Option<RawDocumentBuf>,
}

impl ParentState {
    /// Returns the state of a parent that was not read, and is expected to have this version.
    pub(crate) fn guess(version: i64) -> Self {
        Self {
            version: Some(version),
            document: None,
        }
    }

    pub(crate) fn of(settings: &Settings, document: RawDocumentBuf) -> Self {
        let version = match document.get(settings.version.as_str()) {
            Ok(Some(RawBsonRef::Int32(version))) => Some(version.into()),
            Ok(Some(RawBsonRef::Int64(version))) => Some(version),
            _ => None,
        };
        Self {
            version,
            document: Some(document),
        }
    }

    pub(crate) fn is_guess(&self) -> bool {
        self.document.is_none()
    }

    pub(crate) fn version(&self) -> Option<i64> {
        self.version
    }

    /// Returns the ids of the children that an unmanaged parent embeds, or `None` for a parent with a version: an array,
    /// or one for each subset if there are several.
    ///
    /// Equals [`ids_of`](crate::query::embedded_ids::ids_of), but is `null` for a subset that is not an array.
    pub(crate) fn unmanaged_ids(&self, settings: &Settings) -> Option<Bson> {
        let mut ids = self.ids_of_subsets(settings)?;
        Some(match settings.further.is_empty() {
            true => ids.remove(0),
            false => Bson::Array(ids),
        })
    }

    /// Returns the ids of the children that an unmanaged parent embeds in each subset, or `None` for a parent with a
    /// version.
    pub(crate) fn ids_of_subsets(&self, settings: &Settings) -> Option<Vec<Bson>> {
        let document = self.document.as_ref().filter(|_| self.version.is_none())?;
        let ids = settings.subset_fields().map(|field| ids(settings, document, field));
        Some(ids.collect())
    }

    /// Returns whether the parent is unmanaged and embeds anything.
    pub(crate) fn is_unmanaged(&self, settings: &Settings) -> bool {
        self.ids_of_subsets(settings)
            .is_some_and(|subsets| subsets.iter().any(|ids| *ids != Bson::Array(Vec::new())))
    }

    /// Returns whether the stored subsets equal these documents, byte by byte.
    pub(crate) fn has_subsets(&self, settings: &Settings, expected: &Embedded) -> bool {
        let Some(document) = &self.document else { return false };
        let mut subsets = settings.subset_fields().zip(expected.subsets());
        subsets.all(|(field, expected)| has_subset(document, field, expected))
    }
}

fn ids(settings: &Settings, document: &RawDocument, field: &FieldName) -> Bson {
    let id = |child: bson::error::Result<RawBsonRef<'_>>| {
        let id = child.ok()?.as_document()?.get(settings.child_id.as_str()).ok()??;
        Bson::try_from(id).ok()
    };
    match document.get(field.as_str()) {
        Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined)) => Bson::Array(Vec::new()),
        Ok(Some(RawBsonRef::Array(stored))) => stored
            .into_iter()
            .map(|child| id(child).unwrap_or(Bson::Null))
            .collect(),
        _ => Bson::Null,
    }
}

fn has_subset(document: &RawDocument, field: &FieldName, expected: &[RawDocumentBuf]) -> bool {
    match document.get(field.as_str()) {
        Ok(None | Some(RawBsonRef::Null)) => expected.is_empty(),
        Ok(Some(RawBsonRef::Array(stored))) => {
            let mut stored = stored.into_iter();
            let is_same = |child: &RawDocumentBuf| {
                let stored = stored.next().and_then(std::result::Result::ok);
                let stored = stored.and_then(RawBsonRef::as_document);
                stored.map(RawDocument::as_bytes) == Some(child.as_bytes())
            };
            expected.iter().all(is_same) && stored.next().is_none()
        }
        _ => false,
    }
}
