//! The filters and updates, as pure functions.

use mongo_patterns_core::migration::Walk;
use mongo_patterns_core::size;

use crate::prelude::*;
use crate::steps::Work;

/// The versions as values of the field. Documents without the field, or with null, have version 1.
fn values(versions: impl Iterator<Item = u32>) -> Vec<Bson> {
    let mut values = Vec::new();
    for version in versions {
        if version == 1 {
            values.push(Bson::Null);
        }
        values.push(number(version));
    }
    values
}

fn number(version: u32) -> Bson {
    i32::try_from(version).unwrap_or(i32::MAX).into()
}

/// Sets the version of a document.
pub(crate) fn set_version(settings: &Settings, version: u32) -> Document {
    doc! { "$set": { settings.version.as_str(): number(version) } }
}

/// Matches documents of these versions.
pub(crate) fn of_versions(settings: &Settings, versions: impl Iterator<Item = u32>) -> Document {
    let mut values = values(versions);
    let condition = match (values.len(), values.pop()) {
        (1, Some(version)) => version,
        (_, last) => {
            values.extend(last);
            doc! { "$in": values }.into()
        }
    };
    doc! { settings.version.as_str(): condition }
}

/// Matches documents by `_id` that have a version, too.
pub(crate) fn guarded(mut ids: Document, versions: Document) -> Document {
    ids.extend(versions);
    ids
}

/// Matches documents of the newest version.
pub(crate) fn newest(settings: &Settings) -> Document {
    of_versions(settings, std::iter::once(settings.steps.newest()))
}

/// Matches documents of all versions up to the newest.
pub(crate) fn not_newer(settings: &Settings) -> Document {
    of_versions(settings, 1..=settings.steps.newest())
}

/// Matches documents that a step converts.
pub(crate) fn older(settings: &Settings) -> Document {
    of_versions(settings, settings.steps.older())
}

/// Walks through the documents that a step converts. A chunk has at most this number of documents, and about as many bytes as
/// the largest document.
pub(crate) fn walk(settings: &Settings, most: u64) -> Walk {
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let share = doc! { "$divide": [long(most), long(size::MAX_BYTES as u64)] };
    let of_bytes = doc! { "$toLong": { "$multiply": [{ "$bsonSize": "$$ROOT" }, share] } };
    Walk {
        filter: older(settings),
        weight: doc! { "$max": [1_i64, of_bytes] }.into(),
        most,
    }
}

/// Returns the stages that convert documents of a version by all steps on the server that follow, and the version after
/// these.
pub(crate) fn stages(settings: &Settings, from: u32) -> (Vec<Document>, u32) {
    let (mut all, mut version) = (Vec::new(), from);
    while let Some(Work::Stages(stages)) = settings.steps.from(version) {
        version += 1;
        all.extend(stages.iter().cloned());
        all.push(set_version(settings, version));
    }
    (all, version)
}

/// Replaces documents by these, which are found by their `_id`s. At least one. A stage of an update or an aggregation.
pub(crate) fn replace(documents: &[RawDocumentBuf]) -> Result<Document> {
    let new = match documents {
        [document] => doc! { "$literal": Document::try_from(document.clone()).map_err(mongodb::error::Error::from)? },
        documents => {
            let ids: Vec<Bson> = documents.iter().map(|document| id_of(document)).collect();
            let documents = documents.iter().map(|document| Document::try_from(document.clone()));
            let documents = documents
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(mongodb::error::Error::from)?;
            let position = doc! { "$indexOfArray": [{ "$literal": ids }, "$_id"] };
            doc! { "$arrayElemAt": [{ "$literal": documents }, position] }
        }
    };
    Ok(doc! { "$replaceWith": new })
}

/// Counts the documents of each version. Rows have the value of the field, and null for a missing one.
pub(crate) fn count_versions(settings: &Settings) -> [Document; 2] {
    let version = doc! { "$ifNull": [format!("${}", settings.version), null] };
    [
        doc! { "$group": { "_id": version, "documents": { "$sum": 1_i64 } } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

/// Returns an expression of whether the field is a version, or none.
pub(crate) fn is_version(settings: &Settings) -> Document {
    let version = format!("${}", settings.version);
    doc! { "$or": [
        { "$in": [{ "$type": &version }, ["missing", "null", "undefined"]] },
        { "$and": [
            { "$isNumber": &version },
            { "$gte": [&version, 1] },
            { "$lte": [&version, i32::MAX] },
            { "$eq": [&version, { "$trunc": [{ "$cond": [{ "$isNumber": &version }, &version, 0] }, 0] }] },
        ] },
    ] }
}
