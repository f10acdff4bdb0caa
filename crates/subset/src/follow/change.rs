//! The change stream of the children.
//!
//! # Design
//!
//! ## What happens if the image of a changed child is missing?
//!
//! The parent of the child is then unknown, so the follower rebuilds all subsets.

use mongo_patterns_core::follow;

use crate::repository::prelude::*;

/// The effect of a change on subsets.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// The subsets of these parents may be stale: the parents of the child before and after the change.
    Stale(Vec<Bson>),
    /// An image of the child is missing, so its parent is unknown.
    Unknown,
    Dropped,
}

impl Effect {
    pub(crate) fn of(settings: &Settings, event: &RawDocument) -> Self {
        let (before, after) = ("fullDocumentBeforeChange", "fullDocument");
        let needed: &[&str] = match event.get_str("operationType") {
            Ok("insert") => &[after],
            Ok("update" | "replace") => &[before, after],
            Ok("delete") => &[before],
            Ok(operation) if follow::Effect::is_drop(operation) => return Self::Dropped,
            _ => &[],
        };
        let mut parents = Vec::with_capacity(2);
        for image in needed {
            let Ok(child) = event.get_document(image) else {
                return Self::Unknown;
            };
            // A value that cannot be an id belongs to no parent.
            let parent = value(child, &settings.parent).and_then(|parent| DocumentId::new(parent).ok());
            let parent = parent.map(DocumentId::into_bson);
            parents.extend(parent.filter(|parent| !parents.contains(parent)));
        }
        Self::Stale(parents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    #[test]
    fn a_change_has_the_parents_before_and_after_it() {
        let settings = Settings::example();
        let of = |event: RawDocumentBuf| Effect::of(&settings, &event);
        let parents = |ids: &[i32]| Effect::Stale(ids.iter().copied().map(Bson::Int32).collect());
        let (one, two) = (rawdoc! { "product_id": 1 }, rawdoc! { "product_id": 2 });
        let insert = rawdoc! { "operationType": "insert", "fullDocument": one.clone() };
        assert_eq!(of(insert), parents(&[1]));
        let delete = rawdoc! { "operationType": "delete", "fullDocumentBeforeChange": one.clone() };
        assert_eq!(of(delete), parents(&[1]));
        for operation in ["update", "replace"] {
            let change = |before: RawDocumentBuf, after: RawDocumentBuf| {
                of(rawdoc! { "operationType": operation, "fullDocumentBeforeChange": before, "fullDocument": after })
            };
            assert_eq!(change(one.clone(), one.clone()), parents(&[1]));
            assert_eq!(change(one.clone(), two.clone()), parents(&[1, 2]));
            assert_eq!(change(rawdoc! {}, two.clone()), parents(&[2]));
            assert_eq!(
                change(rawdoc! { "product_id": [1] }, rawdoc! { "product_id": null }),
                parents(&[])
            );
            assert_eq!(
                of(rawdoc! { "operationType": operation, "fullDocument": one.clone() }),
                Effect::Unknown
            );
        }
        assert_eq!(of(rawdoc! { "operationType": "delete" }), Effect::Unknown);
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(of(rawdoc! { "operationType": operation }), Effect::Dropped);
        }
        assert_eq!(of(rawdoc! { "operationType": "of a later server" }), parents(&[]));
    }
}
