//! The migration from embedded children: checks, then chunk by chunk a copy and a rebuild, then a scan for stale
//! parents.

use mongo_patterns_core::catalog::{Last, Record};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::migration::{Chunk, MigrateOptions, Step, check_filter, number};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, FoundInvalid, InvalidDocuments, Result, RetryPolicy, error};
use mongodb::Collection;
use mongodb::bson::Bson;

use super::check::{REASONS, check_any_valid, check_embedded, check_stored};
use crate::query::from_embedded::{EmbeddedChildren, running_copy};
use crate::query::whole::RebuildScope;
use crate::repair::rebuild::{rebuild, rebuild_stale};
use crate::repository::Shared;
use crate::results::Migrated;

pub(crate) struct FromEmbedded<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) allow_non_empty_target: bool,
    /// About how many children a chunk has.
    pub(crate) chunk: u64,
    pub(crate) options: MigrateOptions,
}

impl FromEmbedded<'_> {
    pub(crate) async fn migrate(&self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let shared = self.shared;
        self.options.check_numbers()?;
        let record = Record::of(&shared.children);
        let ensure = shared.ensure();
        let state = ensure.check_for_migration(conn).await?;
        let (last, total, skipped) = self.check(conn, &record).await?;
        ensure.run_after(state, conn).await?;
        if let Some(list) = self.options.skip_list(&shared.parents, &shared.children) {
            let (invalid, reason) = (self.commands().invalid(), self.commands().reason());
            list.write(conn, invalid, reason).await?;
        }
        self.take_over(conn, &record, last.as_ref()).await?;
        let mut migrated = Migrated {
            resumed: last.is_some(),
            skipped,
            ..Migrated::default()
        };
        let before = last.map_or(0, |last| last.position.migrated);
        reporter.begin(total);
        let mut pace = self.options.pace();
        let walk = self.commands().walk(self.chunk);
        let mut chunks = conn
            .chunks("read the ids of the parents", walk, &shared.parents)
            .await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            self.migrate_chunk(conn, &record, &chunk).await?;
            migrated.parents += chunk.ids.len() as u64;
            migrated.children += chunk.weight;
            let children = before + migrated.children;
            record.advance(conn, &Bson::Null, children).await?;
            conn.count_migrated(chunk.weight);
            reporter.advance(chunk.weight);
            pace.pause(conn, chunk.weight).await;
        }
        let among = self.commands().rebuilt();
        let scope = among.as_ref().map_or(RebuildScope::Stale, RebuildScope::StaleAmong);
        rebuild(shared, conn, "rebuild the stale subsets", scope).await?;
        let rebuilt = rebuild_stale(shared, conn, among).await;
        rebuilt.map_err(embedded_concurrently)?;
        record.finish(conn, before + migrated.children).await?;
        Ok(migrated)
    }

    /// Runs all checks. Returns the unfinished migration to resume, the number of children to migrate, and the parents to
    /// skip.
    async fn check(&self, conn: &mut Conn<'_>, record: &Record) -> Result<(Option<Last>, u64, InvalidDocuments)> {
        let commands = self.commands();
        let (parents, children) = (&self.shared.parents, &self.shared.children);
        self.options.check_selection(conn, parents, children).await?;
        let last = record.read(conn).await?;
        let has_begun = last.as_ref().is_some_and(|last| last.has(&commands.record_settings()));
        let last = last.filter(|last| !last.finished);
        let is_resumed = has_begun && last.is_some();
        if last.is_some() && !is_resumed {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an unfinished migration into the collection of the children has other names, another filter or another list of skipped parents, nothing was migrated: resume it with the same ones first",
            ));
        }
        let (found, skipped) = check_embedded(self.shared, conn, &commands).await?;
        if !has_begun {
            check_any_valid(number(&found, "parents"), &skipped)?;
        }
        if number(&found, "parents") > 0 {
            let allow_non_empty_target = self.allow_non_empty_target || is_resumed;
            check_stored(self.shared, conn, &commands, allow_non_empty_target).await?;
        }
        Ok((last, number(&found, "children"), skipped))
    }

    /// Finds the parents that cannot be migrated, among all or a sample.
    pub(crate) async fn find_invalid(&self, sample: Option<u32>) -> Result<FoundInvalid> {
        let (conn, parents) = (&mut Conn::new(), &self.shared.parents);
        let filter = &self.options.filter;
        if !filter.is_empty() {
            check_filter(conn, parents, filter).await?;
        }
        let inspection = self.commands().inspection_of_invalid(sample);
        let found = conn.read(Step::aggregate("check the parents", parents, inspection));
        let found = found.await?.first()?;
        let invalid = InvalidDocuments::of(&found, &REASONS);
        Ok(FoundInvalid::new(
            number(&found, "checked"),
            invalid,
            self.commands().invalid(),
        ))
    }

    fn commands(&self) -> EmbeddedChildren<'_> {
        EmbeddedChildren {
            settings: &self.shared.settings,
            parents: self.shared.parents.name(),
            children: self.shared.children.name(),
            filter: &self.options.filter,
            skipped: self.options.skipped.as_ref().map(Collection::name),
        }
    }

    /// Takes the migration over from any other call: a copy that begins later finds that the record is not its own.
    /// Waits for a copy that began earlier, which the server may still execute for a client that was killed.
    async fn take_over(&self, conn: &mut Conn<'_>, record: &Record, last: Option<&Last>) -> Result<()> {
        match last {
            Some(_) => record.resume(conn).await?,
            None => record.begin(conn, self.commands().record_settings()).await?,
        }
        let policy = RetryPolicy::default().with_max_attempts(u32::MAX);
        let mut attempts = policy.start();
        loop {
            let purpose = "wait for the end of an earlier copy";
            let running = Step::aggregate_on_admin(purpose, &self.shared.parents, running_copy(&self.comment()));
            let running = conn.read_written(running).await?;
            if running.is_none_or(|running| running.documents.is_empty()) {
                return Ok(());
            }
            if !attempts.wait().await {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "the server still executes the copy of an earlier call, this call has migrated nothing: try again later",
                ));
            }
        }
    }

    /// Returns the comment by which a copy is found among the operations of the server.
    fn comment(&self) -> String {
        format!("mongo-patterns: move into {}", self.shared.children.namespace())
    }

    /// Copies the children of some parents, and rebuilds the subsets of these. Both are idempotent.
    async fn migrate_chunk(&self, conn: &mut Conn<'_>, record: &Record, chunk: &Chunk) -> Result<()> {
        let Shared { parents, children, .. } = self.shared;
        let stages = self.commands().copy(&Bson::Array(chunk.ids.clone()), record.ours());
        let copy = Step::aggregate("copy the children of a chunk", parents, stages)
            .comment(self.comment())
            .acknowledged_by(children);
        conn.write(copy).await.map_err(not_copied)?;
        let purpose = "rebuild the subsets of a chunk";
        rebuild(self.shared, conn, purpose, RebuildScope::StaleOf(&chunk.ids)).await
    }
}

fn not_copied(error: CommandError) -> Error {
    if error::duplicate_key(&error).is_some() {
        return Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index, on `_id` or of the application, refused an embedded child, and its parent keeps it: repair the children, then migrate again",
            error,
        );
    }
    error.into()
}

/// Explains why a parent still embeds children that are not stored, although all were copied.
fn embedded_concurrently(error: Error) -> Error {
    if error.kind() != ErrorKind::NotMigrated {
        return error;
    }
    let message = "another program embedded children in a parent concurrently, and the parent keeps them: stop these programs, then migrate again";
    let mismatch = Error::new(ErrorKind::CountMismatch, message);
    match (error.document_id(), error.field()) {
        (Some(id), Some(field)) => mismatch.at(id.clone(), field),
        _ => mismatch,
    }
}
