//! The way from embedded children to documents of their own: check, copy and write chunk by chunk, look again.

use futures::TryStreamExt;
use mongo_patterns_core::moves::{Last, Record};
use mongo_patterns_core::{Error, ErrorKind, Result, RetryPolicy};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error as DriverError;

use super::check::{check_children, check_embedded};
use super::chunks::{Chunk, Chunks};
use super::from_embedded::FromEmbedded;
use super::run::{aggregate, not_copied, number, rebuild, rebuild_stale};
use super::{MoveProgress, Moved, OnProgress};
use crate::query::{self, Rebuilt};
use crate::repository::Shared;

/// A move of all embedded children into their collection.
pub(crate) struct Moving<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) into_non_empty: bool,
    pub(crate) chunk_children: u64,
}

impl Moving<'_> {
    pub(crate) async fn run(self, mut on_progress: Option<OnProgress<'_>>) -> Result<Moved> {
        if self.chunk_children == 0 {
            let message = "a chunk must be of at least 1 child, nothing was moved";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let Shared { children, settings, .. } = self.shared;
        let form = self.form();
        let record = Record::of(children);
        let last = record.read().await?.filter(|last| !last.finished);
        let resumed = last.as_ref().is_some_and(|last| last.settings == self.fingerprint());
        let found = check_embedded(self.shared, &form).await?;
        let (parents, total) = (number(&found, "parents"), number(&found, "children"));
        if parents > 0 {
            check_children(self.shared, &form, self.into_non_empty || resumed).await?;
        }
        if let (Some(_), false) = (&last, resumed) {
            return Err(other_settings());
        }
        settings.index_plan(children.name()).ensure(children, None).await?;
        self.take_over(&record, last.as_ref()).await?;
        let mut moved = Moved {
            resumed,
            ..Moved::default()
        };
        let before = last.map_or(0, |last| last.place.moved);
        let mut chunks = self.chunks().await?;
        while let Some(chunk) = chunks.next().await? {
            self.move_chunk(&record, &chunk).await?;
            moved.parents += chunk.ids.len() as u64;
            moved.children += chunk.weight;
            record.advance(&Bson::Null, before + moved.children).await?;
            if let Some(call) = &mut on_progress {
                let done = moved.children;
                let total = total.max(done);
                call(MoveProgress { done, total });
            }
        }
        rebuild(self.shared, Rebuilt::Wrong).await?;
        rebuild_stale(self.shared).await.map_err(still_embedded)?;
        record.finish().await?;
        Ok(moved)
    }

    fn form(&self) -> FromEmbedded<'_> {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = self.shared;
        FromEmbedded {
            settings,
            parents: parents.name(),
            children: children.name(),
        }
    }

    /// What must be the same in all calls of one move.
    fn fingerprint(&self) -> Document {
        let Shared { parents, settings, .. } = self.shared;
        doc! {
            "pattern": "subset",
            "into": "children",
            "source": parents.name(),
            "subset": settings.subset.as_str(),
            "version": settings.version.as_str(),
            "parent": settings.parent.as_str(),
            "childId": settings.child_id.as_str(),
        }
    }

    async fn chunks(&self) -> Result<Chunks> {
        let settings = &self.shared.settings;
        let children = doc! { "$size": query::embedded_ids(settings, &format!("${}", settings.subset)) };
        let unwritten = query::unwritten(settings, None);
        Chunks::new(self.shared, unwritten, children.into(), self.chunk_children).await
    }

    /// From here on no other call copies anything: those that begin find the record to be another's, and it waits for
    /// the one that began before, with which the server may go on for a client that was killed.
    async fn take_over(&self, record: &Record, last: Option<&Last>) -> Result<()> {
        match last {
            Some(_) => record.resume().await?,
            None => record.begin(self.fingerprint()).await?,
        }
        let admin = self.shared.parents.client().database("admin");
        let under_way = [
            doc! { "$currentOp": {} },
            doc! { "$match": { "command.comment": self.comment() } },
            doc! { "$limit": 1 },
        ];
        let policy = RetryPolicy::default().with_max_attempts(u32::MAX);
        let mut attempts = policy.start();
        while admin.aggregate(under_way.clone()).await?.try_next().await?.is_some() {
            let waited = attempts.next(DriverError::custom("a copy is under way")).await;
            waited.map_err(|_| {
                Error::new(
                    ErrorKind::Contention,
                    "the server still goes on with the copy of an earlier call, nothing was moved by this one: call it again later",
                )
            })?;
        }
        Ok(())
    }

    /// By which a copy is found among the operations of the server.
    fn comment(&self) -> String {
        format!("mongo-patterns: move into {}", self.shared.children.namespace())
    }

    /// Their children are copied, and then they keep the first ones. Both may run again.
    async fn move_chunk(&self, record: &Record, chunk: &Chunk) -> Result<()> {
        let Shared { parents, children, .. } = self.shared;
        let ids = Bson::Array(chunk.ids.clone());
        let concern = children.write_concern().cloned().unwrap_or_default();
        let copy = aggregate(parents, self.form().copy(&ids, record.ours()));
        let copy = copy.comment(self.comment()).write_concern(concern);
        copy.await.map_err(not_copied)?;
        rebuild(self.shared, Rebuilt::WrongOf(&chunk.ids)).await
    }
}

fn other_settings() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "an unfinished move into the collection of the children was begun with other names, nothing was moved: go on with those first",
    )
}

/// Copies of all children were made, and yet a parent has some that have none.
fn still_embedded(error: Error) -> Error {
    if error.kind() != ErrorKind::NotMoved {
        return error;
    }
    let message = "a parent got embedded children while they were moved, and keeps them: stop the programs that embed them, then move again";
    let mismatch = Error::new(ErrorKind::CountMismatch, message);
    match (error.document_id(), error.field()) {
        (Some(id), Some(field)) => mismatch.at(id.clone(), field),
        _ => mismatch,
    }
}
