//! The entries of a trash.
//!
//! # Design
//!
//! ## Why has an entry an `_id` of its own?
//!
//! A document can be inserted again under its `_id`, and deleted again. With the document's `_id`, the second deletion would
//! be refused, or replace the first entry.
//!
//! ## Why is the document a field, and not the entry itself?
//!
//! It keeps its bytes, and its fields can have any name, such as `deletedAt`.
//!
//! ## Why is the size a part of the filter?
//!
//! A client that finds the document too large has deleted it already, and the caller of a transaction can commit that. To
//! read the document first would take a round trip more.

use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::size::MAX_BYTES;
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::Namespace;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawBson, RawDocument, RawDocumentBuf, cstr, doc};

/// The path to the `_id` of the document.
pub(crate) const ID: &str = "document._id";
/// The field with the time of the deletion.
pub(crate) const DELETED_AT: &str = "deletedAt";
pub(crate) const EXPIRES_AT: &str = "expiresAt";
const DELETED_BY: &str = "deletedBy";
/// The field with the number of the related documents that were deleted with the document, in a trash with related collections.
pub(crate) const RELATED: &str = "related";
/// The field of a related entry with the `_id` of the entry of its document.
pub(crate) const OF: &str = "of";
/// The fields of such an entry that name the collection of its document.
pub(crate) const COLLECTION: &str = "collection";
pub(crate) const DATABASE: &str = "database";

/// What an entry has beside its document.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: ObjectId,
    pub(crate) deleted_at: DateTime,
    pub(crate) deleted_by: Option<RawBson>,
    pub(crate) expires_at: Option<DateTime>,
    /// The number of the related documents, in a trash with related collections.
    pub(crate) related: Option<i64>,
}

impl Entry {
    /// Returns the stored form with a document.
    pub(crate) fn with(&self, document: &RawDocument) -> RawDocumentBuf {
        let mut entry = RawDocumentBuf::new();
        entry.append(cstr!("_id"), self.id);
        entry.append(cstr!("document"), document);
        entry.append(cstr!("deletedAt"), self.deleted_at);
        if let Some(by) = &self.deleted_by {
            entry.append(cstr!("deletedBy"), by.clone());
        }
        if let Some(time) = self.expires_at {
            entry.append(cstr!("expiresAt"), time);
        }
        if let Some(related) = self.related {
            entry.append(cstr!("related"), related);
        }
        entry
    }

    /// Returns the stored form of a related document of a collection, in a trash of this database.
    pub(crate) fn with_related(&self, of: &Namespace, database: &str, document: &RawDocument) -> RawDocumentBuf {
        let mut entry = RawDocumentBuf::new();
        entry.append(cstr!("_id"), ObjectId::new());
        entry.append(cstr!("of"), self.id);
        entry.append(cstr!("collection"), of.coll.as_str());
        if of.db != database {
            entry.append(cstr!("database"), of.db.as_str());
        }
        entry.append(cstr!("document"), document);
        entry.append(cstr!("deletedAt"), self.deleted_at);
        if let Some(time) = self.expires_at {
            entry.append(cstr!("expiresAt"), time);
        }
        entry
    }

    /// Returns the most bytes of a document for which MongoDB stores the entry; below 0 if it stores none.
    pub(crate) fn most_bytes(&self) -> i64 {
        let empty = RawDocumentBuf::new();
        let own = self.with(&empty).as_bytes().len() - empty.as_bytes().len();
        MAX_BYTES as i64 - own as i64
    }
}

/// Matches a document by `_id` if it has at most this number of bytes.
pub(crate) fn of_size(id: &Bson, most_bytes: i64) -> Document {
    let mut filter = by_id(id);
    filter.insert("$expr", doc! { "$lte": [{ "$bsonSize": "$$ROOT" }, most_bytes] });
    filter
}

/// Matches the entries of a document.
pub(crate) fn of_document(id: &Bson) -> Document {
    doc! { ID: { "$eq": id } }
}

pub(crate) fn document_of(entry: &RawDocument) -> Result<&RawDocument> {
    entry.get_document("document").map_err(|_| {
        let text = "an entry of the trash has no document in its field `document`, nothing was changed: correct it or delete it";
        Error::new(ErrorKind::Corrupt, text).of_document(id_of(entry), "document")
    })
}

/// Returns who deleted the document.
pub(crate) fn deleted_by(entry: &RawDocument) -> Option<Bson> {
    value(entry, DELETED_BY)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn an_entry_has_the_document_and_what_is_known_of_the_deletion() {
        let (id, time) = (ObjectId::new(), DateTime::from_millis(5));
        let document = rawdoc! { "a": 1.5, "_id": 1 };
        let mut entry = Entry {
            id,
            deleted_at: time,
            deleted_by: None,
            expires_at: None,
            related: None,
        };
        let stored = rawdoc! { "_id": id, "document": document.clone(), "deletedAt": time };
        assert_eq!(entry.with(&document), stored);
        entry.deleted_by = Some("ann".into());
        entry.expires_at = Some(DateTime::from_millis(9));
        let stored = entry.with(&document);
        let expected = rawdoc! {
            "_id": id, "document": document.clone(), "deletedAt": time, "deletedBy": "ann",
            "expiresAt": DateTime::from_millis(9),
        };
        assert_eq!(stored, expected);
        let left = MAX_BYTES - stored.as_bytes().len();
        assert_eq!(entry.most_bytes() as usize, document.as_bytes().len() + left);
        assert_eq!(document_of(&stored).unwrap().as_bytes(), document.as_bytes());
        assert_eq!(deleted_by(&stored), Some("ann".into()));
    }

    #[test]
    fn the_entry_of_a_related_document_names_that_of_its_document() {
        let (id, time) = (ObjectId::new(), DateTime::from_millis(5));
        let document = rawdoc! { "_id": 1, "order": 7 };
        let entry = Entry {
            id,
            deleted_at: time,
            deleted_by: Some("ann".into()),
            expires_at: Some(time),
            related: Some(2),
        };
        let stored = |database: &str| {
            let stored = entry.with_related(&Namespace::new("shop", "lines"), database, &document);
            let mut stored = Document::try_from(stored).unwrap();
            assert_ne!(stored.remove("_id").unwrap(), id.into());
            stored
        };
        let mut expected = doc! {
            "of": id, "collection": "lines", "document": { "_id": 1, "order": 7 }, "deletedAt": time, "expiresAt": time,
        };
        assert_eq!(stored("shop"), expected);
        expected.insert("database", "shop");
        assert_eq!(stored("archive"), expected);
        let own = Document::try_from(entry.with(&document)).unwrap();
        assert_eq!(own.get("related"), Some(&2_i64.into()));
    }

    #[test]
    fn ids_are_values_in_the_filters() {
        let id = Bson::Document(doc! { "$gt": 1 });
        let size = doc! { "$lte": [{ "$bsonSize": "$$ROOT" }, 5_i64] };
        assert_eq!(of_size(&id, 5), doc! { "_id": { "$eq": { "$gt": 1 } }, "$expr": size });
        assert_eq!(of_document(&id), doc! { "document._id": { "$eq": { "$gt": 1 } } });
    }

    #[test]
    fn an_entry_without_a_document_is_named() {
        for other in [rawdoc! { "_id": 7 }, rawdoc! { "_id": 7, "document": [{ "_id": 1 }] }] {
            let error = document_of(&other).unwrap_err();
            assert_eq!(
                (error.kind(), error.document_id()),
                (ErrorKind::Corrupt, Some(&7.into()))
            );
        }
    }
}
