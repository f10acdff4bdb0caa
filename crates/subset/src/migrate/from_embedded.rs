//! The migration from embedded children: checks, then chunk by chunk a copy and a rebuild, then a scan for stale parents.

use mongo_patterns_core::catalog::Record;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::migration::{Chunk, MigrateOptions, MigrationProgress, Step, check_filter, number, selecting};
use mongo_patterns_core::{Error, ErrorKind, FoundInvalid, InvalidDocuments, Result, RetryPolicy, error};
use mongodb::bson::Bson;

use super::check::{REASONS, check_any_valid, check_embedded, check_stored};
use crate::query::from_embedded::{EmbeddedChildren, running_copy};
use crate::query::whole::RebuildScope;
use crate::repair::rebuild::{rebuild, rebuild_stale};
use crate::repository::Shared;
use crate::results::Migrated;
use crate::settings::Settings;

pub(crate) struct FromEmbedded<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) allow_non_empty_target: bool,
    pub(crate) options: MigrateOptions,
}

impl FromEmbedded<'_> {
    pub(crate) async fn migrate(&self, conn: &mut Conn<'_>, mut progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (shared, commands) = (self.shared, self.commands());
        let Shared { parents, children, .. } = shared;
        check_version(&shared.settings)?;
        let ensure = shared.ensure();
        let state = ensure.check_for_migration(conn).await?;
        self.options.check_selection(conn, parents, children).await?;
        let record = Record::read(children, commands.record_settings(), conn).await?;
        record.check_settings("an unfinished migration into the collection of the children has other names, another filter or another list of skipped parents, nothing was migrated: resume it with the same ones first")?;
        let (total, skipped) = self.check(conn, &record).await?;
        ensure.run_after(state, conn).await?;
        if let Some(list) = self.options.skip_list(parents, children) {
            let invalid = selecting(commands.invalid()).into_iter().collect();
            list.write(conn, invalid, commands.reason()).await?;
        }
        record.begin(conn).await?;
        self.wait_for_earlier_copy(conn).await?;
        let mut migrated = Migrated {
            resumed: record.is_resumed(),
            skipped,
            ..Migrated::default()
        };
        let before = record.position().migrated;
        progress.reporter.begin(total);
        let walk = commands.walk(progress.chunk);
        let mut chunks = conn.chunks("read the ids of the parents", walk, parents).await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            self.migrate_chunk(conn, &record, &chunk).await?;
            migrated.documents += chunk.documents();
            migrated.children += chunk.weight;
            record.advance(conn, &Bson::Null, before + migrated.children).await?;
            progress.advance(conn, chunk.weight).await;
        }
        let among = commands.rebuilt();
        let scope = RebuildScope::StaleAmong(&among);
        rebuild(shared, conn, "rebuild the stale subsets", scope, true).await?;
        let rebuilt = rebuild_stale(shared, conn, Some(among), true).await;
        rebuilt.map_err(embedded_concurrently)?;
        record.finish(conn, before + migrated.children).await?;
        Ok(migrated)
    }

    /// Checks the parents and the stored children. Returns the number of children to migrate, and the parents to skip.
    async fn check(&self, conn: &mut Conn<'_>, record: &Record) -> Result<(u64, InvalidDocuments)> {
        let commands = self.commands();
        let (inspected, skipped) = check_embedded(self.shared, conn, &commands).await?;
        let parents = number(&inspected, "parents");
        if !record.has_begun() {
            check_any_valid(parents, &skipped)?;
        }
        if parents > 0 {
            let allow_non_empty_target = self.allow_non_empty_target || record.is_resumed();
            check_stored(self.shared, conn, &commands, allow_non_empty_target).await?;
        }
        Ok((number(&inspected, "children"), skipped))
    }

    /// Finds the parents that cannot be migrated, among all or a sample.
    pub(crate) async fn find_invalid(&self, sample: Option<u32>) -> Result<FoundInvalid> {
        let (conn, parents) = (&mut Conn::new(), &self.shared.parents);
        check_filter(conn, parents, &self.options.filter).await?;
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
            options: &self.options,
        }
    }

    /// Waits for a copy of an earlier call, which the server may still execute for a killed client.
    async fn wait_for_earlier_copy(&self, conn: &mut Conn<'_>) -> Result<()> {
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

    /// Marks some parents, copies their children, and rebuilds their subsets. All three are idempotent.
    async fn migrate_chunk(&self, conn: &mut Conn<'_>, record: &Record, chunk: &Chunk) -> Result<()> {
        let Shared { parents, children, .. } = self.shared;
        let (filter, mark) = self.commands().mark(&chunk.ids);
        // A mark that is rolled back would let a program change what is copied by then.
        let marked = with_majority(parents);
        conn.write(Step::update_many("mark the parents of a chunk", &marked, filter, mark))
            .await?;
        let stages = self.commands().copy(&Bson::Array(chunk.ids.clone()), record.ours());
        let copy = Step::aggregate("copy the children of a chunk", parents, stages)
            .comment(self.comment())
            .acknowledged_by(children);
        conn.write(copy).await.map_err(not_copied)?;
        let purpose = "rebuild the subsets of a chunk";
        rebuild(self.shared, conn, purpose, RebuildScope::StaleOf(&chunk.ids), true).await
    }
}

/// Refuses a version field by which repositories of embedded children do not know the parents that are migrated.
fn check_version(settings: &Settings) -> Result<()> {
    let expected = settings.first().field.version();
    if settings.version == expected {
        return Ok(());
    }
    let message = format!(
        "the version field is `{}`, but repositories of embedded children only know `{expected}`, and would write to migrated parents, nothing was migrated: remove version_field(..)",
        settings.version
    );
    Err(Error::new(ErrorKind::InvalidArgument, message))
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
    let message = "a program embedded children in a parent that is not migrated, such as one that it inserted during the migration, and the parent keeps them: stop the programs that embed children, then migrate again";
    let mismatch = Error::new(ErrorKind::CountMismatch, message);
    match (error.document_id(), error.field()) {
        (Some(id), Some(field)) => mismatch.of_document(id.clone(), field),
        _ => mismatch,
    }
}
