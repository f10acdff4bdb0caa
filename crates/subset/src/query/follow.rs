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
