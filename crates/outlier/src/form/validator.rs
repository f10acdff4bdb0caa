//! The validators of the two collections.

use mongodb::bson::{Document, doc};

use crate::settings::Settings;

pub(crate) fn main(settings: &Settings) -> Document {
    doc! {
        "$jsonSchema": {
            "bsonType": "object",
            "properties": {
                settings.array.as_str(): { "bsonType": "array", "maxItems": settings.threshold_bson() },
                settings.flag.as_str(): { "bsonType": "bool" },
            },
        },
    }
}

pub(crate) fn overflow(settings: &Settings) -> Document {
    let [parent, extras, seq, count] = settings.overflow_fields();
    let path = format!("${extras}");
    doc! {
        "$jsonSchema": {
            "bsonType": "object",
            "required": [parent, seq, count, extras],
            "properties": {
                seq: { "bsonType": ["int", "long"], "minimum": 0 },
                count: { "bsonType": ["int", "long"], "minimum": 0 },
                extras: { "bsonType": "array", "maxItems": settings.max_extras_bson() },
            },
        },
        "$expr": { "$eq": [
            format!("${count}"),
            { "$cond": [{ "$isArray": [&path] }, { "$size": &path }, -1] },
        ] },
    }
}
