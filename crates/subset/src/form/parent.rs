//! A stored parent: the first of its children, as they are embedded, and its state, as a write sees it.

use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};

use super::child::is_id;
use crate::settings::Settings;

/// The first children of a parent, for each of its subsets.
#[derive(Clone, Debug)]
pub(crate) struct Embedded(pub(crate) Vec<Vec<RawDocumentBuf>>);

impl Embedded {
    /// Returns no children.
    pub(crate) fn none(settings: &Settings) -> Self {
        Self(vec![Vec::new(); settings.subsets.len()])
    }

    /// Returns the number of embedded children, each counted in every subset.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|subset| subset.len() as u64).sum()
    }

    /// Returns whether a subset has this child.
    pub(crate) fn includes(&self, settings: &Settings, child: &Bson) -> bool {
        let field = settings.child_id.as_str();
        let mut embedded = self.0.iter().flatten();
        embedded.any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
    }

    /// Returns the fields of the parent with their arrays.
    pub(crate) fn fields(&self, settings: &Settings) -> Result<Document> {
        let subsets = settings.subsets.iter().zip(&self.0);
        let fields = subsets.map(|(subset, children)| {
            let children = children.iter().map(|child| Bson::try_from(RawBsonRef::Document(child)));
            let children = children.collect::<bson::error::Result<Vec<Bson>>>();
            let children = children.map_err(CommandError::from)?;
            Ok((subset.field.as_str().to_owned(), Bson::from(children)))
        });
        fields.collect()
    }
}

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

    /// Returns the ids of the children that an unmanaged parent embeds in each subset, or `None` for a parent with a
    /// version. They equal [`ids_of`](crate::query::embedded_ids::ids_of), but are `null` for a subset that is not an array.
    pub(crate) fn ids_of_subsets(&self, settings: &Settings) -> Option<Vec<Bson>> {
        if self.version.is_some() {
            return None;
        }
        let subsets = settings.subsets.iter();
        Some(
            subsets
                .map(|subset| ids(settings, &self.document, &subset.field))
                .collect(),
        )
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
