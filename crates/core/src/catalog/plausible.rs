//! Checks that settings fit stored data that has no entry in the catalog.

use std::fmt::Display;

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use crate::error::{Error, ErrorKind, Result};
use crate::migration::{Step, Steps, number};

/// The number of documents in a sample.
const SAMPLE: i32 = 1000;

/// Checks that at least one document of a sample has each field, or that the collection is empty. Returns whether it has
/// documents. A field can be a path
/// into an array. One round trip, in which the server reads up to 1000 documents, or a collection of less than 20,000.
///
/// # Errors
/// [`SettingsMismatch`](ErrorKind::SettingsMismatch).
#[doc(hidden)]
pub async fn check_fields(
    steps: &mut Steps<'_, '_>,
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
    let found = steps.read(sample).await?.first()?;
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
}
