//! The way from embedded children to documents of their own: check, copy and write chunk by chunk, look again.

use futures::TryStreamExt;
use mongo_patterns_core::chunks::{Chunk, Walk};
use mongo_patterns_core::moves::{Last, Record, number};
use mongo_patterns_core::plan::aggregation;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, PlannedCommand, Result, RetryPolicy};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error as DriverError;

use super::Migrated;
use super::check::{any_child, check_children, check_embedded};
use super::plan::{self, MigrationPlan, with_concern};
use crate::query::from_embedded::FromEmbedded;
use crate::query::{self, Rebuilt};
use crate::repair::rebuild::{aggregate, not_copied, rebuild, rebuild_stale};
use crate::repository::Shared;

/// A move of all embedded children into their collection.
pub(crate) struct Moving<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) allow_non_empty_target: bool,
    pub(crate) chunk_children: u64,
}

/// What a move begins with.
struct Start {
    /// The unfinished move that it goes on with.
    last: Option<Last>,
    /// How many parents have embedded children that are to be moved, and how many children these are.
    parents: u64,
    total: u64,
    /// Whether some of these have an `_id`.
    with_ids: bool,
    /// Whether the collection of the children has any.
    is_non_empty: bool,
}

impl Moving<'_> {
    pub(crate) async fn run(self, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let Shared {
            parents,
            children,
            settings,
            ..
        } = self.shared;
        let record = Record::of(children);
        let Start { last, total, .. } = self.prepare(&record).await?;
        let plan = settings.index_plan(children.name());
        plan.ensure_with(children, parents, None).await?;
        self.take_over(&record, last.as_ref()).await?;
        let mut moved = Migrated {
            resumed: last.is_some(),
            ..Migrated::default()
        };
        let before = last.map_or(0, |last| last.place.moved);
        reporter.begin(total);
        let mut chunks = self.walk().begin(&self.shared.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            self.move_chunk(&record, &chunk).await?;
            moved.parents += chunk.ids.len() as u64;
            moved.children += chunk.weight;
            record.advance(&Bson::Null, before + moved.children).await?;
            reporter.advance(chunk.weight);
        }
        rebuild(self.shared, Rebuilt::Wrong).await?;
        rebuild_stale(self.shared).await.map_err(still_embedded)?;
        record.finish().await?;
        Ok(moved)
    }

    /// Runs the checks, which only read, and lists what a move would send.
    pub(crate) async fn plan(&self) -> Result<MigrationPlan> {
        let Shared { parents, children, .. } = self.shared;
        let (parents, children) = (parents.name(), children.name());
        let form = self.form();
        let record = Record::of(&self.shared.children);
        let start = self.prepare(&record).await?;
        let mut plan = MigrationPlan {
            parents: start.parents,
            children: start.total,
            ..MigrationPlan::default()
        };
        plan.read("look for an earlier move", record.find_command());
        plan.read("check the parents", aggregation(parents, form.inspection()));
        if start.with_ids {
            let ids = aggregation(parents, form.unusable_ids());
            plan.read("check the ids of the embedded children", ids);
        }
        if start.parents > 0 {
            let look = aggregation(children, any_child());
            plan.read("look whether there are children already", look);
        }
        if start.is_non_empty {
            let conflicts = aggregation(parents, form.conflicts());
            plan.read("compare what is embedded with the children", conflicts);
        }
        plan.indexes(self.shared).await?;
        match &start.last {
            Some(_) => plan.write("go on with the move", record.resume_command()),
            None => plan.write("note that the move begins", record.begin_command(self.fingerprint())),
        }
        let under_way = doc! { "aggregate": 1, "pipeline": self.under_way().to_vec(), "cursor": {} };
        let under_way = PlannedCommand::read("wait for the end of an earlier copy", under_way);
        plan.commands.push(under_way.on_admin());
        let walk = self.walk();
        plan.read("go through the parents", walk.find_command(parents));
        let mut moved = start.last.as_ref().map_or(0, |last| last.place.moved);
        let mut chunks = walk.begin(&self.shared.parents).await?;
        while let Some(chunk) = chunks.next().await? {
            let mut copy = aggregation(parents, form.copy(&chunk.ids.clone().into(), record.ours()));
            copy.insert("comment", self.comment());
            plan.write("copy the children of a chunk", with_concern(self.shared, copy));
            let which = Rebuilt::WrongOf(&chunk.ids);
            plan.write(
                "leave the first ones in their parents",
                plan::rebuild(self.shared, which),
            );
            moved += chunk.weight;
            let advance = record.advance_command(&Bson::Null, moved);
            plan.write("note how far the move is", advance);
        }
        let rest = plan::rebuild(self.shared, Rebuilt::Wrong);
        plan.write("write the subsets that are still wrong", rest);
        plan.look_again(self.shared);
        plan.write("note that the move is finished", record.finish_command());
        Ok(plan)
    }

    /// All checks.
    async fn prepare(&self, record: &Record) -> Result<Start> {
        if self.chunk_children == 0 {
            let message = "a chunk must be of at least 1 child, nothing was moved";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let form = self.form();
        let last = record.read().await?.filter(|last| !last.finished);
        let resumed = last.as_ref().is_some_and(|last| last.settings == self.fingerprint());
        let found = check_embedded(self.shared, &form).await?;
        let mut start = Start {
            last,
            parents: number(&found, "parents"),
            total: number(&found, "children"),
            with_ids: number(&found, "with_ids") > 0,
            is_non_empty: false,
        };
        if start.parents > 0 {
            start.is_non_empty = check_children(self.shared, &form, self.allow_non_empty_target || resumed).await?;
        }
        match (&start.last, resumed) {
            (Some(_), false) => Err(other_settings()),
            _ => Ok(start),
        }
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

    /// Through the parents that are to be moved, by the number of their children.
    fn walk(&self) -> Walk {
        let settings = &self.shared.settings;
        let children = doc! { "$size": query::embedded_ids(settings, &format!("${}", settings.subset)) };
        Walk {
            filter: query::unwritten(settings, None),
            weight: children.into(),
            most: self.chunk_children,
        }
    }

    /// From here on no other call copies anything: those that begin find the record to be another's, and it waits for
    /// the one that began before, with which the server may go on for a client that was killed.
    async fn take_over(&self, record: &Record, last: Option<&Last>) -> Result<()> {
        match last {
            Some(_) => record.resume().await?,
            None => record.begin(self.fingerprint()).await?,
        }
        let admin = self.shared.parents.client().database("admin");
        let under_way = self.under_way();
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

    /// Finds a copy that is under way.
    fn under_way(&self) -> [Document; 3] {
        [
            doc! { "$currentOp": {} },
            doc! { "$match": { "command.comment": self.comment() } },
            doc! { "$limit": 1 },
        ]
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
    if error.kind() != ErrorKind::NotMigrated {
        return error;
    }
    let message = "a parent got embedded children while they were moved, and keeps them: stop the programs that embed them, then move again";
    let mismatch = Error::new(ErrorKind::CountMismatch, message);
    match (error.document_id(), error.field()) {
        (Some(id), Some(field)) => mismatch.at(id.clone(), field),
        _ => mismatch,
    }
}
