//! What a plan checks before an index that it does not create.

use mongodb::bson::Document;

use super::{FindDuplicates, IndexPlan};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Remedy, Result};

/// Refuses documents that violate a missing unique index in a plan, as the server refuses the index in a run. Not for an
/// index whose violations the run corrects first.
pub(super) async fn check_violations(
    plan: &IndexPlan,
    present: &[Document],
    corrected: Option<&str>,
    conn: &Conn<'_>,
) -> Result<()> {
    if !conn.is_plan() {
        return Ok(());
    }
    let mut missing = plan.missing_in(present)?;
    missing.retain(|planned| corrected != Some(&planned.name));
    match FindDuplicates::are_in(&plan.collection, missing).await? {
        true => Err(Error::new(ErrorKind::Corrupt, plan.is_violated()).with_remedy(Remedy::Verify)),
        false => Ok(()),
    }
}
