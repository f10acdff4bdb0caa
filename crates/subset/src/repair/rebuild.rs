//! The rebuild of many subsets on the server.

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::code;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress, Step};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, doc};

use super::finding::Problem;
use super::scan::{orphans, stale};
use crate::query;
use crate::query::whole::{self, RebuildScope};
use crate::repository::Shared;
use crate::results::RefreshedAll;
use crate::write::refresh_parent;

pub(crate) async fn refresh_all(shared: &Shared) -> Result<RefreshedAll> {
    shared.check_indexes().await?;
    let conn = &mut Conn::new();
    if rebuild_undisturbed(shared, conn).await? {
        return Ok(RefreshedAll::default());
    }
    rebuild(shared, conn, "rebuild the stale subsets", RebuildScope::Stale, false).await?;
    let rebuilt_individually = rebuild_stale(shared, conn, None, false).await?;
    Ok(RefreshedAll { rebuilt_individually })
}

/// Rebuilds the stale subsets of all parents by one command. Returns whether it has succeeded: not if a parent is unmanaged
/// or was written concurrently.
async fn rebuild_undisturbed(shared: &Shared, conn: &mut Conn<'_>) -> Result<bool> {
    let (parents, children) = (&shared.parents, shared.children.name());
    let stages = whole::rebuild_undisturbed(&shared.settings, parents.name(), children);
    let rebuild = Step::aggregate("rebuild the stale subsets", parents, stages).own_collation();
    match conn.write(rebuild).await {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some(whole::CONVERSION_FAILURE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Rebuilds subsets by one command. With `keeps_embedded`, parents with embedded children that are not stored stay.
pub(crate) async fn rebuild(
    shared: &Shared,
    conn: &mut Conn<'_>,
    purpose: &'static str,
    scope: RebuildScope<'_>,
    keeps_embedded: bool,
) -> Result<()> {
    let (parents, children) = (&shared.parents, shared.children.name());
    let stages = whole::rebuild(&shared.settings, parents.name(), children, scope, keeps_embedded);
    conn.write(Step::aggregate(purpose, parents, stages).own_collation())
        .await?;
    Ok(())
}

/// Rebuilds the subsets of all parents in chunks, and then single stale ones. With `every`, it writes correct subsets too.
/// Returns the number of parents, and of parents that it rebuilt one by one.
pub(crate) async fn rebuild_chunks(
    shared: &Shared,
    conn: &mut Conn<'_>,
    every: bool,
    keeps_embedded: bool,
    mut progress: MigrationProgress<'_>,
) -> Result<(u64, u64)> {
    let parents = &shared.parents;
    let count = Step::estimated_count("count the parents", parents);
    progress.reporter.begin(conn.read(count).await?.count);
    let walk = ChunkedFind::by_number(Document::new(), progress.chunk);
    let mut chunks = conn.chunks("read the ids of the parents", walk, parents).await?;
    while let Some(chunk) = chunks.next_chunk().await? {
        let scope = match every {
            true => RebuildScope::AllOf(&chunk.ids),
            false => RebuildScope::StaleOf(&chunk.ids),
        };
        rebuild(shared, conn, "rebuild the subsets of a chunk", scope, keeps_embedded).await?;
        progress.advance(conn, chunk.weight).await;
    }
    let rebuilt = rebuild_stale(shared, conn, None, keeps_embedded).await?;
    Ok((progress.reporter.done(), rebuilt))
}

/// Rebuilds all subsets that are still stale, one by one, or the subsets of the parents of a filter. Returns how many it
/// wrote.
///
/// # Errors
/// At its end, if a parent embeds children that are not stored: [`NotMigrated`](ErrorKind::NotMigrated) if it is unmanaged,
/// and with `keeps_embedded` [`CountMismatch`](ErrorKind::CountMismatch) if it has a version.
pub(crate) async fn rebuild_stale(
    shared: &Shared,
    conn: &mut Conn<'_>,
    among: Option<Document>,
    keeps_embedded: bool,
) -> Result<u64> {
    shared.check_indexes_in(conn).await?;
    let among = among.filter(|filter| !filter.is_empty());
    let among = among.map(|filter| doc! { "$match": filter }).into_iter();
    let stages = among.chain(whole::stale(&shared.settings, shared.children.name(), None));
    let scan = Step::aggregate("look for stale subsets", &shared.parents, stages).own_collation();
    let Some(mut rows) = conn.stream_written(scan.in_order_of(["_id"])).await? else {
        return Ok(0);
    };
    let (mut rebuilt, mut left) = (0, None);
    while let Some(row) = rows.try_next().await? {
        let Some(finding) = stale(shared, &row).await? else {
            continue;
        };
        let refreshed = match finding.problem {
            Problem::NotStored { .. } if keeps_embedded => Err(not_stored(shared, finding.document_id)),
            _ => refresh_parent(shared, &finding.document_id).await,
        };
        match refreshed {
            Ok(refreshed) => rebuilt += u64::from(refreshed.is_some()),
            Err(error) if [ErrorKind::NotMigrated, ErrorKind::CountMismatch].contains(&error.kind()) => {
                left = left.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    match left {
        Some(error) => Err(error),
        None => Ok(rebuilt),
    }
}

fn not_stored(shared: &Shared, parent: Bson) -> Error {
    let message = "a parent that was migrated before embeds children that their collection does not have, and keeps them: stop the program that embeds them, or that deletes children from the collection, then insert them all by one insert_many(..), or discard them by refresh(..)";
    Error::new(ErrorKind::CountMismatch, message).of_document(parent, shared.settings.first().field.as_str())
}

/// Counts the children whose parent does not exist.
pub(crate) async fn count_orphans(shared: &Shared, conn: &mut Conn<'_>) -> Result<u64> {
    let stages = whole::orphans(&shared.settings, shared.parents.name(), None);
    let scan = Step::aggregate("look for children without a parent", &shared.children, stages).own_collation();
    let mut rows = conn.stream(scan).await?;
    let mut count = 0;
    while let Some(row) = rows.try_next().await? {
        if let Some(Problem::Orphaned { children }) = orphans(shared, &row).await?.map(|finding| finding.problem) {
            count += children;
        }
    }
    Ok(count)
}

/// Gives all unmanaged parents a version, which discards the children that only they have.
pub(crate) async fn discard_embedded(shared: &Shared, conn: &mut Conn<'_>) -> Result<()> {
    let unmanaged = query::unmanaged(&shared.settings, None);
    let increment = query::increment_version(&shared.settings);
    let purpose = "discard children that are only embedded";
    conn.write(Step::update_many(purpose, &shared.parents, unmanaged, increment))
        .await?;
    Ok(())
}
