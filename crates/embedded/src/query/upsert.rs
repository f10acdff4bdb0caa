//! The command that adds or replaces a child.
//!
//! # Design
//!
//! ## Why a pipeline?
//!
//! Two commands, such as an update of the child and then a push, let another writer add the child in between. A pipeline
//! decides and writes at once. It must find the child exactly where the `$elemMatch` of the filter does, or it would add a
//! child to a full parent.
//!
//! ## Why `$slice`, and not `$map`?
//!
//! It replaces the first child with the id only, as `$` in an update does.

use mongo_patterns_core::DocumentId;
use mongodb::bson::{Document, doc};

use super::{parent, this_child};
use crate::form::child_id::ChildId;
use crate::settings::Settings;

/// Matches the parent if it has this child, or room.
pub(crate) fn parent_with_or_with_room(settings: &Settings, id: &DocumentId, child: &ChildId) -> Document {
    let children = settings.children.as_str();
    let room = doc! { "bsonType": "array", "maxItems": settings.max_bson() - 1 };
    let mut filter = parent(id);
    filter.insert(
        "$or",
        [
            doc! { children: this_child(settings, child) },
            doc! { "$jsonSchema": { "properties": { children: room } } },
        ]
        .to_vec(),
    );
    filter
}

/// Replaces the child with the id of this one, or adds this one at the end.
pub(crate) fn upsert(settings: &Settings, child: Document) -> [Document; 1] {
    let children = settings.children.as_str();
    let id = format!("$$stored.{}", settings.child_id);
    let ids = doc! { "$cond": [{ "$isArray": &id }, &id, [&id]] };
    let is_this = doc! { "$and": [
        { "$eq": [{ "$type": "$$stored" }, "object"] },
        { "$in": [format!("$$child.{}", settings.child_id), ids] },
    ] };
    let each = doc! { "$map": { "input": "$$children", "as": "stored", "in": is_this } };
    // The position of the child, or the one after the last child.
    let position = doc! { "$indexOfArray": [{ "$concatArrays": [each, [true]] }, true] };
    let after = doc! { "$slice": ["$$children", { "$add": ["$$at", 1] }, i32::MAX] };
    let changed = doc! { "$concatArrays": [{ "$slice": ["$$children", "$$at"] }, ["$$child"], after] };
    let stored = doc! { "$ifNull": [format!("${children}"), []] };
    let set = doc! { "$let": {
        "vars": { "child": { "$literal": child }, "children": stored },
        "in": { "$let": { "vars": { "at": position }, "in": changed } },
    } };
    [doc! { "$set": { children: set } }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_replaced_or_added_if_there_is_room() {
        let settings = Settings::example();
        let id = doc! { "$gt": "" };
        let (joe, child) = (
            DocumentId::new("joe").unwrap(),
            ChildId::new(id.clone().into()).unwrap(),
        );
        let room = doc! { "properties": { "addresses": { "bsonType": "array", "maxItems": 4 } } };
        assert_eq!(
            parent_with_or_with_room(&settings, &joe, &child),
            doc! { "_id": { "$eq": "joe" }, "$or": [
                { "addresses": { "$elemMatch": { "id": { "$eq": &id } } } },
                { "$jsonSchema": room },
            ] }
        );
        let hostile = doc! { "id": id, "street": "$name", "$each": [1] };
        let [stage] = upsert(&settings, hostile.clone());
        let is_this = doc! { "$and": [
            { "$eq": [{ "$type": "$$stored" }, "object"] },
            { "$in": ["$$child.id", { "$cond": [{ "$isArray": "$$stored.id" }, "$$stored.id", ["$$stored.id"]] }] },
        ] };
        let each = doc! { "$map": { "input": "$$children", "as": "stored", "in": is_this } };
        let expected = doc! { "$let": {
            "vars": { "child": { "$literal": hostile }, "children": { "$ifNull": ["$addresses", []] } },
            "in": { "$let": {
                "vars": { "at": { "$indexOfArray": [{ "$concatArrays": [each, [true]] }, true] } },
                "in": { "$concatArrays": [
                    { "$slice": ["$$children", "$$at"] },
                    ["$$child"],
                    { "$slice": ["$$children", { "$add": ["$$at", 1] }, i32::MAX] },
                ] },
            } },
        } };
        assert_eq!(stage, doc! { "$set": { "addresses": expected } });
    }
}
