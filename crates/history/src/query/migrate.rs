//! The commands of the migration of existing collections.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::migration::count_if;
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// Counts the stored documents that cannot be migrated. Current documents with embedded versions have a time, and no number.
pub(crate) fn inspection(settings: &Settings, are_revisions: bool, have_versions: bool) -> Vec<Document> {
    let id = if are_revisions {
        &settings.document_id
    } else {
        &settings.id
    };
    let [id, revision, time, deleted] =
        [id, &settings.revision, &settings.time, &settings.deleted].map(|field| format!("${field}"));
    let type_of = |field: &str, types: Vec<&str>| doc! { "$in": [{ "$type": field }, types] };
    let is_number = doc! { "$and": [
        { "$isNumber": &revision },
        { "$gte": [&revision, 1] },
        { "$eq": [{ "$mod": [&revision, 1] }, 0] },
    ] };
    // Without a number, `$mod` would fail.
    let is_number = doc! { "$cond": [{ "$isNumber": &revision }, is_number, false] };
    let is_missing = |field: &str| doc! { "$eq": [{ "$type": field }, "missing"] };
    let missing = |field: &str| match are_revisions {
        true => doc! { "$literal": false },
        false => is_missing(field),
    };
    let mut group = doc! { "_id": null };
    let no_id = type_of(
        &id,
        vec!["missing", "null", "undefined", "array", "regex", "minKey", "maxKey"],
    );
    count_if(&mut group, "no_id", no_id, 1, "$_id");
    let no_number = doc! { "$not": [{ "$or": [missing(&revision), is_number] }] };
    count_if(&mut group, "no_number", no_number, 1, "$_id");
    let no_time = doc! { "$not": [{ "$or": [missing(&time), type_of(&time, vec!["date"])] }] };
    count_if(&mut group, "no_time", no_time, 1, "$_id");
    if !are_revisions {
        let only = |one: &str, other: &str| doc! { "$and": [{ "$not": [is_missing(one)] }, is_missing(other)] };
        count_if(&mut group, "only_number", only(&revision, &time), 1, "$_id");
        if !have_versions {
            count_if(&mut group, "only_time", only(&time, &revision), 1, "$_id");
        }
    }
    // The deletions of an earlier migration, or of a repository, are revisions.
    let is_reserved = match are_revisions {
        true => doc! { "$not": [type_of(&deleted, vec!["missing", "bool"])] },
        false => doc! { "$ne": [{ "$type": &deleted }, "missing"] },
    };
    count_if(&mut group, "reserved", is_reserved, 1, "$_id");
    if settings.is_by_id() && !are_revisions {
        count_if(
            &mut group,
            "of_revisions",
            has_field(settings.document_id.as_str()),
            1,
            "$_id",
        );
    }
    vec![doc! { "$group": group }]
}

fn has_field(field: &str) -> Document {
    doc! { "$ne": [{ "$type": format!("${field}") }, "missing"] }
}

/// The numbers that several revisions of a document have.
pub(crate) fn duplicates(settings: &Settings) -> Vec<Document> {
    let of = doc! { "id": format!("${}", settings.document_id), "revision": format!("${}", settings.revision) };
    vec![
        doc! { "$group": { "_id": of, "n": { "$sum": 1 }, "ids": { "$push": "$_id" } } },
        doc! { "$match": { "n": { "$gt": 1 } } },
        doc! { "$project": { "_id": 0, "ids": 1 } },
    ]
}

/// Matches revisions by their `_id`.
pub(crate) fn by_ids(ids: &[Bson]) -> Document {
    doc! { "_id": { "$in": ids } }
}

/// Matches current documents without a number.
pub(crate) fn unnumbered(settings: &Settings) -> Document {
    doc! { settings.revision.as_str(): { "$exists": false } }
}

/// Counts the current documents without a number that have revisions.
pub(crate) fn unnumbered_with_revisions(settings: &Settings, revisions: &str) -> Vec<Document> {
    let lookup = doc! {
        "from": revisions,
        "localField": settings.id.as_str(),
        "foreignField": settings.document_id.as_str(),
        "as": "mongo_patterns_revisions",
    };
    vec![
        doc! { "$match": unnumbered(settings) },
        doc! { "$lookup": lookup },
        doc! { "$match": { "mongo_patterns_revisions": { "$ne": [] } } },
        doc! { "$group": { "_id": null, "n": { "$sum": 1 }, "nOne": { "$max": "$_id" } } },
    ]
}

/// Gives the number 1 to current documents without one, and a time to those without one.
pub(crate) fn number(settings: &Settings) -> Vec<Document> {
    vec![doc! { "$set": {
        settings.revision.as_str(): 1,
        settings.time.as_str(): { "$ifNull": [format!("${}", settings.time), "$$NOW"] },
    } }]
}

/// Stores the missing copies of the current documents.
pub(crate) fn record(settings: &Settings, revisions: &str) -> Vec<Document> {
    let id = doc! { settings.document_id.as_str(): "$_id" };
    let with_id = doc! { "$replaceWith": { "$mergeObjects": [id, "$$ROOT"] } };
    let mut stages: Vec<Document> = settings.is_by_id().then_some(with_id).into_iter().collect();
    // The server gives each copy an `_id` of its own.
    stages.extend([doc! { "$unset": "_id" }, merge(settings, revisions)]);
    stages
}

/// Inserts the revisions that are not stored yet.
fn merge(settings: &Settings, revisions: &str) -> Document {
    doc! { "$merge": {
        "into": revisions,
        "on": [settings.document_id.as_str(), settings.revision.as_str()],
        // Changes nothing. With `keepExisting`, the server would sort the fields of a new document by name.
        "whenMatched": [{ "$replaceWith": "$$ROOT" }],
        "whenNotMatched": "insert",
    } }
}

/// Counts the elements of embedded histories that cannot be migrated.
pub(crate) fn embedded_inspection(settings: &Settings, array: &FieldName) -> Vec<Document> {
    let versions = format!("${array}");
    let time = format!("$$this.{}", settings.time);
    let is_document = doc! { "$and": [
        { "$eq": [{ "$type": "$$this" }, "object"] },
        { "$eq": [{ "$type": time }, "date"] },
    ] };
    let are_documents = doc! { "$allElementsTrue": [{ "$map": { "input": &versions, "in": is_document } }] };
    let is_array = doc! { "$cond": [{ "$isArray": &versions }, are_documents, false] };
    let mut group = doc! { "_id": null };
    count_if(&mut group, "no_array", doc! { "$not": [is_array] }, 1, "$_id");
    let numbered = has_field(settings.revision.as_str());
    count_if(&mut group, "numbered", numbered, 1, "$_id");
    if settings.is_by_id() {
        let has_any = doc! { "$ne": [format!("{versions}.{}", settings.document_id), []] };
        count_if(&mut group, "of_revisions", has_any, 1, "$_id");
    }
    vec![doc! { "$match": embedding(array) }, doc! { "$group": group }]
}

/// Matches documents with an embedded history.
pub(crate) fn embedding(array: &FieldName) -> Document {
    doc! { array.as_str(): { "$exists": true } }
}

/// Stores the versions of embedded histories as the first revisions of their documents.
pub(crate) fn unwind(settings: &Settings, array: &FieldName, revisions: &str) -> Vec<Document> {
    let own = doc! {
        settings.document_id.as_str(): format!("${}", settings.id),
        settings.revision.as_str(): { "$toInt": { "$add": ["$mongo_patterns_position", 1] } },
    };
    let version = format!("${array}");
    vec![
        doc! { "$match": embedding(array) },
        doc! { "$unwind": { "path": &version, "includeArrayIndex": "mongo_patterns_position" } },
        doc! { "$replaceWith": { "$mergeObjects": [&version, own] } },
        doc! { "$unset": "_id" },
        merge(settings, revisions),
    ]
}

/// Removes the embedded history, and sets the number after its versions.
pub(crate) fn remove_embedded(settings: &Settings, array: &FieldName) -> Vec<Document> {
    let versions = format!("${array}");
    let after = doc! { "$add": [{ "$size": { "$ifNull": [&versions, []] } }, 1] };
    vec![
        doc! { "$set": {
            settings.revision.as_str(): after,
            settings.time.as_str(): { "$ifNull": [format!("${}", settings.time), "$$NOW"] },
        } },
        doc! { "$unset": array.as_str() },
    ]
}
