//! The validators: the form of parents and of children, for the server to enforce.

use mongo_patterns_core::{FieldName, document_id};
use mongodb::bson::{Document, doc};

use crate::settings::Settings;

/// Returns the validator of the parents. A parent has none of the fields before its first child.
pub(crate) fn parents(settings: &Settings) -> Document {
    let subsets = settings.subsets.iter().map(|subset| {
        let most = i64::from(subset.size);
        (
            subset.field.to_string(),
            doc! { "bsonType": "array", "maxItems": most }.into(),
        )
    });
    let mut properties: Document = subsets.collect();
    let number = doc! { "bsonType": "number", "minimum": 0, "multipleOf": 1 };
    // A migration that has begun sets it to null.
    let mut version = number.clone();
    version.insert("bsonType", ["number", "null"].to_vec());
    properties.extend(settings.total().map(|total| (total.as_str().to_owned(), number.into())));
    properties.insert(settings.version.as_str(), version);
    doc! { "$jsonSchema": { "bsonType": "object", "properties": properties } }
}

/// Returns the validator of the children.
pub(crate) fn children(settings: &Settings) -> Document {
    let [parent, child_id] = [&settings.parent, &settings.child_id].map(FieldName::as_str);
    let id = doc! { "bsonType": document_id::TYPES.to_vec() };
    let no_array = doc! { "not": { "bsonType": "array" } };
    let scalars = settings.scalar_fields();
    let mut properties: Document = scalars
        .map(|field| (field.to_string(), no_array.clone().into()))
        .collect();
    properties.extend(doc! { parent: id.clone(), child_id: id });
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "required": [parent, child_id],
        "properties": properties,
    } }
}
