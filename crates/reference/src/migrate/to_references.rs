//! The migration to references: checks, then an update of each chunk.

use mongo_patterns_core::catalog::Record;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{MigrateOptions, number};

use super::{End, Reason, Rewrite, earlier, failed, inspect, migrate, refuse};
use crate::query::to_references as commands;
use crate::query::to_references::Dropped;
use crate::repository::prelude::*;
use crate::results::Migrated;
use crate::settings::bare::BareField;
use crate::settings::invalid_argument;

/// The migration of all documents to the ids of their sources.
pub(crate) struct ToReferences<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) fields: Vec<BareField<'a>>,
    pub(crate) options: MigrateOptions,
    /// About how many documents one command migrates.
    pub(crate) chunk: u64,
    pub(crate) dropped: Dropped,
}

impl ToReferences<'_> {
    pub(crate) async fn execute(&self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<Migrated> {
        let shared = self.shared;
        self.options.check_numbers()?;
        if shared.settings.key.is_some() && self.dropped.deleted {
            return Err(invalid_argument(
                "the source key of a deleted source can be that of another one, nothing was migrated: omit drop_deleted(), or migrate to ids with a repository without source_key(..)",
            ));
        }
        shared.ensure().entry.check(conn).await?;
        let record = Record::of(shared.documents());
        let settings = self.commands().record_settings();
        let (last, _) = earlier(conn, &record, &settings).await?;
        let found = inspect(shared, self, conn).await?;
        self.refuse(&found, End::Refused)?;
        let documents = number(&found, "documents");
        let resumed = last.is_some();
        // Another call changes nothing.
        if documents == 0 && !resumed {
            return Ok(migrated(documents, resumed));
        }
        match resumed {
            true => record.resume(conn).await?,
            false => record.begin(conn, settings).await?,
        }
        reporter.begin(documents);
        let before = last.map_or(0, |last| last.position.migrated);
        let pace = (self.chunk, self.options.pace());
        let written = migrate(shared, self, conn, pace, (&record, before), reporter).await?;
        let documents = if conn.is_plan() { documents } else { written };
        record.finish(conn, before + documents).await?;
        Ok(migrated(documents, resumed))
    }

    fn commands(&self) -> commands::ToReferences<'_> {
        commands::ToReferences {
            settings: &self.shared.settings,
            fields: &self.fields,
            sources: self.shared.sources.name(),
            documents: self.shared.documents().name(),
            dropped: self.dropped,
        }
    }
}

fn migrated(documents: u64, resumed: bool) -> Migrated {
    Migrated {
        documents,
        resumed,
        ..Migrated::default()
    }
}

impl Rewrite for ToReferences<'_> {
    fn walk(&self, most: u64) -> Walk {
        self.commands().walk(most)
    }

    fn inspection(&self) -> Vec<Document> {
        self.commands().inspection()
    }

    fn refuse(&self, found: &Document, end: End) -> Result<()> {
        refuse(found, &PROBLEMS, end)?;
        refuse(found, &SNAPSHOTS, end).map_err(|error| error.with_remedy(Remedy::DropSnapshots))?;
        match self.shared.settings.key {
            None => refuse(found, &DELETED, end).map_err(|error| error.with_remedy(Remedy::DropDeleted)),
            Some(_) => refuse(found, &DELETED_WITH_KEY, end),
        }
    }

    async fn migrate(&self, conn: &mut Conn<'_>, chunk: &[Bson]) -> Result<u64> {
        let commands = self.commands();
        let (filter, update) = (commands.of_chunk(chunk), commands.update());
        let documents = self.shared.documents();
        let drop_copies = Step::update_many("drop the copies of a chunk", documents, filter, update);
        let reply = conn.write(drop_copies).await.map_err(failed)?;
        Ok(reply.map_or(0, |reply| reply.modified))
    }
}

/// The problems of documents, in the order in which they are checked, with the kinds and the texts of their errors.
const PROBLEMS: [Reason; 4] = [
    (
        "other_value",
        ErrorKind::Corrupt,
        "documents have another value than references or ids in a reference field",
    ),
    (
        "occupied",
        ErrorKind::TargetNotEmpty,
        "documents have another value in the field for the ids: remove it, or use another field",
    ),
    (
        "ambiguous",
        ErrorKind::InvalidItemId,
        "documents refer to a source whose id is a document with an `_id`, which alone would be taken for a reference",
    ),
    (
        "own_fields",
        ErrorKind::NotMigrated,
        "documents have references with fields of their own, which would be lost: move them, for example to another array",
    ),
];

const SNAPSHOTS: [Reason; 1] = [(
    "snapshot",
    ErrorKind::NotMigrated,
    "documents have snapshots, which no source has: allow their loss with drop_snapshots()",
)];

const DELETED_WITH_KEY: [Reason; 2] = [
    (
        "deleted",
        ErrorKind::NotMigrated,
        "documents have copies of sources that were deleted, whose source key may be that of another one: remove the references",
    ),
    (
        "source_missing",
        ErrorKind::NotMigrated,
        "documents have copies whose source does not exist, or has another value of the source key: call repair(), and insert the sources or remove the references",
    ),
];

const DELETED: [Reason; 2] = [
    (
        "deleted",
        ErrorKind::NotMigrated,
        "documents have copies of sources that were deleted, which may be the last ones: allow their loss with drop_deleted()",
    ),
    (
        "source_missing",
        ErrorKind::NotMigrated,
        "documents have copies of sources that do not exist, which may be the last ones: insert the sources, or allow the loss with drop_deleted()",
    ),
];
