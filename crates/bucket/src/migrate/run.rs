//! The steps of a migration between a flat collection and buckets: check, begin or resume, chunk by chunk, compare.

use mongo_patterns_core::catalog::{Last, Position, Record, check_no_migration_runs, migration_comment};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{self, CommandError};
use mongo_patterns_core::index::State;
use mongo_patterns_core::migration::{Step, both, number};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, InvalidDocuments, Result};
use mongodb::bson::{Bson, Document, doc};

use crate::migrate::migration::{Chunks, Compared, Direction, Migration, failed};
use crate::query::chunk::{Range, count, merge};
use crate::results::Migrated;

/// The start of a migration that passed its checks.
enum Start {
    /// It has finished already.
    Finished(Compared, InvalidDocuments),
    From {
        /// The number of items.
        total: u64,
        skipped: InvalidDocuments,
        /// The unfinished migration of an earlier call.
        resumed: Option<Last>,
        /// The entry of the buckets in the catalog.
        entry: State,
    },
}

impl Migration<'_> {
    /// Migrates, or lists the commands.
    pub(crate) async fn migrate(&self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let record = Record::of(self.target);
        let (total, skipped, resumed, entry) = match self.prepare(conn, &record).await? {
            Start::From {
                total,
                skipped,
                resumed,
                entry,
            } => (total, skipped, resumed, entry),
            Start::Finished(compared, skipped) => return Ok(compared.migrated(true, skipped)),
        };
        if let Direction::ToBuckets(_) = self.direction {
            self.ensure.run_after(entry, conn).await?;
        }
        self.list_skipped(conn).await?;
        let position = match &resumed {
            Some(last) => {
                record.resume(conn).await?;
                last.position.clone()
            }
            None => {
                record.begin(conn, self.fingerprint()).await?;
                Position::default()
            }
        };
        reporter.resume(position.migrated, total);
        let chunks = self.chunks(conn).await?;
        let transferred = self
            .transfer(conn, (&chunks, &record), position, total, &mut reporter)
            .await;
        if let Err(error) = &transferred
            && error.kind() == ErrorKind::Unsupported
            && resumed.is_none()
            && !conn.is_plan()
        {
            // The server refused the first chunk, so there is nothing to resume.
            record.forget().await?;
        }
        transferred?;

        let compared = self.compare_migrated(conn).await?;
        if let Some(compared) = &compared
            && (compared.unequal > 0 || compared.items != total)
        {
            record.rewind().await?;
            return Err(not_equal(compared, total));
        }
        record.finish(conn, total).await?;
        // A plan has compared nothing.
        let compared = compared.unwrap_or(Compared {
            items: total,
            ..Compared::default()
        });
        Ok(compared.migrated(resumed.is_some(), skipped))
    }

    /// Runs all checks. Nothing is written before they have passed.
    async fn prepare(&self, conn: &mut Conn<'_>, record: &Record) -> Result<Start> {
        self.check_settings()?;
        self.check_key_type(conn).await?;
        self.options.check_selection(conn, self.source, self.target).await?;
        let last = record.read(conn).await?;
        let same = last.as_ref().is_some_and(|last| last.has(&self.fingerprint()));
        let other = last.as_ref().filter(|last| !last.finished && !same);
        if let Some(other) = other {
            if !self.target_is_empty(conn).await? {
                return Err(self.other_migration(other));
            }
            // The server may still execute its first chunk.
            check_no_migration_runs(self.target).await?;
        }
        let entry = self.ensure.check(conn).await?;
        if same && last.as_ref().is_some_and(|last| last.finished) {
            let compared = self.compare(conn, self.migrated_keys()).await?;
            if compared.keys > 0 && compared.unequal == 0 {
                return Ok(Start::Finished(compared, self.count_skipped(conn).await?));
            }
        }
        let (total, skipped) = self.check_source(conn).await?;
        let empty = self.target_is_empty(conn).await?;
        let resumed = last.filter(|last| !last.finished && !empty);
        if resumed.is_none() && !empty {
            self.check_target(conn).await?;
        }
        Ok(Start::From {
            total,
            skipped,
            resumed,
            entry,
        })
    }

    async fn chunks(&self, conn: &mut Conn<'_>) -> Result<Chunks<'_>> {
        let items = self.chunk;
        let (field, documents) = match &self.direction {
            Direction::ToBuckets(form) => (form.key.as_str(), items),
            Direction::ToFlat(form) => ("_id", (items / u64::from(form.settings.page_size)).max(1)),
        };
        Chunks::new(conn, self.source, field, (self.selected(), documents)).await
    }

    /// Migrates all chunks after a position.
    async fn transfer(
        &self,
        conn: &mut Conn<'_>,
        (chunks, record): (&Chunks<'_>, &Record),
        position: Position,
        total: u64,
        reporter: &mut Reporter<'_>,
    ) -> Result<()> {
        let Position { mut last, mut migrated } = position;
        let mut pace = self.options.pace();
        loop {
            let range = chunks.next(conn, last).await?;
            self.transfer_range(conn, chunks, &range).await?;
            let Some(through) = range.through.clone() else {
                let items = total.saturating_sub(migrated);
                conn.count_migrated(items);
                reporter.advance(items);
                return Ok(());
            };
            let items = self.count(conn, chunks, &range).await?;
            migrated += items;
            record.advance(conn, &through, migrated).await?;
            conn.count_migrated(items);
            reporter.advance(items);
            last = range.through;
            pace.pause(conn, items).await;
        }
    }

    /// Migrates a range. Idempotent, also while an earlier run of it is still running on the server: existing documents
    /// are kept.
    async fn transfer_range(&self, conn: &mut Conn<'_>, chunks: &Chunks<'_>, range: &Range) -> Result<()> {
        let filter = both(range.filter(chunks.field), self.selected());
        // Plain inserts take a third of the time, and suffice for a range that runs for the first time.
        let stages = merge(filter.clone(), self.stages(), self.target.name(), "fail".into());
        let inserted = self.merge(conn, chunks, stages).await;
        let Err(error) = inserted else { return Ok(()) };
        if error::duplicate_key(&error).is_none() {
            return Err(failed(error));
        }
        let keep = Bson::Array(Vec::new());
        let stages = merge(filter, self.stages(), self.target.name(), keep);
        self.merge(conn, chunks, stages).await.map_err(failed)
    }

    async fn merge(
        &self,
        conn: &mut Conn<'_>,
        chunks: &Chunks<'_>,
        stages: Vec<Document>,
    ) -> std::result::Result<(), CommandError> {
        let step = Step::aggregate("migrate a chunk", self.source, stages);
        let step = step
            .acknowledged_by(self.target)
            .comment(migration_comment(self.target));
        conn.write(step.hint(chunks.hint())).await?;
        Ok(())
    }

    async fn count(&self, conn: &mut Conn<'_>, chunks: &Chunks<'_>, range: &Range) -> Result<u64> {
        let items = match &self.direction {
            Direction::ToBuckets(_) => Bson::Int32(1),
            Direction::ToFlat(form) => doc! { "$size": format!("${}", form.settings.items) }.into(),
        };
        let stages = count(both(range.filter(chunks.field), self.selected()), items);
        let step = Step::aggregate("count a chunk", self.source, stages).hint(chunks.hint());
        Ok(number(&conn.read(step).await.map_err(failed)?.first()?, "n"))
    }
}

fn not_equal(compared: &Compared, total: u64) -> Error {
    let Compared {
        keys, items, unequal, ..
    } = compared;
    Error::new(
        ErrorKind::CountMismatch,
        format!(
            "{unequal} of {keys} keys have different numbers of items in the two collections, and of {total} items at the start {items} are in buckets: stop all writers of both, and migrate again; if the source was written to, empty the target first"
        ),
    )
}
