//! Finds, repairs and rebuilds stale subsets.

pub(crate) mod finding;
pub(crate) mod rebuild;
pub(crate) mod scan;

use self::finding::{Problem, Repaired, Unrepaired};
use self::scan::Scan;
use crate::read::unmanaged;
use crate::repository::prelude::*;
use crate::write::refresh::refresh_parent;

/// Repairs the next finding of a scan. A dry run only checks whether the finding can be repaired.
pub(crate) async fn next(shared: &Shared, scan: &mut Scan<'_>, dry_run: bool) -> Result<Option<Repaired>> {
    while let Some(finding) = scan.next().await? {
        let left = match finding.problem {
            Problem::Orphaned { .. } => Some(Unrepaired::NoParent),
            Problem::DuplicateChildId { .. } => Some(Unrepaired::DuplicateChildId),
            Problem::Stale => match fix(shared, &finding.parent_id, dry_run).await {
                Ok(true) => None,
                // Another client deleted the parent concurrently.
                Ok(false) => continue,
                Err(error) if error.kind() == ErrorKind::NotMigrated => Some(Unrepaired::NotMigrated),
                Err(error) => return Err(error),
            },
        };
        return Ok(Some(Repaired {
            finding,
            unrepaired: left,
        }));
    }
    Ok(None)
}

/// Refreshes a subset. Returns whether the parent exists.
async fn fix(shared: &Shared, parent: &Bson, dry_run: bool) -> Result<bool> {
    if dry_run {
        return Ok(unmanaged::deletable(shared, parent, &mut Conn::new()).await?.is_some());
    }
    Ok(refresh_parent(shared, parent).await?.is_some())
}
