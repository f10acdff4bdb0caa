//! What a parent must look like, for the server to check.

use mongodb::bson::{Document, doc};

use crate::ids::CHILD_ID_TYPES;
use crate::query::child_ids;
use crate::settings::Settings;

pub(crate) fn validator(settings: &Settings) -> Document {
    let (children, child_id) = (settings.children.as_str(), settings.child_id.as_str());
    let array = format!("${children}");
    let ids = child_ids(settings, &array);
    let distinct = doc! { "$eq": [{ "$size": { "$setUnion": [ids, []] } }, { "$size": &array }] };
    doc! {
        "$jsonSchema": {
            "bsonType": "object",
            "required": [children],
            "properties": { children: {
                "bsonType": "array",
                "maxItems": settings.max_bson(),
                "items": {
                    "bsonType": "object",
                    "required": [child_id],
                    "properties": { child_id: { "bsonType": CHILD_ID_TYPES.to_vec() } },
                },
            } },
        },
        "$expr": { "$cond": [{ "$isArray": &array }, distinct, false] },
    }
}
