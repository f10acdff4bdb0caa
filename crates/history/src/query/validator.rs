//! The validator: the form of current documents and of revisions, for the server to enforce.

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

/// Returns the validator of both collections. The transaction of a deletion marks the current document before it copies
/// and deletes it.
pub(crate) fn validator(settings: &Settings) -> Document {
    let [id, revision, time] = [&settings.id, &settings.revision, &settings.time].map(FieldName::as_str);
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "required": [id, revision, time],
        "properties": {
            id: { "bsonType": ID_TYPES.to_vec() },
            revision: { "bsonType": "number", "minimum": 1, "multipleOf": 1 },
            time: { "bsonType": "date" },
            settings.deleted.as_str(): { "bsonType": "bool" },
        },
    } }
}
