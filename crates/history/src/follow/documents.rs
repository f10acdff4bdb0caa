//! What a follower does with the changes of the current documents.

use std::collections::HashMap;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::follow::{Target, Texts};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{DocumentId, Error, Result, document_id, follow};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};

use super::event::{Effect, Foreign};
use super::record::record;
use super::states::Recorded;
use crate::query::follow as commands;
use crate::repair::finding::Unrepaired;
use crate::repair::repairs;
use crate::repository::Shared;

/// The number of documents that are recorded concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;
/// The number of documents whose recorded revisions the follower remembers. Of others, states between two writes may not be
/// stored.
const REMEMBERED: usize = 10_000;

const TEXTS: Texts = Texts {
    pre_images_disabled: Some(
        "pre-images of the current documents are disabled, so the writes of other programs cannot be told from those of a repository: call enable_pre_images() on this action, or set changeStreamPreAndPostImages of their collection",
    ),
    history_lost: "the server no longer has all changes since the follower's last one, so documents may differ from their newest revisions: run the follower once without disable_repair(), which compares them all; if this happens again, keep a longer oplog and older pre-images",
    dropped: "the collection of the current documents was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    other_settings: "a follower of this name has other collections or another id, revision or time field: use another name for this one",
};

/// The current documents.
pub(crate) struct Documents {
    shared: Shared,
    /// By the texts of the ids.
    recorded: HashMap<String, Recorded>,
    /// The collected writes of other programs.
    writes: Vec<(Bson, Foreign)>,
}

impl Documents {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            // A revision that is rolled back after the position was stored would be missing.
            shared: shared.with_majority(),
            recorded: HashMap::new(),
            writes: Vec::new(),
        }
    }

    /// Repairs all documents, also deleted documents, and documents without a number or with an old one.
    async fn repair(&self) -> Result<u64> {
        self.shared.ensure().check_repair(false).await?;
        self.shared.check_indexes().await?;
        let mut repairs = repairs(&self.shared, Reporter::default(), false);
        let mut recorded = 0;
        while let Some(repaired) = repairs.try_next().await? {
            let Some(left) = repaired.unrepaired else {
                recorded += 1;
                continue;
            };
            for finding in repaired.findings.into_iter().filter(|_| left != Unrepaired::Unknown) {
                if let Ok(id) = DocumentId::new(finding.document_id) {
                    recorded += record(&self.shared, id.value(), &[], None).await?.revisions;
                }
            }
        }
        Ok(recorded)
    }

    /// Stores the collected writes as revisions, in order for each document.
    async fn record(&mut self) -> Result<u64> {
        let mut documents: HashMap<String, (Bson, Vec<Foreign>)> = HashMap::new();
        for (id, write) in std::mem::take(&mut self.writes) {
            let (_, writes) = documents
                .entry(document_id::canonical(&id))
                .or_insert_with(|| (id, Vec::new()));
            writes.push(write);
        }
        let (shared, recorded) = (&self.shared, &self.recorded);
        let records = stream::iter(documents).map(|(key, (id, writes))| async move {
            let done = record(shared, &id, &writes, recorded.get(&key)).await?;
            Ok::<_, Error>((key, done))
        });
        let records: Vec<_> = records.buffer_unordered(CONCURRENCY).try_collect().await?;
        let mut revisions = 0;
        for (key, done) in records {
            revisions += done.revisions;
            match done.recorded {
                Some(recorded) => drop(self.recorded.insert(key, recorded)),
                None => drop(self.recorded.remove(&key)),
            }
        }
        if self.recorded.len() > REMEMBERED {
            self.recorded.clear();
        }
        Ok(revisions)
    }
}

impl Target for Documents {
    fn watched(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.current
    }

    fn pipeline(&self) -> Vec<Document> {
        commands::changes()
    }

    fn record_settings(&self) -> Document {
        let Shared { current, revisions, .. } = &self.shared;
        commands::record_settings(&self.shared.settings, current.name(), revisions.name())
    }

    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.shared.ensure().check_repair(true).await })
    }

    fn rebuild(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.repair())
    }

    fn add(&mut self, event: &RawDocument) -> Result<follow::Effect> {
        match Effect::read(&self.shared.settings, &self.shared.known_others(), event)? {
            Effect::Foreign(writes) => {
                self.writes.extend(writes);
                Ok(follow::Effect::Added)
            }
            Effect::Unknown => Ok(follow::Effect::Unknown),
            Effect::Dropped => Ok(follow::Effect::Dropped),
        }
    }

    fn apply(&mut self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.record())
    }

    fn clear(&mut self) {
        self.writes.clear();
    }
}
