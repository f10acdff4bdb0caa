//! The migration of documents with the ids of their sources alone to references with copies: checks, then chunk by chunk the
//! copies and a second read of their sources.
//!
//! # Design
//!
//! ## Why is there a second read after each chunk?
//!
//! A source can be updated between the read of the server and its write: the update of the copies does not find the
//! document, and the copy is outdated for good. So the migration reads the sources of a chunk again, as an insert does. It
//! updates older copies, and removes the mark of a deletion, which then finds the new references.
//!
//! ## Why do the data show what is migrated, and not a position?
//!
//! A migrated document has another form, so an interrupted migration finds the others by their form. A position would miss
//! documents that another program writes in the old form behind it. The record in the catalog shows the progress, keeps two
//! calls apart, and shows that an earlier call did not finish: it may have died before a second read, so the next one sweeps
//! all copies.
//!
//! ## Why are there several passes?
//!
//! A chunk leaves a document unchanged whose references were changed concurrently. The next pass migrates it.

mod problems;
mod settle;

use mongo_patterns_core::catalog::Record;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, Remedy};
use mongo_patterns_core::migration::{LOOKUP_TOO_LARGE, MigrateOptions, MigrationProgress, Step, explained, number};
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, InvalidDocuments, Result};
use mongodb::bson::{Bson, Document};

use self::problems::{When, refuse_invalid};
use self::settle::settle;
use crate::query::from_references as commands;
use crate::repository::Shared;
use crate::results::Migrated;
use crate::settings::bare::BareField;
use crate::settings::key_index;
use crate::write::sweep::sweep_all;

/// How many times a migration walks through the documents that are left, before it reports that others write them.
const PASSES: u32 = 10;

/// The migration of all documents to references with copies.
pub(crate) struct Migration<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) fields: Vec<BareField<'a>>,
    pub(crate) options: MigrateOptions,
}

impl Migration<'_> {
    pub(crate) async fn migrate_all(
        &self,
        conn: &mut Conn<'_>,
        mut progress: MigrationProgress<'_>,
    ) -> Result<Migrated> {
        let (shared, options) = (self.shared, &self.options);
        let ensure = shared.ensure();
        ensure.check_deployment(conn).await?;
        let state = ensure.check(conn).await?;
        options
            .check_selection(conn, shared.documents(), shared.documents())
            .await?;
        let record = Record::read(shared.documents(), self.commands().record_settings(), conn).await?;
        record.check_settings("an unfinished migration of the collection has other fields or another filter, nothing was migrated: resume it with the same ones first")?;
        if !record.has_begun() {
            self.check_names(conn).await?;
        }
        // Each check of a document looks for its sources by the index of their key.
        let ensured = match shared.settings.key {
            Some(_) => Some(ensure.run_after(state, conn).await?),
            None => None,
        };
        if let (true, Some(key), Some(ensured)) = (conn.is_plan(), &shared.settings.key, &ensured) {
            check_key_index(&key_index(key), &ensured.created)?;
        }
        let check = Step::aggregate("check the documents", shared.documents(), self.commands().inspection());
        let counts = conn.read(check).await.map_err(failed)?.first()?;
        self.refuse(&counts, When::Before)?;
        let documents = number(&counts, "documents");
        let skipped = self.skipped(&counts);
        if !record.has_begun() {
            skipped.check_any_valid(documents, || {
                format!("all {} documents to migrate are invalid, nothing was migrated: check the collections and the names of the fields", skipped.total())
            })?;
        }
        let ensured = match ensured {
            Some(ensured) => ensured,
            None => ensure.run_after(state, conn).await?,
        };
        let mut migrated = Migrated {
            documents,
            skipped,
            created_indexes: ensured.created,
            resumed: record.is_resumed(),
        };
        if let Some(list) = options.skip_list(shared.documents(), shared.documents()) {
            let invalid = self.commands().invalid();
            list.write(conn, invalid, "$r.reason".into()).await?;
        }
        // Another call changes nothing.
        if documents == 0 && !record.is_resumed() {
            return Ok(migrated);
        }
        record.begin(conn).await?;
        progress.reporter.begin(documents);
        let before = record.position().migrated;
        let written = self.migrate(conn, (&record, before), progress).await?;
        if !conn.is_plan() {
            migrated.documents = written;
            if migrated.resumed {
                sweep_all(shared).await?;
            }
        }
        record.finish(conn, before + migrated.documents).await?;
        Ok(migrated)
    }

    /// Refuses a field with ids that no document has. A wrong name would leave all ids where they are.
    async fn check_names(&self, conn: &mut Conn<'_>) -> Result<()> {
        for one in self.fields.iter().filter(|one| !one.is_in_place()) {
            if self.has_any(conn, commands::with_either(one)).await? {
                continue;
            }
            if self.has_any(conn, Document::new()).await? {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "no document has the field `{}` with the ids, or the reference field `{}`, nothing was migrated: check the names, or omit from_field(..)",
                        one.bare, one.field.name
                    ),
                ));
            }
        }
        Ok(())
    }

    async fn has_any(&self, conn: &mut Conn<'_>, filter: Document) -> Result<bool> {
        let any = commands::any_document(filter);
        let find = Step::aggregate("look for documents with the fields", self.shared.documents(), any);
        Ok(number(&conn.read(find).await?.first()?, "n") > 0)
    }

    fn skipped(&self, counts: &Document) -> InvalidDocuments {
        match self.options.skipped {
            Some(_) => InvalidDocuments::of(counts, &commands::REASONS),
            None => InvalidDocuments::default(),
        }
    }

    fn commands(&self) -> commands::FromReferences<'_> {
        commands::FromReferences {
            settings: &self.shared.settings,
            fields: &self.fields,
            documents: self.shared.documents().name(),
            sources: self.shared.sources.name(),
            options: &self.options,
        }
    }

    fn refuse(&self, counts: &Document, when: When) -> Result<()> {
        match self.options.skipped {
            Some(_) => Ok(()),
            None => refuse_invalid(counts, when),
        }
    }

    /// Migrates documents until none is left. Returns how many.
    async fn migrate(
        &self,
        conn: &mut Conn<'_>,
        (record, before): (&Record, u64),
        mut progress: MigrationProgress<'_>,
    ) -> Result<u64> {
        let documents = self.shared.documents();
        // The record has the number of documents that a plan knows too.
        let (mut migrated, mut walked) = (0, before);
        for _ in 0..PASSES {
            let walk = self.commands().walk(progress.chunk);
            let mut chunks = conn.chunks("walk through the documents", walk, documents).await?;
            while let Some(chunk) = chunks.next_chunk().await? {
                let written = self.migrate_chunk(conn, &chunk.ids).await?;
                migrated += written;
                walked += chunk.weight;
                record.advance(conn, &Bson::Null, walked).await?;
                progress.advance(conn, written).await;
            }
            let inspection = self.commands().inspection();
            let count = Step::aggregate("look for documents that are left", documents, inspection);
            let Some(counts) = conn.read_written(count).await.map_err(failed)? else {
                return Ok(migrated);
            };
            let counts = counts.first()?;
            self.refuse(&counts, When::After)?;
            if number(&counts, "documents") == 0 {
                return Ok(migrated);
            }
        }
        Err(Error::new(
            ErrorKind::CountMismatch,
            "another program writes references in the old form again and again, the other documents are migrated: stop it, then migrate again",
        ))
    }

    /// Migrates the documents of a chunk. Returns how many.
    async fn migrate_chunk(&self, conn: &mut Conn<'_>, chunk: &[Bson]) -> Result<u64> {
        let (shared, commands) = (self.shared, self.commands());
        let documents = shared.documents();
        let copy = Step::aggregate("copy the sources of a chunk", documents, commands.transfer(chunk));
        conn.write(copy.acknowledged_by(documents)).await.map_err(failed)?;
        let purpose = "read the sources of the chunk again";
        let read = Step::aggregate(purpose, documents, commands.second_read(chunk));
        let Some(rows) = conn.read_written(read).await.map_err(failed)? else {
            return Ok(0);
        };
        let changed = rows.documents.iter().map(|row| id_of(row));
        let changed: Vec<Bson> = changed.filter(|id| *id != Bson::Null).collect();
        if !changed.is_empty() {
            settle(shared, chunk, &changed).await?;
        }
        Ok(rows.decoded()?.iter().map(|row| number(row, "n")).sum())
    }
}

/// Refuses a plan without the index of the source key: the server would read all sources for each document.
fn check_key_index(index: &str, missing: &[String]) -> Result<()> {
    if !missing.iter().any(|name| name == index) {
        return Ok(());
    }
    let message = format!(
        "the sources do not have the index `{index}` of the source key, which a run creates and a plan needs, nothing was read: call ensure_indexes(), then plan again"
    );
    Err(Error::new(ErrorKind::IndexMissing, message).with_remedy(Remedy::EnsureIndexes))
}

/// Converts the error of a command.
fn failed(error: CommandError) -> Error {
    let too_large =
        "the sources of a document exceed MongoDB's limit of 16 MiB: copy fewer fields, or refer to fewer sources";
    explained(
        error,
        (LOOKUP_TOO_LARGE, ErrorKind::TooLarge, too_large),
        "a unique index of the application refused a document: drop it, or correct the document, then migrate again",
    )
}
