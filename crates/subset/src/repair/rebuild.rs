//! What all moves share.

use futures::TryStreamExt;
use mongo_patterns_core::chunks::Walk;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id, error};
use mongodb::Collection;
use mongodb::action::Aggregate;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::Error as DriverError;
use mongodb::options::{Collation, ReadConcern, ReadPreference, SelectionCriteria};

use crate::Problem;
use crate::query::{self, Rebuilt};
use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::write::refresh::{Refreshed, refresh};

/// What became of parents that were rebuilt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RebuiltChunks {
    pub(crate) parents: u64,
    pub(crate) one_by_one: u64,
}

/// Rebuilds parents on the server, in one command.
pub(crate) async fn rebuild(shared: &Shared, which: Rebuilt<'_>) -> Result<()> {
    let Shared {
        parents,
        children,
        settings,
        ..
    } = shared;
    let stages = query::rebuild_all(settings, parents.name(), children.name(), which);
    let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let merge = parents.aggregate(stages).allow_disk_use(true);
    let merge = merge.selection_criteria(primary).read_concern(ReadConcern::local());
    merge.await?.try_collect::<Vec<_>>().await?;
    Ok(())
}

/// Rebuilds all that are still wrong, one by one, and returns how many it wrote.
///
/// # Errors
/// At its end, that a parent holds children that were never moved.
pub(crate) async fn rebuild_stale(shared: &Shared) -> Result<u64> {
    let mut left = Scan::of_parents(shared);
    let (mut one_by_one, mut not_moved) = (0, None);
    while let Some(finding) = left.next().await? {
        debug_assert_eq!(finding.problem, Problem::Stale);
        let _locked = shared.locks.exclusive(&document_id::text(&finding.parent_id)).await;
        match refresh(shared, &finding.parent_id, None, None, None).await {
            Ok(refreshed) => one_by_one += u64::from(matches!(refreshed, Refreshed::Done { .. })),
            Err(error) if error.kind() == ErrorKind::NotMigrated => drop(not_moved.get_or_insert(error)),
            Err(error) => return Err(error),
        }
    }
    match not_moved {
        Some(error) => Err(error),
        None => Ok(one_by_one),
    }
}

/// Rebuilds all parents, some at a time, and then those that are still wrong. With `every`, all of them are written.
pub(crate) async fn rebuild_in_chunks(
    shared: &Shared,
    every: bool,
    chunk: u64,
    mut reporter: Reporter<'_>,
) -> Result<RebuiltChunks> {
    reporter.begin(shared.parents.estimated_document_count().await?);
    let mut chunks = Walk::by_number(Document::new(), chunk).begin(&shared.parents).await?;
    while let Some(chunk) = chunks.next().await? {
        let which = match every {
            true => Rebuilt::AllOf(&chunk.ids),
            false => Rebuilt::WrongOf(&chunk.ids),
        };
        rebuild(shared, which).await?;
        reporter.advance(chunk.ids.len() as u64);
    }
    Ok(RebuiltChunks {
        parents: reporter.done(),
        one_by_one: rebuild_stale(shared).await?,
    })
}

/// All on the primary, and ids compared by their bytes, also where a collection's own collation is another.
pub(crate) fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Aggregate<'_> {
    collection
        .aggregate(stages)
        .allow_disk_use(true)
        .collation(Collation::builder().locale("simple").build())
        .read_concern(ReadConcern::local())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
}

/// The one document that the stages make.
pub(crate) async fn look(
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let mut cursor = aggregate(collection, stages).await?;
    Ok(cursor.try_next().await?.unwrap_or_default())
}

pub(crate) fn not_copied(error: DriverError) -> Error {
    if error::duplicate_key(&error).is_some() {
        return Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index, on `_id` or of your own, refused a child that was moved, and its parent keeps it: mend the children, then move again",
            error,
        );
    }
    error.into()
}
