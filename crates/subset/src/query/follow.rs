//! The commands of a follower.
//!
//! # Design
//!
//! ## Why does the server send only the parents of changed children?
//!
//! A refresh needs nothing else of a change, and children can be large.

use crate::prelude::*;

/// Projects the events of the change stream to the parent of a child before and after its change. If an image is
/// missing, so is its whole document.
pub(crate) fn changes(settings: &Settings) -> [Document; 1] {
    let parent = settings.parent.as_str();
    [doc! { "$project": {
        "operationType": 1,
        format!("fullDocument.{parent}"): 1,
        format!("fullDocumentBeforeChange.{parent}"): 1,
    } }]
}

/// Finds any child. The reply has the time of the last write of the server, or of all shards that have children.
pub(crate) fn any_child(children: &str) -> Document {
    doc! { "find": children, "projection": { "_id": 1 }, "limit": 1, "singleBatch": true }
}

pub(crate) fn options_of(children: &str) -> Document {
    doc! { "name": children }
}

pub(crate) fn enable_pre_images(children: &str) -> Document {
    doc! { "collMod": children, "changeStreamPreAndPostImages": { "enabled": true } }
}

pub(crate) fn record(name: &str) -> Document {
    doc! { "_id": { "kind": "follower", "name": name } }
}

/// Matches the record of a follower with these settings.
pub(crate) fn own_record(name: &str, record_settings: &Document) -> Document {
    doc! { "_id": { "kind": "follower", "name": name }, "settings": record_settings }
}

/// The settings that all followers of one name share.
pub(crate) fn record_settings(settings: &Settings, parents: &str, children: &str) -> Document {
    doc! {
        "pattern": "subset",
        "parents": parents,
        "children": children,
        "parentField": settings.parent.as_str(),
        "subsetField": settings.subset.as_str(),
    }
}

pub(crate) fn store_position(token: Bson) -> Document {
    doc! { "$set": { "token": token }, "$currentDate": { "updated": true } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parents_are_sent() {
        assert_eq!(
            changes(&Settings::example()),
            [doc! { "$project": {
                "operationType": 1,
                "fullDocument.product_id": 1,
                "fullDocumentBeforeChange.product_id": 1,
            } }]
        );
    }
}
