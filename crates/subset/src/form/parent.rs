//! A stored parent, as a write sees it.

use crate::prelude::*;

/// The subsets and the version of a parent.
///
/// A parent without a version is *unmanaged*: no repository has written it yet. The children that it embeds may be
/// stored nowhere else.
#[derive(Debug)]
pub(crate) struct ParentState {
    version: Option<i64>,
    document: RawDocumentBuf,
}

impl ParentState {
    pub(crate) fn of(settings: &Settings, document: RawDocumentBuf) -> Self {
        let version = match document.get(settings.version.as_str()) {
            Ok(Some(RawBsonRef::Int32(version))) => Some(version.into()),
            Ok(Some(RawBsonRef::Int64(version))) => Some(version),
            _ => None,
        };
        Self { version, document }
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
        if self.version.is_some() {
            return None;
        }
        let fields = settings.subset_fields();
        Some(fields.map(|field| ids(settings, &self.document, field)).collect())
    }

    /// Returns whether the parent is unmanaged and embeds anything.
    pub(crate) fn is_unmanaged(&self, settings: &Settings) -> bool {
        self.ids_of_subsets(settings)
            .is_some_and(|subsets| subsets.iter().any(|ids| *ids != Bson::Array(Vec::new())))
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
