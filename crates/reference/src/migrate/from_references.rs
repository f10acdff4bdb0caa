//! The migration from references: checks, then chunk by chunk the copies and a second read of their sources.

use mongo_patterns_core::InvalidDocuments;
use mongo_patterns_core::catalog::Record;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{MigrateOptions, number};
use mongo_patterns_core::stored::id_of;

use super::settle::settle;
use super::{End, Reason, Rewrite, earlier, failed, inspect, migrate, refuse};
use crate::query::from_references as commands;
use crate::repository::prelude::*;
use crate::results::Migrated;
use crate::settings::bare::BareField;
use crate::write::sweep::all;

/// The migration of all documents to references with copies.
pub(crate) struct FromReferences<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) fields: Vec<BareField<'a>>,
    pub(crate) options: MigrateOptions,
    /// About how many documents one command migrates.
    pub(crate) chunk: u64,
}

impl FromReferences<'_> {
    pub(crate) async fn execute(&self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let (shared, options) = (self.shared, &self.options);
        options.check_numbers()?;
        let ensure = shared.ensure();
        ensure.check_deployment(conn).await?;
        let state = ensure.check(conn).await?;
        options
            .check_selection(conn, shared.documents(), shared.documents())
            .await?;
        let record = Record::of(shared.documents());
        let settings = self.commands().record_settings();
        let (last, has_begun) = earlier(conn, &record, &settings).await?;
        if !has_begun {
            self.check_names(conn).await?;
        }
        // Each check of a document looks for its sources by the index of their key.
        let ensured = match shared.settings.key {
            Some(_) => Some(ensure.run_after(state, conn).await?),
            None => None,
        };
        let found = inspect(shared, self, conn).await?;
        self.refuse(&found, End::Refused)?;
        let documents = number(&found, "documents");
        let skipped = self.skipped(&found);
        check_any_valid(documents, &skipped, has_begun)?;
        let ensured = match ensured {
            Some(ensured) => ensured,
            None => ensure.run_after(state, conn).await?,
        };
        let mut migrated = Migrated {
            documents,
            skipped,
            created_indexes: ensured.created,
            resumed: last.is_some(),
        };
        if let Some(list) = options.skip_list(shared.documents(), shared.documents()) {
            let invalid = self.commands().invalid();
            list.write_selected(conn, invalid, "$r.reason".into()).await?;
        }
        // Another call changes nothing.
        if documents == 0 && last.is_none() {
            return Ok(migrated);
        }
        match last {
            Some(_) => record.resume(conn).await?,
            None => record.begin(conn, settings).await?,
        }
        reporter.begin(documents);
        let before = last.map_or(0, |last| last.position.migrated);
        let pace = (self.chunk, options.pace());
        let written = migrate(shared, self, conn, pace, (&record, before), reporter).await?;
        if !conn.is_plan() {
            migrated.documents = written;
            if migrated.resumed {
                all(shared, Reporter::default()).await?;
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

    fn skipped(&self, found: &Document) -> InvalidDocuments {
        match self.options.skipped {
            Some(_) => InvalidDocuments::of(found, &commands::REASONS),
            None => InvalidDocuments::default(),
        }
    }

    fn commands(&self) -> commands::FromReferences<'_> {
        commands::FromReferences {
            settings: &self.shared.settings,
            fields: &self.fields,
            documents: self.shared.documents().name(),
            sources: self.shared.sources.name(),
            database: self.shared.sources.namespace().db,
            filter: &self.options.filter,
            skipped: self.options.skipped.as_ref().map(Collection::name),
        }
    }
}

impl Rewrite for FromReferences<'_> {
    fn walk(&self, most: u64) -> Walk {
        self.commands().walk(most)
    }

    fn inspection(&self) -> Vec<Document> {
        self.commands().inspection()
    }

    fn refuse(&self, found: &Document, end: End) -> Result<()> {
        if self.options.skipped.is_some() {
            return Ok(());
        }
        let problems = [
            (&VALUES[..], Remedy::SkipInvalid),
            (&FORMS, Remedy::FromForm),
            (&SOURCES, Remedy::SkipInvalid),
        ];
        problems
            .into_iter()
            .try_for_each(|(reasons, remedy)| refuse(found, reasons, end).map_err(|error| error.with_remedy(remedy)))
    }

    async fn migrate(&self, conn: &mut Conn<'_>, chunk: &[Bson]) -> Result<u64> {
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

/// The problems of documents, in the order in which they are checked, with the kinds and the texts of their errors.
const VALUES: [Reason; 7] = [
    (
        "no_array",
        ErrorKind::Corrupt,
        "documents have a value other than an array in the field of an array of references",
    ),
    (
        "not_an_id",
        ErrorKind::InvalidItemId,
        "documents have a reference that is null, or of another type that an `_id` cannot have",
    ),
    (
        "twice",
        ErrorKind::InvalidItemId,
        "documents have an array that refers to one source twice: store one element for a source, for example with a quantity",
    ),
    (
        "other_value",
        ErrorKind::TargetNotEmpty,
        "documents have another value than references in the reference field, although the ids are in another field",
    ),
    (
        "other_reference",
        ErrorKind::TargetNotEmpty,
        "documents refer to other sources in the reference field than in the field of the ids: remove either",
    ),
    (
        "reserved_field",
        ErrorKind::InvalidItemId,
        "documents have a reference of the form of from_form(..), or by the source key, with a field that the pattern writes itself, which would be lost: rename its `_id`, `deleted` or version, or use another name with version_field(..)",
    ),
    (
        "other_collection",
        ErrorKind::InvalidItemId,
        "documents have a DBRef that does not name the collection of the sources: migrate it by hand, or correct its `$ref` and `$db`",
    ),
];

const FORMS: [Reason; 2] = [
    (
        "db_ref",
        ErrorKind::InvalidItemId,
        "documents have a DBRef as a reference: convert it with from_form(..)",
    ),
    (
        "without_id",
        ErrorKind::InvalidItemId,
        "documents have a reference that is a document without an `_id`, such as one with the id in another field: name this field with from_form(..)",
    ),
];

const SOURCES: [Reason; 3] = [
    (
        "source_missing",
        ErrorKind::NotFound,
        "documents refer to a source by an `_id` or a source key that no source has: insert it, or remove the reference; if they name sources by another unique field, set it with source_key(..)",
    ),
    (
        "source_version",
        ErrorKind::Corrupt,
        "documents refer to a source whose version is not an integer from 0: correct it, or use another name with version_field(..)",
    ),
    (
        "too_large",
        ErrorKind::TooLarge,
        "documents would exceed MongoDB's limit of 16 MiB with their copies: copy fewer fields",
    ),
];

/// Refuses to skip everything, which a wrong setting causes.
fn check_any_valid(documents: u64, skipped: &InvalidDocuments, has_begun: bool) -> Result<()> {
    if documents > 0 || has_begun || skipped.total() == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "all {} documents to migrate are invalid, nothing was migrated: check the collections and the names of the fields",
            skipped.total()
        ),
    ))
}
