//! The validator of a collection of buckets.

use mongo_patterns_core::Key;
use mongodb::bson::{Document, doc};

use crate::settings::Settings;

/// Returns a validator that refuses documents that are no buckets.
pub(crate) fn validator<K: Key>(settings: &Settings) -> Document {
    let Settings { key, items, count, .. } = settings;
    let (key, items, count) = (key.as_str(), items.as_str(), count.as_str());
    let items_path = format!("${items}");
    let mut properties = doc! {
        "_id": { "bsonType": "string", "pattern": "_-?[0-9]{1,20}(_[0-9]{6})?$" },
        key: { "bsonType": K::BSON_TYPES },
        count: { "bsonType": ["int", "long", "double"], "minimum": 0 },
        items: { "bsonType": "array", "maxItems": settings.page_size_bson() },
    };
    if let Some(figures) = &settings.figures {
        properties.insert(figures.field.as_str(), doc! { "bsonType": "object" });
    }
    let mut required = vec!["_id", key, count, items];
    if let Some(windows) = &settings.windows {
        properties.insert(windows.field.as_str(), doc! { "bsonType": "date" });
        required.push(windows.field.as_str());
    }
    doc! {
        "$jsonSchema": {
            "bsonType": "object",
            "required": required,
            "properties": properties,
        },
        "$expr": { "$eq": [
            format!("${count}"),
            { "$cond": [{ "$isArray": [&items_path] }, { "$size": &items_path }, -1] },
        ] },
    }
}
