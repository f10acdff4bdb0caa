//! The follower of a change stream, which refreshes subsets after writes of other programs.
//!
//! # Design
//!
//! ## Why does a follower write a subset that is already correct?
//!
//! Only the incremented version stops a slower refresh of another writer, which may have read older children.
//!
//! ## Why does the server send only the parents of changed children?
//!
//! A refresh needs nothing else of a change, and children can be large.
//!
//! ## What happens if the image of a changed child is missing?
//!
//! The parent of the child is then unknown, so the follower refreshes all subsets.

use std::collections::HashMap;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::follow::{Effect, Target, Texts};
use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, document_id};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};

use crate::repair::rebuild::refresh_all;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::refresh_parent;

/// The number of parents that are refreshed concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;

const TEXTS: Texts = Texts {
    pre_images_disabled: Some(
        "pre-images of the children are disabled, so the parent of a deleted or moved child would be unknown: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of their collection",
    ),
    history_lost: "the server no longer has all changes since the follower's last one, so subsets may be stale: run the follower once without disable_repair(), which refreshes them all; if this happens again, keep a longer oplog and older pre-images",
    dropped: "the collection of the children was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    other_settings: "a follower of this name has other collections, another parent field or another subset field: use another name for this one",
};

/// The children of a subset.
pub(crate) struct Children {
    shared: Shared,
    /// The parents of the changed children, by their bytes. Ids that are equal for the server can differ in their bytes.
    parents: HashMap<Vec<u8>, Bson>,
}

impl Children {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            // A refresh that is rolled back after its position was stored would never be repaired.
            shared: shared.with_majority(),
            parents: HashMap::new(),
        }
    }
}

impl Target for Children {
    fn watched(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.children
    }

    fn pipeline(&self) -> Vec<Document> {
        changes(&self.shared.settings).into()
    }

    fn record_settings(&self) -> Document {
        doc! {
            "pattern": "subset",
            "parents": self.shared.parents.name(),
            "children": self.shared.children.name(),
            "parentField": self.shared.settings.parent.as_str(),
            "subsetField": self.shared.settings.first().field.as_str(),
        }
    }

    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.shared.ensure().check_settings().await?;
            self.shared.check_indexes().await
        })
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async {
            match refresh_all(&self.shared).await {
                // The first write to a parent that is not migrated yet corrects it.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                rebuilt => rebuilt.map(|_| 0),
            }
        })
    }

    fn add(&mut self, event: &RawDocument) -> Result<Effect> {
        match stale_parents(&self.shared.settings, event) {
            Ok(parents) => {
                let bytes = |parent: Bson| (document_id::bytes(&parent), parent);
                self.parents.extend(parents.into_iter().map(bytes));
                Ok(Effect::Added)
            }
            Err(effect) => Ok(effect),
        }
    }

    /// Refreshes the parents of a batch.
    fn apply(&mut self) -> BoxFuture<'_, Result<u64>> {
        let parents = std::mem::take(&mut self.parents);
        let shared = &self.shared;
        let refreshes = stream::iter(parents.into_values()).map(move |parent| async move {
            match refresh_parent(shared, &parent).await {
                // For example during the migration of its children. The first write to the parent reads them.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                refreshed => Ok::<_, Error>(u64::from(refreshed?.is_some())),
            }
        });
        let refreshes = refreshes.buffer_unordered(CONCURRENCY);
        Box::pin(refreshes.try_fold(0, |sum, one| async move { Ok(sum + one) }))
    }

    fn clear(&mut self) {
        self.parents.clear();
    }
}

/// Projects the events of the change stream to the parent of a child before and after its change.
fn changes(settings: &Settings) -> [Document; 1] {
    let parent = settings.parent.as_str();
    [doc! { "$project": {
        "operationType": 1,
        format!("fullDocument.{parent}"): 1,
        format!("fullDocumentBeforeChange.{parent}"): 1,
    } }]
}

/// Returns the parents whose subsets may be stale after a change, or the effect of a change whose parents are unknown.
pub(crate) fn stale_parents(settings: &Settings, event: &RawDocument) -> std::result::Result<Vec<Bson>, Effect> {
    let (before, after) = ("fullDocumentBeforeChange", "fullDocument");
    let needed: &[&str] = match event.get_str("operationType") {
        Ok("insert") => &[after],
        Ok("update" | "replace") => &[before, after],
        Ok("delete") => &[before],
        Ok(operation) if Effect::is_drop(operation) => return Err(Effect::Dropped),
        _ => &[],
    };
    let mut parents = Vec::with_capacity(2);
    for image in needed {
        let child = event.get_document(image).map_err(|_| Effect::Unknown)?;
        // A value that cannot be an id belongs to no parent.
        let parent = value(child, &settings.parent).and_then(|parent| DocumentId::new(parent).ok());
        let parent = parent.map(DocumentId::into_bson);
        parents.extend(parent.filter(|parent| !parents.contains(parent)));
    }
    Ok(parents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    #[test]
    fn a_change_has_the_parents_before_and_after_it() {
        let settings = Settings::example();
        let of = |event: RawDocumentBuf| stale_parents(&settings, &event);
        let parents = |ids: &[i32]| Ok(ids.iter().copied().map(Bson::Int32).collect());
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
                Err(Effect::Unknown)
            );
        }
        assert_eq!(of(rawdoc! { "operationType": "delete" }), Err(Effect::Unknown));
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(of(rawdoc! { "operationType": operation }), Err(Effect::Dropped));
        }
        assert_eq!(of(rawdoc! { "operationType": "of a later server" }), parents(&[]));
    }

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
