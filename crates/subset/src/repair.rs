//! Finds, repairs and rebuilds stale subsets.

pub(crate) mod finding;
pub(crate) mod rebuild;
pub(crate) mod scan;

use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::verify::scan;

use self::finding::{Finding, Problem, Repaired, Unrepaired};
use self::scan::Scan;
use crate::read::unmanaged;
use crate::repository::prelude::*;
use crate::write::refresh::refresh_parent;

/// Repairs what a scan finds.
pub(crate) fn repairs<'a>(shared: &'a Shared, reporter: Reporter<'a>, dry_run: bool) -> ActionStream<'a, Repaired> {
    let found = scan(Scan::new(shared, reporter));
    Box::pin(found.try_filter_map(move |finding| repair(shared, finding, dry_run)))
}

/// Repairs a finding. A dry run only checks whether it can be repaired. `None` if another client has deleted the parent.
async fn repair(shared: &Shared, finding: Finding, dry_run: bool) -> Result<Option<Repaired>> {
    let left = match finding.problem {
        Problem::Orphaned { .. } => Some(Unrepaired::NoParent),
        Problem::DuplicateChildId { .. } => Some(Unrepaired::DuplicateChildId),
        Problem::Stale => match fix(shared, &finding.document_id, dry_run).await {
            Ok(true) => None,
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotMigrated => Some(Unrepaired::NotMigrated),
            Err(error) => return Err(error),
        },
    };
    Ok(Some(Repaired::new(vec![finding], left)))
}

/// Refreshes a subset. Returns whether the parent exists.
async fn fix(shared: &Shared, parent: &Bson, dry_run: bool) -> Result<bool> {
    if dry_run {
        return Ok(unmanaged::deletable(shared, parent, &mut Conn::new()).await?.is_some());
    }
    Ok(refresh_parent(shared, parent).await?.is_some())
}
