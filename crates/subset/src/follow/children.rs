//! What a follower does with the changes of the children.

use std::collections::HashMap;

use futures::future::BoxFuture;
use futures::stream;
use mongo_patterns_core::follow::{self, Target, Texts};

use super::change::Effect;
use crate::query::follow as commands;
use crate::repair::rebuild::rebuild_all;
use crate::repository::prelude::*;
use crate::write::refresh::refresh_parent;

/// The number of parents that are refreshed concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;

const TEXTS: Texts = Texts {
    pre_images_disabled: Some(
        "pre-images of the children are disabled, so the parent of a deleted or moved child would be unknown: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of their collection",
    ),
    history_lost: "the server no longer has all changes since the follower's last one, so subsets may be stale: run the follower once without disable_repair(), which rebuilds them all; if this happens again, keep a longer oplog and older pre-images",
    dropped: "the collection of the children was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    other_settings: "a follower of this name has other collections, another parent field or another subset field: use another name for this one",
};

/// The children of a subset.
pub(crate) struct Children {
    shared: Shared,
    /// The parents of the changed children, by their bytes. Ids that are equal for the server can differ in their bytes,
    /// which costs one more refresh.
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
        commands::changes(&self.shared.settings).into()
    }

    fn record_settings(&self) -> Document {
        commands::record_settings(
            &self.shared.settings,
            self.shared.parents.name(),
            self.shared.children.name(),
        )
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
            match rebuild_all(&self.shared).await {
                // The first write to a parent that is not migrated yet corrects it.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                rebuilt => rebuilt.map(|_| 0),
            }
        })
    }

    fn add(&mut self, event: &RawDocument) -> Result<follow::Effect> {
        match Effect::of(&self.shared.settings, event) {
            Effect::Stale(parents) => {
                for parent in parents {
                    let bytes = RawDocumentBuf::try_from(&doc! { "": &parent })
                        .map_err(CommandError::from)?
                        .into_bytes();
                    self.parents.insert(bytes, parent);
                }
                Ok(follow::Effect::Added)
            }
            Effect::Unknown => Ok(follow::Effect::Unknown),
            Effect::Dropped => Ok(follow::Effect::Dropped),
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
