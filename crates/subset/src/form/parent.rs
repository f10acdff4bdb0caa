//! A stored parent, as a write sees it.

use crate::prelude::*;

/// The subset and the version of a parent.
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

    /// Returns the ids of the children that an unmanaged parent embeds, or `None` for a parent with a version.
    ///
    /// Equals [`query::embedded_ids`](crate::query::embedded_ids), but is `null` if the subset is not an array.
    pub(crate) fn unmanaged_ids(&self, settings: &Settings) -> Option<Bson> {
        let document = self.document.as_ref().filter(|_| self.version.is_none())?;
        let id = |child: bson::error::Result<RawBsonRef<'_>>| {
            let id = child.ok()?.as_document()?.get(settings.child_id.as_str()).ok()??;
            Bson::try_from(id).ok()
        };
        Some(match document.get(settings.subset.as_str()) {
            Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined)) => Bson::Array(Vec::new()),
            Ok(Some(RawBsonRef::Array(stored))) => stored
                .into_iter()
                .map(|child| id(child).unwrap_or(Bson::Null))
                .collect(),
            _ => Bson::Null,
        })
    }

    /// Returns whether the parent is unmanaged and embeds anything.
    pub(crate) fn is_unmanaged(&self, settings: &Settings) -> bool {
        self.unmanaged_ids(settings)
            .is_some_and(|ids| ids != Bson::Array(Vec::new()))
    }

    /// Returns whether the stored subset equals these documents, byte by byte.
    pub(crate) fn has_subset(&self, settings: &Settings, expected: &[RawDocumentBuf]) -> bool {
        let Some(document) = &self.document else { return false };
        match document.get(settings.subset.as_str()) {
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
}
