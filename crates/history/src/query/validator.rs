//! The validators: the form of current documents and of revisions, for the server to enforce.

use mongo_patterns_core::{FieldName, document_id};
use mongodb::bson::{Document, doc};

use crate::settings::Settings;

/// Returns the validator of the current documents. A deletion marks the current document before it copies it.
pub(crate) fn of_current(settings: &Settings) -> Document {
    let mut schema = schema(settings, &settings.id);
    if settings.is_by_id() {
        schema.insert("not", doc! { "required": [settings.document_id.as_str()] });
    }
    doc! { "$jsonSchema": schema }
}

/// Returns the validator of the revisions.
pub(crate) fn of_revisions(settings: &Settings) -> Document {
    doc! { "$jsonSchema": schema(settings, &settings.document_id) }
}

fn schema(settings: &Settings, id: &FieldName) -> Document {
    let [id, revision, time] = [id, &settings.revision, &settings.time].map(FieldName::as_str);
    doc! {
        "bsonType": "object",
        "required": [id, revision, time],
        "properties": {
            id: { "bsonType": document_id::TYPES.to_vec() },
            revision: { "bsonType": "number", "minimum": 1, "multipleOf": 1 },
            time: { "bsonType": "date" },
            settings.deleted.as_str(): { "bsonType": "bool" },
        },
    }
}
