//! References by the source key: its value alone, or a document with it.
//!
//! # Design
//!
//! ## Why is the `_id` of such a document refused?
//!
//! The `_id` may be of another source than the key, and nothing says which is right.

use mongodb::bson::{Document, doc};

use super::FromReferences;
use crate::query::expression::{
    ELEMENT, any_of, id_in, is_extended, is_id, is_missing, is_present, is_reference, is_without_id, mapped, not,
    type_in, values, with_source,
};
use crate::settings::{DELETED, ReferenceField};

impl FromReferences<'_> {
    /// Returns whether a value is a document that names a source.
    pub(super) fn is_document(&self, value: &str) -> Document {
        match &self.settings.key {
            None => is_reference(value),
            Some(key) => doc! { "$and": [type_in(value, &["object"]), not(is_missing(format!("{value}.{key}")))] },
        }
    }

    /// Returns the name of the source in a value: the `_id` or the key in a document, or the value itself.
    pub(super) fn name_in(&self, value: &str) -> Document {
        match &self.settings.key {
            None => id_in(value),
            Some(key) => doc! { "$cond": [self.is_document(value), format!("{value}.{key}"), value] },
        }
    }

    /// Returns whether a value can be the name of a source.
    pub(super) fn is_name(&self, value: &str) -> Document {
        match self.settings.key {
            None => is_id(value),
            Some(_) => doc! { "$and": [is_id(value), not(type_in(value, &["object"]))] },
        }
    }

    /// Returns whether a value is a document that names no source in the form of the repository.
    pub(super) fn is_without_name(&self, value: &str) -> Document {
        match self.settings.key {
            None => is_without_id(value),
            Some(_) => doc! { "$and": [is_without_id(value), not(self.is_document(value))] },
        }
    }

    /// Returns the ids of all references in a field. A key that no source has is its own value.
    pub(super) fn ids_by_key(&self, field: &ReferenceField, value: &str) -> Document {
        let named = doc! { "$ifNull": ["$$source._id", ELEMENT] };
        let named = with_source(self.order(), self.name_in(ELEMENT), named);
        let is_extended = is_extended(self.settings, field, ELEMENT);
        mapped(
            values(field, value),
            doc! { "$cond": [is_extended, format!("{ELEMENT}._id"), named] },
        )
    }

    /// Returns whether a document has an `_id` of its own, or a field that the pattern writes.
    pub(super) fn has_written_beside_key(&self, value: &str) -> Document {
        let has_written = any_of([not(is_missing(format!("{value}._id"))), self.has_written(value)]);
        doc! { "$and": [type_in(value, &["object"]), has_written] }
    }

    /// Returns whether a document has a version, or the field of a deleted source.
    fn has_written(&self, value: &str) -> Document {
        any_of([self.settings.version.as_str(), DELETED].map(|name| is_present(format!("{value}.{name}"))))
    }

    /// Returns a snapshot with the values that it has already, if there are any beside the key. Otherwise a new copy.
    pub(super) fn with_own_copy(&self, field: &ReferenceField, new: Document) -> Document {
        let copied = field.copied.iter().map(|copied| copied.target.text());
        let copied = copied.filter(|target| target != self.settings.named_by());
        let has_copy = any_of(copied.map(|target| not(is_missing(format!("{ELEMENT}.{target}")))));
        let own = doc! { "$mergeObjects": [{ "_id": "$$source._id" }, ELEMENT] };
        doc! { "$cond": [{ "$and": [type_in(ELEMENT, &["object"]), has_copy] }, own, new] }
    }
}
