//! What a follower does with the changes of the children.

use std::collections::HashMap;

use futures::stream;
use mongo_patterns_core::follow::{self, Target, Texts};

use super::change::Effect;
use crate::query::follow as commands;
use crate::repair::check_settings::check_settings;
use crate::repair::rebuild::rebuild_all;
use crate::repository::prelude::*;
use crate::repository::refreshes::Refreshed;
use crate::write::refresh::refresh_parent;

/// The number of parents that are refreshed concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;

const TEXTS: Texts = Texts {
    pre_images_disabled: Some(
        "pre-images of the children are disabled, so the parent of a deleted or moved child would be unknown: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of their collection",
    ),
    history_lost: "the server no longer has all changes since the follower's last one, so subsets may be stale: run the follower once without disable_rebuild(), which rebuilds them all; if this happens again, keep a longer oplog and older pre-images",
    dropped: "the collection of the children was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    other_settings: "a follower of this name has other collections, another parent field or another subset field: use another name for this one",
};

/// The children of a subset.
pub(crate) struct Children(Shared);

/// The parents of the changed children, by their bytes. Ids that are equal for the server can differ in their bytes,
/// which costs one more refresh.
pub(crate) type Parents = HashMap<Vec<u8>, Bson>;

impl Children {
    pub(crate) fn new(shared: &Shared) -> Self {
        // A refresh that is rolled back after its position was stored would never be repaired.
        Self(shared.with_majority())
    }
}

impl Target for Children {
    type Batch = Parents;

    fn watched(&self) -> &Collection<RawDocumentBuf> {
        &self.0.children
    }

    fn pipeline(&self) -> Vec<Document> {
        commands::changes(&self.0.settings).into()
    }

    fn record_settings(&self) -> Document {
        commands::record_settings(&self.0.settings, self.0.parents.name(), self.0.children.name())
    }

    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    async fn check(&self) -> Result<()> {
        check_settings(&self.0).await?;
        self.0.check_indexes().await
    }

    async fn rebuild(&self) -> Result<u64> {
        match rebuild_all(&self.0).await {
            // The first write to a parent that is not migrated yet corrects it.
            Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
            rebuilt => rebuilt.map(|_| 0),
        }
    }

    fn add(&self, batch: &mut Parents, event: &RawDocument) -> Result<follow::Effect> {
        match Effect::of(&self.0.settings, event) {
            Effect::Stale(parents) => {
                for parent in parents {
                    let bytes = bson::serialize_to_vec(&doc! { "": &parent }).map_err(mongodb::error::Error::from)?;
                    batch.insert(bytes, parent);
                }
                Ok(follow::Effect::Added)
            }
            Effect::Unknown => Ok(follow::Effect::Unknown),
            Effect::Dropped => Ok(follow::Effect::Dropped),
        }
    }

    /// Refreshes the parents of a batch.
    async fn apply(&mut self, batch: Parents) -> Result<u64> {
        let shared = &self.0;
        let refreshes = stream::iter(batch.into_values()).map(|parent| async move {
            match refresh_parent(shared, &parent).await {
                // For example during the migration of its children. The first write to the parent reads them.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                refreshed => Ok::<_, Error>(u64::from(matches!(refreshed?, Refreshed::Done { .. }))),
            }
        });
        let refreshes = refreshes.buffer_unordered(CONCURRENCY);
        refreshes.try_fold(0, |sum, one| async move { Ok(sum + one) }).await
    }
}
