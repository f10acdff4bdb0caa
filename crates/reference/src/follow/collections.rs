//! What a follower does with the changes of the sources and of the referring documents.

use std::collections::HashMap;

use futures::TryStreamExt;
use futures::future::{BoxFuture, ready};
use mongo_patterns_core::follow::{Target, Texts};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Result, follow};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::event::{Check, Effect};
use super::{documents, sources};
use crate::form::id::canonical;
use crate::query::follow as commands;
use crate::repair::repairs;
use crate::repository::Shared;
use crate::results::OnReferences;

const TEXTS: Texts = Texts {
    pre_images_disabled: None,
    history_lost: "the server no longer has all changes since the follower's last one, so copies may be outdated: run the follower once without disable_repair(), which compares them all; if this happens again, keep a longer oplog",
    dropped: "a collection of the sources or of the referring documents was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    other_settings: "a follower of this name has other collections, reference fields or another version field: use another name for this one",
};

/// The sources and the referring documents.
pub(crate) struct Collections {
    shared: Shared,
    on_missing: OnReferences,
    changes: Changes,
}

impl Collections {
    pub(crate) fn new(shared: &Shared, on_missing: OnReferences) -> Self {
        Self {
            // An update of a copy that is rolled back after the position was stored would never be repaired.
            shared: shared.with_majority(),
            on_missing,
            changes: Changes::default(),
        }
    }

    /// Returns the position of a referring collection.
    fn position(&self, name: &str) -> Option<usize> {
        self.shared
            .referring
            .iter()
            .position(|referring| referring.name() == name)
    }
}

/// The changed sources and documents of a batch, each once.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    sources: HashMap<String, (Bson, Check)>,
    /// By the position of their collection.
    documents: HashMap<usize, HashMap<String, Bson>>,
}

impl Target for Collections {
    fn watched(&self) -> &Collection<RawDocumentBuf> {
        self.shared.documents()
    }

    fn further(&self) -> Vec<&str> {
        let further = self.shared.referring[1..].iter().chain([&self.shared.sources]);
        further.map(Collection::name).collect()
    }

    fn pipeline(&self) -> Vec<Document> {
        commands::changes()
    }

    fn record_settings(&self) -> Document {
        let names: Vec<&str> = self.shared.referring.iter().map(Collection::name).collect();
        commands::record_settings(&self.shared.settings, self.shared.sources.name(), &names)
    }

    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.shared.ensure().check_repair(true).await?;
            self.shared.check_indexes().await
        })
    }

    /// Repairs all references. The number of copies that this updates is not known.
    fn rebuild(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async {
            self.shared.ensure().check_repair(false).await?;
            let repairs = repairs(&self.shared, Reporter::default(), self.on_missing, false);
            repairs.try_for_each(|_| ready(Ok(()))).await?;
            Ok(0)
        })
    }

    fn add(&mut self, event: &RawDocument) -> Result<follow::Effect> {
        let Shared { settings, sources, .. } = &self.shared;
        match Effect::read(settings, sources.name(), |name| self.position(name), event) {
            Effect::Source(id, check) => {
                let (_, known) = self.changes.sources.entry(canonical(&id)).or_insert((id, check));
                *known = check.max(*known);
            }
            Effect::Document(collection, id) => {
                let documents = self.changes.documents.entry(collection).or_default();
                documents.insert(canonical(&id), id);
            }
            Effect::None => {}
            Effect::Dropped => return Ok(follow::Effect::Dropped),
        }
        Ok(follow::Effect::Added)
    }

    /// Compares the changed documents with their sources, and then the changed sources with their copies.
    fn apply(&mut self) -> BoxFuture<'_, Result<u64>> {
        let changes = std::mem::take(&mut self.changes);
        Box::pin(async {
            let mut copies = 0;
            for (collection, ids) in changes.documents {
                let ids: Vec<Bson> = ids.into_values().collect();
                copies += documents::correct(&self.shared, collection, &ids, self.on_missing).await?;
            }
            let changed: Vec<(Bson, Check)> = changes.sources.into_values().collect();
            copies += sources::correct(&self.shared, changed, self.on_missing).await?;
            Ok(copies)
        })
    }

    fn clear(&mut self) {
        self.changes = Changes::default();
    }
}
