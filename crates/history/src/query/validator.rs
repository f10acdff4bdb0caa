//! The validators: the form of current documents and of revisions, for the server to enforce.

use crate::prelude::*;

/// The types that the id of a document can have.
const ID_TYPES: [&str; 14] = [
    "double",
    "string",
    "object",
    "binData",
    "objectId",
    "bool",
    "date",
    "int",
    "timestamp",
    "long",
    "decimal",
    "symbol",
    "javascript",
    "dbPointer",
];

/// Returns the validator of the current documents.
pub(crate) fn current(settings: &Settings) -> Document {
    let deleted = doc! { settings.deleted.as_str(): { "$exists": false } };
    doc! { "$and": [form(settings, doc! {}), deleted] }
}

/// Returns the validator of the revisions.
pub(crate) fn revisions(settings: &Settings) -> Document {
    form(settings, doc! { settings.deleted.as_str(): { "bsonType": "bool" } })
}

fn form(settings: &Settings, further: Document) -> Document {
    let [id, revision, time] = [&settings.id, &settings.revision, &settings.time].map(FieldName::as_str);
    let mut properties = doc! {
        id: { "bsonType": ID_TYPES.to_vec() },
        revision: { "bsonType": "number", "minimum": 1, "multipleOf": 1 },
        time: { "bsonType": "date" },
    };
    properties.extend(further);
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "required": [id, revision, time],
        "properties": properties,
    } }
}
