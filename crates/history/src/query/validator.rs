//! The validator: the form of current documents and of revisions, for the server to enforce.

use crate::prelude::*;

/// Returns the validator of both collections. The transaction of a deletion marks the current document before it copies
/// and deletes it.
pub(crate) fn validator(settings: &Settings) -> Document {
    let [id, revision, time] = [&settings.id, &settings.revision, &settings.time].map(FieldName::as_str);
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "required": [id, revision, time],
        "properties": {
            id: { "bsonType": document_id::TYPES.to_vec() },
            revision: { "bsonType": "number", "minimum": 1, "multipleOf": 1 },
            time: { "bsonType": "date" },
            settings.deleted.as_str(): { "bsonType": "bool" },
        },
    } }
}
