//! Current documents and the copies of their revisions.

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::field::is_mark;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::stored::{self, id_of, value};
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::{CStr, CString};
use mongodb::bson::{Bson, DateTime, Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::results::Revision;
use crate::settings::Settings;

/// In the revision of a deletion, the names of its fields of other repositories.
const KEPT: &CStr = cstr!("mongo_patterns_kept");

/// What names the revision of a stored document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) revision: u64,
    pub(crate) time: DateTime,
    /// Whether it is the revision of a deletion.
    pub(crate) is_deleted: bool,
}

impl Head {
    /// Returns the head of a stored document. `None` without a positive number and a time.
    pub(crate) fn read(settings: &Settings, document: &RawDocument) -> Option<Self> {
        let value = |field: &str| document.get(field).ok().flatten();
        let revision = u64::try_from(stored_integer(value(settings.revision.as_str())?)?).ok()?;
        let RawBsonRef::DateTime(time) = value(settings.time.as_str())? else {
            return None;
        };
        (revision > 0).then_some(Self {
            revision,
            time,
            is_deleted: value(settings.deleted.as_str()) == Some(RawBsonRef::Boolean(true)),
        })
    }

    /// Returns the first time that is after this one.
    pub(crate) fn next_time(self) -> DateTime {
        DateTime::from_millis(self.time.timestamp_millis().saturating_add(1))
    }
}

/// A document of the caller, checked and encoded.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) id: Bson,
    /// With an `_id` at its start.
    pub(crate) document: Document,
    /// The values of the fields that describe the change.
    pub(crate) with: Document,
}

/// Encodes a document to insert.
pub(crate) fn encode<D: Serialize>(settings: &Settings, document: &D) -> Result<Encoded> {
    let NewDocument { id, document } = checked(settings, document)?;
    let with = Document::new();
    Ok(Encoded { id, document, with })
}

/// Encodes a document that replaces the content of the document with this id. Returns it without its `_id`.
pub(crate) fn encode_replacement<D: Serialize>(settings: &Settings, id: &Bson, document: &D) -> Result<Document> {
    checked(settings, document)?.into_replacement(id)
}

/// Encodes a document with none of the fields that the pattern reserves, or that describe a change.
fn checked<D: Serialize>(settings: &Settings, document: &D) -> Result<NewDocument> {
    let new = NewDocument::encode(&settings.id, document)?;
    if settings.change_fields().any(|field| new.document.contains_key(field)) {
        return Err(invalid_argument(
            "the document has a field that describes the change, nothing was sent: remove it, and pass its value to with(..) of the call",
        ));
    }
    let is_reserved = |field: &&String| *field == settings.deleted.as_str() || settings.is_of_revisions(field);
    match new.document.keys().find(is_reserved) {
        Some(field) => Err(reserved(field)),
        None => Ok(new),
    }
}

/// Returns the copy of a current document for the revisions.
pub(crate) fn copy(
    settings: &Settings,
    current: &RawDocument,
    id: ObjectId,
) -> std::result::Result<RawDocumentBuf, CommandError> {
    let mut copy = RawDocumentBuf::new();
    copy.append(cstr!("_id"), id);
    if settings.is_by_id()
        && let Some(id) = current.get("_id")?
    {
        copy.append(CString::try_from(settings.document_id.as_str())?, id);
    }
    append_content(settings, &[], &mut copy, current)?;
    Ok(copy)
}

/// Returns a revision with the `_id` of its document.
fn with_id_of_document(
    settings: &Settings,
    revision: &RawDocument,
) -> std::result::Result<RawDocumentBuf, CommandError> {
    let mut document = RawDocumentBuf::new();
    if let Some(id) = revision.get(settings.document_id.as_str())? {
        document.append(cstr!("_id"), id);
    }
    append_content(settings, &[], &mut document, revision)?;
    Ok(document)
}

/// Appends all fields but those that differ between a document and its copy.
fn append_content(
    settings: &Settings,
    without: &[String],
    to: &mut RawDocumentBuf,
    document: &RawDocument,
) -> std::result::Result<(), CommandError> {
    for field in document {
        let (name, value) = field?;
        let is_mark = is_mark(name.as_str()) && name.as_str() != KEPT.as_str();
        let is_content = name.as_str() != "_id" && !is_mark && !without.iter().any(|field| field == name.as_str());
        if is_content && !settings.is_of_revisions(name.as_str()) {
            to.append(name, value);
        }
    }
    Ok(())
}

/// Adds the names of the fields of other repositories to the revision of a deletion.
pub(crate) fn add_kept(deletion: &mut RawDocumentBuf, others: &Others) {
    if !others.kept().is_empty() {
        let mut names = RawArrayBuf::new();
        others.kept().iter().for_each(|name| names.push(name.as_str()));
        deletion.append(KEPT, names);
    }
}

/// Returns the names of the fields of other repositories in the revision of a deletion.
pub(crate) fn kept_in(settings: &Settings, revision: &RawDocument) -> Vec<String> {
    let is_deleted = Head::read(settings, revision).is_some_and(|head| head.is_deleted);
    match value(revision, KEPT.as_str()).filter(|_| is_deleted) {
        Some(Bson::Array(names)) => names.iter().filter_map(Bson::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the content of a revision, to restore it: without its `_id`, the fields of the pattern, and the description of
/// its change.
pub(crate) fn content(settings: &Settings, revision: &RawDocument) -> Result<Document> {
    let mut content = Document::try_from(revision).map_err(CommandError::from)?;
    let kept = kept_in(settings, revision);
    for field in kept
        .iter()
        .map(String::as_str)
        .chain((!kept.is_empty()).then_some(KEPT.as_str()))
    {
        content.remove(field);
    }
    let own = settings.own_fields().map(FieldName::as_str);
    for field in ["_id"].into_iter().chain(own).chain(settings.change_fields()) {
        content.remove(field);
    }
    if settings.is_by_id() {
        content.remove(settings.document_id.as_str());
    }
    Ok(content)
}

/// Returns whether two documents have the same [content].
pub(crate) fn have_same_content(settings: &Settings, a: &RawDocument, b: &RawDocument) -> Result<bool> {
    Ok(same_fields(&content(settings, a)?, &content(settings, b)?))
}

/// Returns whether a current document and its copy have the same fields, apart from fields that differ anyway, and fields of
/// others.
pub(crate) fn is_copy(settings: &Settings, others: &Others, current: &RawDocument, copy: &RawDocument) -> Result<bool> {
    let content_of = |document: &RawDocument| {
        let mut content = RawDocumentBuf::new();
        append_content(settings, others.kept(), &mut content, document).map(|()| content)
    };
    let [current, copy] = [content_of(current)?, content_of(copy)?];
    let fields = |document: &RawDocumentBuf| Document::try_from(document).ok();
    let have_same_fields = || Some(same_fields(&fields(&current)?, &fields(&copy)?));
    Ok(current.as_bytes() == copy.as_bytes() || have_same_fields().unwrap_or(false))
}

/// Returns whether two values are the same, with the fields of documents in any order.
pub(crate) fn is_same(a: &Bson, b: &Bson) -> bool {
    match (a, b) {
        (Bson::Double(a), Bson::Double(b)) if a.is_nan() && b.is_nan() => true,
        (Bson::Document(a), Bson::Document(b)) => same_fields(a, b),
        (Bson::Array(a), Bson::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (a, b) => a == b,
    }
}

fn same_fields(a: &Document, b: &Document) -> bool {
    let has = |(name, value): (&String, &Bson)| b.get(name).is_some_and(|other| is_same(value, other));
    a.len() == b.len() && a.iter().all(has)
}

pub(crate) fn decode_revision<D: DeserializeOwned>(settings: &Settings, document: &RawDocument) -> Result<Revision<D>> {
    let head = Head::read(settings, document).ok_or_else(|| no_head(settings, document))?;
    Ok(Revision {
        revision: head.revision,
        time: head.time,
        document: match head.is_deleted {
            true => None,
            false if settings.is_by_id() => Some(decode(&with_id_of_document(settings, document)?)?),
            false => Some(decode(document)?),
        },
        change: change_of(settings, document),
    })
}

/// Returns the values of the fields that describe a change.
fn change_of(settings: &Settings, document: &RawDocument) -> Document {
    let fields = settings.change_fields();
    let values = fields.filter_map(|field| Some((field.to_owned(), value(document, field)?)));
    values.collect()
}

pub(crate) fn decode<D: DeserializeOwned>(document: &RawDocument) -> Result<D> {
    let text =
        "a stored document cannot be decoded as the type of the repository: change the type, or repair the document";
    stored::decode(document, text)
}

/// Returns the id of a current document; null if there is none.
pub(crate) fn id_in(settings: &Settings, document: &RawDocument) -> Bson {
    value(document, &settings.id).unwrap_or(Bson::Null)
}

/// Returns the id of the document of a revision; null if there is none.
pub(crate) fn id_of_revision(settings: &Settings, revision: &RawDocument) -> Bson {
    value(revision, &settings.document_id).unwrap_or(Bson::Null)
}

pub(crate) fn no_head(settings: &Settings, document: &RawDocument) -> Error {
    let message = "a stored document has no number or no time of its revision: see document_id(), and repair it";
    Error::corrupt(id_of(document), settings.revision.as_str(), message)
}

fn reserved(field: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "the document has the field `{field}`, which the pattern uses for itself, nothing was stored: rename it"
        ),
    )
}

pub(crate) fn invalid_argument(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Timestamp, rawdoc};

    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_document_is_encoded_with_its_ids_first() {
        let settings = Settings::example();
        let encoded = encode(
            &settings,
            &doc! { "name": "a", "policyId": 7, "_id": "x", "revision": 99 },
        )
        .unwrap();
        assert_eq!(encoded.id, Bson::Int32(7));
        assert_eq!(encoded.document.keys().next().map(String::as_str), Some("_id"));
        assert_eq!(encoded.document.get_str("_id").unwrap(), "x");
        let encoded = encode(&settings, &doc! { "policyId": 7 }).unwrap();
        assert!(encoded.document.get_object_id("_id").is_ok());
    }

    #[test]
    fn invalid_documents_are_refused() {
        let settings = Settings::example();
        for bad in [
            doc! {},
            doc! { "policyId": null },
            doc! { "policyId": [1] },
            doc! { "policyId": 1, "deleted": false },
            doc! { "policyId": 1, "_id": [1] },
            doc! { "policyId": 1, "seen": Timestamp { time: 0, increment: 0 } },
        ] {
            let error = encode(&settings, &bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
        }
        let replace = |id: Bson, document: Document| encode_replacement(&settings, &id, &document);
        assert!(
            replace(Bson::Int64(1), doc! { "policyId": 1, "_id": 4 })
                .unwrap()
                .get("_id")
                .is_none()
        );
        assert!(replace(Bson::Int32(2), doc! { "policyId": 1 }).is_err());
    }

    #[test]
    fn a_copy_has_all_fields_but_the_id() {
        let settings = Settings::example();
        let current = rawdoc! { "_id": 5, "policyId": 1, "items": ["a", f64::NAN], "revision": 2 };
        let id = ObjectId::new();
        let copy = copy(&settings, &current, id).unwrap();
        let names: Vec<&str> = copy.iter().map(|field| field.unwrap().0.as_str()).collect();
        assert_eq!(names, ["_id", "policyId", "items", "revision"]);
        assert_eq!(copy.get_object_id("_id").unwrap(), id);
        assert!(is_copy(&settings, &Others::default(), &current, &copy).unwrap());
        let sorted = rawdoc! { "items": ["a", f64::NAN], "policyId": 1, "revision": 2 };
        assert!(is_copy(&settings, &Others::default(), &current, &sorted).unwrap());
        let other = rawdoc! { "policyId": 1, "items": ["b"], "revision": 2 };
        assert!(!is_copy(&settings, &Others::default(), &other, &copy).unwrap());
        assert!(
            is_copy(
                &settings,
                &Others::default(),
                &other,
                &rawdoc! { "_id": 1, "revision": 2, "policyId": 1, "items": ["b"] }
            )
            .unwrap()
        );
    }

    #[test]
    fn a_copy_has_the_id_of_its_document_in_a_field() {
        let settings = Settings::by_id();
        let current = rawdoc! { "_id": { "shop": 1, "n": 2.0 }, "name": "a", "revision": 2, "dateSet": DateTime::MAX };
        let id = ObjectId::new();
        let copy = copy(&settings, &current, id).unwrap();
        let expected = rawdoc! {
            "_id": id, "documentId": { "shop": 1, "n": 2.0 }, "name": "a", "revision": 2, "dateSet": DateTime::MAX,
        };
        assert_eq!(copy, expected);
        assert!(is_copy(&settings, &Others::default(), &current, &copy).unwrap());
        let revision = decode_revision::<RawDocumentBuf>(&settings, &copy).unwrap();
        assert_eq!(revision.document.unwrap(), current);
        assert_eq!(content(&settings, &copy).unwrap(), doc! { "name": "a" });
    }

    #[test]
    fn the_id_of_a_document_is_required_in_it() {
        let settings = Settings::by_id();
        let encoded = encode(&settings, &doc! { "name": "a", "_id": 7 }).unwrap();
        assert_eq!(
            (encoded.id, encoded.document),
            (7.into(), doc! { "_id": 7, "name": "a" })
        );
        for bad in [doc! {}, doc! { "_id": null }, doc! { "_id": 1, "documentId": 1 }] {
            let error = encode(&settings, &bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
        }
        let replace = |document: Document| encode_replacement(&settings, &1.into(), &document);
        assert_eq!(replace(doc! { "_id": 1, "name": "a" }).unwrap(), doc! { "name": "a" });
        assert!(replace(doc! { "_id": 2 }).is_err());
    }

    #[test]
    fn a_head_has_a_positive_number_and_a_time() {
        let settings = Settings::example();
        let time = DateTime::from_millis(5);
        let head = |document: Document| Head::read(&settings, &RawDocumentBuf::try_from(&document).unwrap());
        let found = head(doc! { "revision": 2.0, "dateSet": time, "deleted": true }).unwrap();
        assert_eq!((found.revision, found.time), (2, time));
        assert!(found.is_deleted);
        assert_eq!(found.next_time(), DateTime::from_millis(6));
        for invalid in [
            doc! { "revision": 0, "dateSet": time },
            doc! { "revision": -1, "dateSet": time },
            doc! { "revision": 1.5, "dateSet": time },
            doc! { "revision": "1", "dateSet": time },
            doc! { "revision": 1, "dateSet": 5 },
            doc! { "revision": 1 },
            doc! { "dateSet": time },
        ] {
            assert_eq!(head(invalid.clone()), None, "{invalid}");
        }
    }
}
