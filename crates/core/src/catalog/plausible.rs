//! Checks that settings fit stored data that has no entry in the catalog.

use std::fmt::Display;

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOneOptions;

use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::migration::{Step, number};
use crate::value::stored::id_of;

/// The number of documents in a sample.
const SAMPLE: i32 = 1000;

/// Checks that at least one document of a sample has each field, or that the collection is empty. Returns whether it has
/// documents. A field can be a path
/// into an array. One round trip, in which the server reads up to 1000 documents, or a collection of less than 20,000.
#[doc(hidden)]
pub async fn check_fields(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    fields: &[(&'static str, &str)],
) -> Result<bool> {
    let mut group = doc! { "_id": null, "documents": { "$sum": 1 } };
    for (setting, path) in fields {
        let value = format!("${path}");
        let mut has = vec![doc! { "$ne": [{ "$type": &value }, "missing"] }];
        if path.contains('.') {
            // The value of a path into an array is the array of all elements that have the field.
            has.push(doc! { "$ne": [&value, []] });
        }
        group.insert(*setting, doc! { "$sum": { "$cond": [{ "$and": has }, 1, 0] } });
    }
    let stages = [doc! { "$sample": { "size": SAMPLE } }, doc! { "$group": group }];
    let sample = Step::aggregate("look for the fields in a sample", collection, stages);
    let found = conn.read(sample).await?.first()?;
    match missing(&found, collection, fields) {
        Some(error) => Err(error),
        None => Ok(number(&found, "documents") > 0),
    }
}

fn missing(
    found: &Document,
    collection: &Collection<RawDocumentBuf>,
    fields: &[(&'static str, &str)],
) -> Option<Error> {
    let documents = number(found, "documents");
    let (setting, path) = fields.iter().find(|(setting, _)| number(found, setting) == 0)?;
    let error = || {
        implausible(format!(
            "none of {documents} sampled documents of `{}` has the field `{path}`, which is the setting `{setting}`",
            collection.namespace()
        ))
    };
    (documents > 0).then(error)
}

/// Creates the error of settings that do not fit the stored data.
#[doc(hidden)]
pub fn implausible(reason: impl Display) -> Error {
    Error::new(
        ErrorKind::SettingsMismatch,
        format!(
            "{reason}, and the collection has no entry in the catalog, nothing was written: correct the settings, or call ensure_indexes().replace_settings() if they are right"
        ),
    )
    .with_remedy(Remedy::CheckSettings)
}

/// The fields that only a repository writes, in the documents of a collection that the application writes too.
#[doc(hidden)]
pub struct OwnFields<'a> {
    /// The collection.
    pub collection: &'a Collection<RawDocumentBuf>,
    pub fields: Vec<OwnField<'a>>,
}

crate::redacted_debug!(OwnFields<'_>, |own| "collection" = own.collection.namespace());

/// A field that only a repository writes.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct OwnField<'a> {
    /// The setting that names it.
    pub setting: &'static str,
    pub name: &'a str,
    /// Whether a repository can have written its value, or it is missing, as an expression.
    pub is_own: Document,
}

impl<'a> OwnField<'a> {
    /// Creates it for a field in which a repository writes values of these types. It may be null.
    pub fn of_types(setting: &'static str, name: &'a str, types: &[&str]) -> Self {
        let types: Vec<&str> = ["missing", "null", "undefined"].iter().chain(types).copied().collect();
        let is_own = doc! { "$in": [{ "$type": format!("${name}") }, types] };
        Self { setting, name, is_own }
    }
}

impl OwnFields<'_> {
    /// Checks that no document has a value in a field of the repository that no repository has written: the next write would
    /// overwrite it. One round trip, in which the server reads the collection.
    pub async fn check(&self, conn: &mut Conn<'_>) -> Result<()> {
        let (filter, options) = self.find_other();
        let find = Step::find_one(
            "look for other values in the fields of the pattern",
            self.collection,
            filter,
            options,
        );
        let found = conn.read(find).await?.documents;
        found.first().map_or(Ok(()), |document| Err(self.refused(document)))
    }

    /// Matches a document with such a value, and returns which fields have one.
    fn find_other(&self) -> (Document, FindOneOptions) {
        let others = || self.fields.iter().map(|field| doc! { "$not": [&field.is_own] });
        let mut which = doc! { "_id": 1 };
        which.extend(
            (0..)
                .zip(others())
                .map(|(number, other)| (is_other(number), Bson::from(other))),
        );
        let filter = doc! { "$expr": { "$or": others().collect::<Vec<_>>() } };
        (filter, FindOneOptions::builder().projection(which).build())
    }

    fn refused(&self, document: &RawDocumentBuf) -> Error {
        let is_of = |number: usize| document.get_bool(is_other(number)).unwrap_or(false);
        let field = (0..).zip(&self.fields).find(|(number, _)| is_of(*number));
        let (setting, name) = field.map_or(("", ""), |(_, field)| (field.setting, field.name));
        let error = Error::new(
            ErrorKind::SettingsMismatch,
            format!(
                "documents of `{}` have a value in the field `{name}` that no repository has written, and the setting `{setting}` names this field, so that it would be overwritten, nothing was written: use another name, or correct the values",
                self.collection.namespace()
            ),
        );
        error.of_document(id_of(document), name).of_collection(self.collection)
    }
}

/// The name of the result for a field.
fn is_other(number: usize) -> String {
    format!("other{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_types_are_looked_for_in_all_fields_at_once() {
        let collection = crate::offline::collection("products");
        let own = OwnFields {
            collection: &collection,
            fields: vec![
                OwnField::of_types("version", "v", &["int", "long"]),
                OwnField::of_types("total", "n", &["int"]),
            ],
        };
        let no = |field: &str, types: &[&str]| {
            let all: Vec<&str> = ["missing", "null", "undefined"].iter().chain(types).copied().collect();
            doc! { "$not": [{ "$in": [{ "$type": field }, all] }] }
        };
        let (version, total) = (no("$v", &["int", "long"]), no("$n", &["int"]));
        let (filter, options) = own.find_other();
        assert_eq!(filter, doc! { "$expr": { "$or": [&version, &total] } });
        assert_eq!(
            options.projection,
            Some(doc! { "_id": 1, "other0": version, "other1": total })
        );
        let found = mongodb::bson::rawdoc! { "_id": 5, "other0": false, "other1": true };
        let error = own.refused(&found);
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        assert_eq!((error.document_id(), error.field()), (Some(&Bson::Int32(5)), Some("n")));
        assert!(error.to_string().contains("`shop.products`"), "{error}");
        assert!(error.to_string().contains("the setting `total`"), "{error}");
    }
}
