//! The migration of existing documents.
//!
//! # Design
//!
//! ## Why does the client compute the intervals?
//!
//! An interval depends on the intervals before and after it. The server has no expression for that which works in chunks.
//! Only the four fields of each document are read.
//!
//! ## Why are the documents read twice?
//!
//! A contradiction in the last document must not be found after the first ones are corrected.

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{MigrateOptions, MigrationProgress, Step};
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::{Error, InvalidDocuments, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};

use crate::query;
use crate::repair::correct::{StoredInterval, corrections};
use crate::repair::finding::Unrepaired;
use crate::repair::{Groups, time_of};
use crate::repository::Shared;
use crate::results::{Corrections, Migrated};

/// The most updates in one command, which has to be smaller than 16 MiB.
const MAX_CHUNK: u64 = 10_000;

pub(crate) async fn migrate_existing(
    shared: &Shared,
    options: &MigrateOptions,
    conn: &mut Conn<'_>,
    mut progress: MigrationProgress<'_>,
) -> Result<Migrated> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let ensure = shared.ensure();
    ensure.check_deployment(conn).await?;
    let is_stored = ensure.entry.check(conn).await?;
    options.check_selection(conn, collection, collection).await?;
    let list = options.skip_list(collection, collection);
    let mut migrated = Migrated {
        skipped: inspect(shared, list.is_none(), conn).await?,
        ..Migrated::default()
    };
    if progress.reporter.is_asked() {
        let count = Step::estimated_count("count the documents", collection);
        progress.reporter.begin(conn.read(count).await?.count);
    }
    let (run, earlier) = match &list {
        Some(list) => (ObjectId::new(), list.earlier_runs(conn).await?),
        None => (ObjectId::new(), Vec::new()),
    };
    let chunk = usize::try_from(progress.chunk.min(MAX_CHUNK)).unwrap_or(usize::MAX);
    let mut groups = Scan::begin(shared, conn).await?;
    let mut statements: Vec<Document> = Vec::new();
    loop {
        let group = groups.next(shared).await?;
        match corrections(settings, &group, groups.now, &mut migrated.corrections) {
            Ok(corrected) => statements.extend(corrected),
            Err((one, contradiction)) => {
                let Some(list) = &list else {
                    return Err(refused(one, contradiction));
                };
                for one in &group {
                    list.add(conn, run, &one.document_id, contradiction.reason()).await?;
                }
            }
        }
        while statements.len() >= chunk || group.is_empty() && !statements.is_empty() {
            let rest = statements.split_off(statements.len().min(chunk));
            let chunk = std::mem::replace(&mut statements, rest);
            let documents = chunk.len() as u64;
            let step = Step::update_in_order("correct the intervals", collection, chunk);
            // One that another client has changed is left to the next call.
            migrated.documents += conn.write(step).await?.map_or(documents, |reply| reply.matched);
            conn.count_migrated(documents);
            progress.reporter.advance(std::mem::take(&mut groups.scanned));
            progress.pace.pause(conn, documents).await;
        }
        if group.is_empty() {
            break;
        }
    }
    progress.reporter.advance(groups.scanned);
    if let Some(list) = list {
        list.remove_runs(conn, earlier).await?;
    }
    migrated.created_indexes = ensure.create_missing(conn).await?.created;
    if !is_stored {
        ensure.entry.store(conn).await?;
    }
    Ok(migrated)
}

/// Counts the documents whose ids cannot be migrated, or refuses the first one.
async fn inspect(shared: &Shared, is_refused: bool, conn: &mut Conn<'_>) -> Result<InvalidDocuments> {
    let mut groups = Scan::begin(shared, conn).await?;
    let (mut invalid, mut valid) = (Unrepaired::REASONS.map(|reason| (reason, 0)), 0);
    loop {
        let group = groups.next(shared).await?;
        if group.is_empty() {
            break;
        }
        let documents = group.len() as u64;
        match corrections(&shared.settings, &group, groups.now, &mut Corrections::default()) {
            Ok(_) => valid += documents,
            Err((one, contradiction)) if is_refused => return Err(refused(one, contradiction)),
            Err((_, contradiction)) => {
                let counted = invalid.iter_mut().find(|(name, _)| *name == contradiction.reason());
                counted.into_iter().for_each(|(_, counted)| *counted += documents);
            }
        }
    }
    let invalid: InvalidDocuments = invalid.into_iter().filter(|(_, documents)| *documents > 0).collect();
    invalid.check_any_valid(valid, || {
        "all documents are invalid, nothing was migrated: check the names of the fields".to_owned()
    })?;
    Ok(invalid)
}

fn refused(one: &StoredInterval, contradiction: Unrepaired) -> Error {
    let message = format!("{contradiction}, or skip the id by skip_invalid(..); its documents were not changed");
    Error::corrupt(one.document_id.clone(), "", message).with_remedy(Remedy::SkipInvalid)
}

/// Reads the intervals of each id.
struct Scan {
    rows: Rows,
    groups: Groups,
    /// The time of the server.
    now: DateTime,
    scanned: u64,
}

impl Scan {
    async fn begin(shared: &Shared, conn: &mut Conn<'_>) -> Result<Self> {
        let settings = &shared.settings;
        let stages = [doc! { "$project": query::head_now(settings) }];
        let read = Step::aggregate("read the intervals of each id", &shared.collection, stages);
        let read = read.in_order_of([settings.id.as_str(), settings.from.as_str(), "_id"]);
        Ok(Self {
            rows: conn.stream(read).await?,
            groups: Groups::default(),
            now: DateTime::MIN,
            scanned: 0,
        })
    }

    /// Returns the intervals of the next id. Empty at the end.
    async fn next(&mut self, shared: &Shared) -> Result<Vec<StoredInterval>> {
        while let Some(row) = self.rows.try_next().await? {
            self.scanned += 1;
            self.now = time_of(&row);
            if let Some(group) = self.groups.add(StoredInterval::read(&shared.settings, &row)) {
                return Ok(group);
            }
        }
        Ok(self.groups.end().unwrap_or_default())
    }
}
