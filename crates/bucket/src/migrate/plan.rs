//! What a move would do: its checks are run, and its commands are listed, not sent.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongo_patterns_core::moves::{Place, Record};
use mongo_patterns_core::plan::{aggregation, list_indexes};
use mongo_patterns_core::{PlannedCommand, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf};

use super::run::{Direction, Move, Start};
use super::walk::Range;

/// What a move would do, and every command that it would send; from [`MigrateFromFlat::plan`](crate::action::MigrateFromFlat)
/// and [`MigrateToFlat::plan`](crate::action::MigrateToFlat).
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     flat: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let plan = trades.migrate_from_flat(&flat).plan().await?;
/// for command in plan.commands.iter().filter(|command| command.writes) {
///     println!("{}: {}", command.purpose, command.command);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// How many items there are to move, those that earlier calls have moved included.
    pub items: u64,
    /// How many of them earlier calls have moved.
    pub before: u64,
    /// How many chunks are left to move.
    pub chunks: u64,
    /// Whether the move was finished already. Then a call would only count again.
    pub finished: bool,
    /// The commands, in order, as they go to the database of both collections. A chunk that is found to be there already
    /// is moved by one more, which keeps what is there.
    pub commands: Vec<PlannedCommand>,
}

/// The aggregations that were run, as commands.
#[derive(Default)]
pub(crate) struct Transcript(Mutex<Vec<PlannedCommand>>);

impl Transcript {
    pub(crate) fn read(&self, collection: &Collection<RawDocumentBuf>, stages: &[Document]) {
        let command = aggregation(collection.name(), stages.to_vec());
        self.lock().push(PlannedCommand::read("check", command));
    }

    fn take(&self) -> Vec<PlannedCommand> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PlannedCommand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transcript").field(&self.lock().len()).finish()
    }
}

impl Move<'_> {
    /// Runs the checks of a move, which only read, and lists what it would send after them.
    pub(crate) async fn plan(&self) -> Result<MigrationPlan> {
        let record = Record::of(self.target());
        let start = self.prepare(&record).await?;
        let mut commands = vec![PlannedCommand::read("look for an earlier move", record.find_command())];
        commands.append(&mut self.transcript.take());
        let (total, resumed) = match start {
            Start::Finished(compared) => {
                return Ok(MigrationPlan {
                    items: compared.items,
                    before: compared.items,
                    chunks: 0,
                    finished: true,
                    commands,
                });
            }
            Start::From { total, resumed } => (total, resumed),
        };
        self.plan_indexes(&mut commands).await?;
        let place = match &resumed {
            Some(last) => {
                commands.push(PlannedCommand::write("go on with the move", record.resume_command()));
                last.place.clone()
            }
            None => {
                let begin = record.begin_command(self.fingerprint());
                commands.push(PlannedCommand::write("note that the move begins", begin));
                Place::default()
            }
        };
        let before = place.moved;
        let chunks = self.plan_chunks(&record, place, &mut commands).await?;
        let comparing = aggregation(self.flat.name(), self.comparing(self.moved_keys()));
        commands.push(PlannedCommand::read("count both sides", comparing));
        commands.push(PlannedCommand::write(
            "note that the move is finished",
            record.finish_command(),
        ));
        Ok(MigrationPlan {
            items: total,
            before,
            chunks,
            finished: false,
            commands,
        })
    }

    async fn plan_indexes(&self, commands: &mut Vec<PlannedCommand>) -> Result<()> {
        let Direction::ToBuckets(form) = &self.direction else {
            return Ok(());
        };
        let plan = form.settings.index_plan(self.buckets.name());
        commands.append(&mut plan.ensure_commands(self.buckets).await?);
        Ok(())
    }

    /// Goes through the source as the move would. Returns how many chunks there are.
    async fn plan_chunks(&self, record: &Record, place: Place, commands: &mut Vec<PlannedCommand>) -> Result<u64> {
        let (walk, field) = self.walk().await?;
        let source = self.source().name();
        commands.push(PlannedCommand::read("look for an index to go by", list_indexes(source)));
        let Place { mut last, mut moved } = place;
        let mut chunks = 0;
        loop {
            if let Some(find) = walk.next_command(last.clone()) {
                commands.push(PlannedCommand::read("find the end of a chunk", find));
            }
            let range = walk.next(last).await?;
            let hinted = |mut command: Document| {
                if let Some(index) = walk.index() {
                    command.insert("hint", index);
                }
                command
            };
            let merging = hinted(aggregation(source, self.merging(&range, field, "fail".into())));
            commands.push(PlannedCommand::write("move a chunk", self.with_concern(merging)));
            chunks += 1;
            let Range { through, .. } = &range;
            if let Some(through) = through {
                let counting = hinted(aggregation(source, self.counting(&range, field)));
                commands.push(PlannedCommand::read("count a chunk", counting));
                moved += self.count(&walk, &range, field).await?;
                let advance = record.advance_command(through, moved);
                commands.push(PlannedCommand::write("note how far the move is", advance));
            }
            if range.through.is_none() {
                return Ok(chunks);
            }
            last = range.through;
        }
    }

    fn with_concern(&self, mut command: Document) -> Document {
        let concern = self.target().write_concern().and_then(|concern| {
            let concern = mongodb::bson::serialize_to_bson(concern).ok()?;
            Some(concern).filter(|concern| *concern != Bson::Document(Document::new()))
        });
        if let Some(concern) = concern {
            command.insert("writeConcern", concern);
        }
        command
    }
}
