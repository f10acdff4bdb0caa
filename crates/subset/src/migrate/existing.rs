//! The migration of two existing collections.

use super::CHUNK;
use crate::repair::rebuild::{count_orphans, discard_embedded, rebuild_chunks};
use crate::repository::prelude::*;
use crate::results::MigratedExisting;

pub(crate) async fn migrate(
    shared: &Shared,
    discard: bool,
    steps: &mut Steps<'_, '_>,
    reporter: Reporter<'_>,
) -> Result<MigratedExisting> {
    let plan = shared.index_plan();
    let ensured = plan.ensure_in(steps, &shared.children, Some(&shared.parents)).await?;
    if discard {
        discard_embedded(shared, steps).await?;
    }
    let (parents, rebuilt_individually) = rebuild_chunks(shared, steps, false, CHUNK, reporter).await?;
    Ok(MigratedExisting {
        created_indexes: ensured.created,
        parents,
        rebuilt_individually,
        orphans: count_orphans(shared, steps).await?,
    })
}
