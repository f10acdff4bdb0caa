//! The deletion of old revisions.
//!
//! # Design
//!
//! ## Why is no transaction needed?
//!
//! The revisions are deleted from the oldest, in the order of the index, so an interrupted call leaves a history without a
//! gap. The newest revision stays, and concurrent writes only add newer ones.

use mongo_patterns_core::{Deleted, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime, RawDocumentBuf};

use crate::form::document::{Head, invalid_argument};
use crate::query;
use crate::query::options;
use crate::read::{find_as_of, find_newest};
use crate::repository::Shared;

/// Which revisions stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keep {
    /// This number of the newest.
    Last(u64),
    /// The revisions that are needed to read the document as of this time or later.
    Since(DateTime),
}

/// Deletes the oldest revisions of a document.
pub(crate) async fn delete_old(
    shared: &Shared,
    id: &Bson,
    keep: Keep,
    session: Option<&mut ClientSession>,
) -> Result<Deleted> {
    shared.check_indexes().await?;
    let mut conn = shared.enter(id, session).await?;
    let settings = &shared.settings;
    let head = |found: Option<RawDocumentBuf>| found.and_then(|found| Head::read(settings, &found));
    let first = match keep {
        Keep::Last(0) => {
            return Err(invalid_argument(
                "at least one revision stays, nothing was deleted: the newest one continues the numbers of the history",
            ));
        }
        Keep::Last(number) => {
            let newest = head(find_newest(shared, id, &mut conn).await?);
            newest.map(|newest| newest.revision.saturating_sub(number - 1))
        }
        Keep::Since(time) => head(find_as_of(shared, id, time, &mut conn).await?).map(|head| head.revision),
    };
    let Some(first) = first.filter(|first| *first > 1) else {
        return Ok(Deleted::default());
    };
    let (filter, options) = (
        query::beyond(settings, id, Some(first), true),
        options::delete_revisions(settings),
    );
    let deleted = conn.delete_many(&shared.revisions, filter, options).await?;
    Ok(Deleted::new(deleted.deleted_count))
}
