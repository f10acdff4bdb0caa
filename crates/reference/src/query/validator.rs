//! The validators: the form of references and of the versions of sources, for the server to enforce.

use mongodb::bson::{Document, doc};

use crate::settings::{DELETED, ReferenceField, Settings};

/// Returns the validator of the documents of a referring collection. A missing or null reference is valid.
pub(crate) fn documents(settings: &Settings, collection: usize) -> Document {
    let fields = settings
        .references
        .iter()
        .filter(|field| field.collection == collection);
    let properties: Document = fields
        .map(|field| (field.name.to_string(), of_field(settings, field).into()))
        .collect();
    doc! { "$jsonSchema": { "bsonType": "object", "properties": properties } }
}

/// Returns the validator of the sources.
pub(crate) fn sources(settings: &Settings) -> Document {
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "properties": { settings.version.as_str(): version() },
    } }
}

fn of_field(settings: &Settings, field: &ReferenceField) -> Document {
    let mut reference = doc! {
        "bsonType": "object",
        "required": ["_id"],
        "properties": { settings.version.as_str(): version(), DELETED: { "bsonType": "bool" } },
    };
    if field.is_array {
        return doc! { "bsonType": ["array", "null"], "items": reference };
    }
    reference.insert("bsonType", ["object", "null"].to_vec());
    reference
}

fn version() -> Document {
    doc! { "bsonType": "number", "minimum": 0, "multipleOf": 1 }
}
