//! The steps of a migration between a flat collection and buckets: check, begin or resume, chunk by chunk, compare.

use mongo_patterns_core::catalog::{Position, Record, check_no_migration_runs, migration_comment};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{self, CommandError};
use mongo_patterns_core::index::State;
use mongo_patterns_core::migration::{MigrationProgress, Step, and, number};
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
        record: Box<Record>,
        /// The entry of the buckets in the catalog.
        entry: State,
    },
}

impl Migration<'_> {
    /// Migrates, or lists the commands.
    pub(crate) async fn migrate(&self, conn: &mut Conn<'_>, mut progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (total, skipped, record, entry) = match self.prepare(conn).await? {
            Start::From {
                total,
                skipped,
                record,
                entry,
            } => (total, skipped, *record, entry),
            Start::Finished(compared, skipped) => return Ok(compared.migrated(true, skipped)),
        };
        if let Direction::ToBuckets(_) = self.direction {
            self.ensure.run_after(entry, conn).await?;
        }
        self.list_skipped(conn).await?;
        record.begin(conn).await?;
        progress.reporter.resume(record.position().migrated, total);
        let chunks = self.chunks(conn, progress.chunk).await?;
        let transferred = self.transfer(conn, (&chunks, &record), total, progress).await;
        if let Err(error) = &transferred
            && error.kind() == ErrorKind::Unsupported
            && !record.is_resumed()
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
            // The server has created a target that was dropped again, without the indexes.
            let is_new = matches!(self.direction, Direction::ToBuckets(_))
                && self.ensure.check_indexes(&mut Conn::new()).await.is_err();
            return Err(if is_new { dropped() } else { not_equal(compared, total) });
        }
        record.finish(conn, total).await?;
        // A plan has compared nothing.
        let compared = compared.unwrap_or(Compared {
            items: total,
            ..Compared::default()
        });
        Ok(compared.migrated(record.is_resumed(), skipped))
    }

    /// Runs all checks. Nothing is written before they have passed.
    async fn prepare(&self, conn: &mut Conn<'_>) -> Result<Start> {
        self.check_settings()?;
        self.check_key_type(conn).await?;
        self.options.check_selection(conn, self.source, self.target).await?;
        let mut record = Record::read(self.target, self.fingerprint(), conn).await?;
        if let Some((ours, theirs)) = record.other_settings() {
            if !self.target_is_empty(conn).await? {
                return Err(self.other_migration(ours, theirs));
            }
            // The server may still execute its first chunk.
            check_no_migration_runs(self.target).await?;
        }
        let entry = self.ensure.check(conn).await?;
        let mut finished = None;
        if record.has_begun() && !record.is_resumed() {
            let compared = self.compare(conn, self.migrated_keys()).await?;
            if compared.keys > 0 && compared.unequal == 0 {
                return Ok(Start::Finished(compared, self.count_skipped(conn).await?));
            }
            finished = Some(compared);
        }
        let (total, skipped) = self.check_source(conn).await?;
        if self.target_is_empty(conn).await? {
            record.start_again();
        } else if !record.is_resumed() {
            self.check_target(finished, conn).await?;
        }
        Ok(Start::From {
            total,
            skipped,
            record: Box::new(record),
            entry,
        })
    }

    async fn chunks(&self, conn: &mut Conn<'_>, items: u64) -> Result<Chunks<'_>> {
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
        total: u64,
        mut progress: MigrationProgress<'_>,
    ) -> Result<()> {
        let Position { mut last, mut migrated } = record.position();
        loop {
            let range = chunks.next(conn, last).await?;
            self.transfer_range(conn, chunks, &range).await?;
            let Some(through) = range.through.clone() else {
                progress.count(conn, total.saturating_sub(migrated));
                return Ok(());
            };
            let items = self.count(conn, chunks, &range).await?;
            migrated += items;
            record.advance(conn, &through, migrated).await?;
            last = range.through;
            progress.advance(conn, items).await;
        }
    }

    /// Migrates a range. Idempotent, also while an earlier run is still running on the server: existing documents are kept.
    async fn transfer_range(&self, conn: &mut Conn<'_>, chunks: &Chunks<'_>, range: &Range) -> Result<()> {
        let filter = and(range.filter(chunks.field), self.selected());
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
        let stages = count(and(range.filter(chunks.field), self.selected()), items);
        let step = Step::aggregate("count a chunk", self.source, stages).hint(chunks.hint());
        Ok(number(&conn.read(step).await.map_err(failed)?.first()?, "n"))
    }
}

fn dropped() -> Error {
    Error::new(
        ErrorKind::CountMismatch,
        "the target was dropped or renamed during the migration, because its indexes are gone and items are missing: migrate again, which starts from the beginning",
    )
}

fn not_equal(compared: &Compared, total: u64) -> Error {
    let Compared {
        keys, items, unequal, ..
    } = compared;
    Error::new(
        ErrorKind::CountMismatch,
        format!(
            "{unequal} of {keys} keys have different numbers of items in the two collections, and of {total} items at the start {items} are in buckets: stop all writers of both, store what only the target has in the source, empty the target, then migrate again"
        ),
    )
}
