//! The records of all migrations of a database.

use std::future::Future;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Database};

use super::{COLLECTION, catalog_of};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::migration::{Step, number};

/// How long after its last chunk an unfinished migration counts as running, in milliseconds. It may be in a pause.
const RECENT_MILLIS: i64 = 10_000;

/// The record of the last migration into a collection; returned by [`migrations`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MigrationRecord {
    /// The collection that the migration writes.
    pub collection: String,
    /// Its settings, such as the pattern and the source. They can hold user values of a filter.
    pub settings: Document,
    /// How many items or children are migrated.
    pub migrated: u64,
    /// When its last call began.
    pub begun: Option<DateTime>,
    /// When it finished. `None` for an unfinished migration.
    pub finished: Option<DateTime>,
    /// Whether it is running: the server executes a command of it, or it has finished a chunk in the last ten seconds.
    pub is_running: bool,
}

/// Lists the migrations into the collections of a database, which the [catalog](crate::catalog) records, by collection.
///
/// ```no_run
/// # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
/// for record in mongo_patterns::migrations(&database).await? {
///     println!("{}: {}", record.collection, if record.finished.is_some() { "finished" } else { "unfinished" });
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// Two round trips. A user without the privilege `inprog` does not see the commands of other users.
pub fn migrations(database: &Database) -> impl Future<Output = Result<Vec<MigrationRecord>>> + Send {
    let records = Records::of(database);
    async move {
        records
            .read(doc! {})
            .await
            .map(|found| found.into_iter().map(|(record, _)| record).collect())
    }
}

/// Deletes the record of the last migration into a collection. Returns whether there was one.
///
/// Without the record of a finished migration, another call with the same settings is refused because the target has
/// documents. An unfinished migration cannot resume without its record: empty the target before it begins again.
///
/// # Cost
/// Three round trips.
///
/// # Cancel safety
/// The record is deleted or not: call it again.
///
/// # Errors
/// - [`Contention`](ErrorKind::Contention): the migration [is running](MigrationRecord::is_running).
pub fn forget_migration(
    database: &Database,
    collection: impl Into<String>,
) -> impl Future<Output = Result<bool>> + Send {
    let records = Records::of(database);
    let collection = collection.into();
    async move {
        let mut found = records.read(doc! { "_id.collection": collection }).await?;
        let Some((record, run)) = found.pop() else {
            return Ok(false);
        };
        if record.is_running {
            return Err(Error::new(
                ErrorKind::Contention,
                format!(
                    "the migration into `{}` is running, or was until ten seconds ago, its record was not deleted: stop it first",
                    record.collection
                ),
            ));
        }
        // Another call may have begun since.
        let id = doc! { "kind": "migration", "collection": record.collection };
        let deleted = records.catalog.delete_one(doc! { "_id": id, "run": run }).await?;
        Ok(deleted.deleted_count > 0)
    }
}

/// Checks that the server executes no command of a migration into a collection, as far as the user may see them.
#[doc(hidden)]
pub async fn check_no_migration_runs(target: &Collection<RawDocumentBuf>) -> Result<()> {
    let catalog = catalog_of(target, None);
    if !(Records { catalog })
        .running()
        .await?
        .contains(&migration_comment(target))
    {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Contention,
        "the server still executes a chunk of an earlier migration with other settings, nothing was migrated: try again when it has ended",
    ))
}

/// Returns the comment by which the server lists the chunks of a migration among its operations.
#[doc(hidden)]
#[must_use]
pub fn migration_comment(target: &Collection<RawDocumentBuf>) -> String {
    format!("mongo-patterns: migrate into {}", target.namespace())
}

struct Records {
    catalog: Collection<RawDocumentBuf>,
}

impl Records {
    fn of(database: &Database) -> Self {
        let catalog = catalog_of(&database.collection(COLLECTION), database.write_concern().cloned());
        Self { catalog }
    }

    /// Reads the records that match, with their runs.
    async fn read(&self, mut filter: Document) -> Result<Vec<(MigrationRecord, Option<ObjectId>)>> {
        filter.insert("_id.kind", "migration");
        let recent = doc! { "$subtract": ["$$NOW", RECENT_MILLIS] };
        let stages = [
            doc! { "$match": filter },
            doc! { "$sort": { "_id": 1 } },
            doc! { "$addFields": { "recent": { "$gt": ["$active", recent] } } },
        ];
        let find = Step::aggregate("list the migrations", &self.catalog, stages);
        let found = Conn::new().read(find).await?.decoded()?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let comments = self.running().await?;
        Ok(found.into_iter().map(|found| self.record(found, &comments)).collect())
    }

    fn record(&self, mut found: Document, comments: &[String]) -> (MigrationRecord, Option<ObjectId>) {
        let id = found.get_document("_id").ok();
        let collection = id.and_then(|id| id.get_str("collection").ok()).unwrap_or_default();
        let namespace = format!("{}.{collection}", self.catalog.namespace().db);
        let run = found.get_object_id("run").ok();
        let finished = found.get_datetime("finished").ok().copied();
        let is_executed = comments
            .iter()
            .any(|comment| comment.ends_with(&format!(" {namespace}")));
        let is_recent = finished.is_none() && found.get_bool("recent").unwrap_or(false);
        let record = MigrationRecord {
            collection: collection.to_owned(),
            migrated: number(&found, "moved"),
            begun: run.map(|run| run.timestamp()),
            finished,
            is_running: is_executed || is_recent,
            settings: match found.remove("settings") {
                Some(mongodb::bson::Bson::Document(settings)) => settings,
                _ => Document::new(),
            },
        };
        (record, run)
    }

    /// Returns the comments of the migrations that the server executes, as far as the user may see them.
    async fn running(&self) -> Result<Vec<String>> {
        for all_users in [true, false] {
            let stages = [
                doc! { "$currentOp": { "allUsers": all_users } },
                doc! { "$match": { "command.comment": { "$regex": "^mongo-patterns: (migrate|move) into " } } },
                doc! { "$project": { "_id": 0, "comment": "$command.comment" } },
            ];
            let running = Step::aggregate_on_admin("look for running migrations", &self.catalog, stages);
            match Conn::new().read(running).await.map_err(Error::from) {
                Ok(reply) => {
                    let comments = reply.decoded()?.into_iter();
                    return Ok(comments
                        .filter_map(|found| found.get_str("comment").ok().map(str::to_owned))
                        .collect());
                }
                Err(error) if error.kind() == ErrorKind::Unauthorized => {}
                Err(error) => return Err(error),
            }
        }
        // The time of the last chunk still shows a running migration.
        Ok(Vec::new())
    }
}
