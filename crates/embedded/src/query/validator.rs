//! The validator: the form of a parent, for the server to enforce.

use mongodb::bson::{Document, doc};

use super::child_ids;
use crate::form::child_id::CHILD_ID_TYPES;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_max_items() {
        let validator = validator(&Settings::example());
        let schema = validator.get_document("$jsonSchema").unwrap();
        let children = schema
            .get_document("properties")
            .unwrap()
            .get_document("addresses")
            .unwrap();
        assert_eq!(children.get("maxItems"), Some(&5.into()));
        let child = children.get_document("items").unwrap();
        assert_eq!(child.get_array("required").unwrap(), &["id".into()]);
    }
}
