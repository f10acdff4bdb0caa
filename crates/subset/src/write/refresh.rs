//! The refresh of a subset without a transaction, by compare-and-set: for rebuilds, repairs and followers.
//!
//! # Design
//!
//! ## When has a refresh lost for good?
//!
//! It reads the version of the parent, then the first children, and writes them if the version is still the same. So it
//! never overwrites a newer subset by an older one. A refresh that has lost against two other writes is done: the second
//! of them began after the first had ended, and so after this refresh had read the version. It has read all children that
//! were written before this refresh began.
//!
//! Not so for a total and computed fields: a transaction adds to them, and does not correct them. So a refresh that must
//! compute them is done only when it has written the parent.

use super::change::of_parent;
use crate::query::Derived;
use crate::read::{figures, find_state, first_children, unmanaged};
use crate::repository::prelude::*;

/// The maximum number of attempts. Three suffice without a total and computed fields, unless the parent is deleted and
/// inserted again in between.
const MAX_ATTEMPTS: usize = 16;

/// Refreshes a parent as [`refresh`] does, in its lane.
pub(crate) async fn refresh_parent(shared: &Shared, parent: &Bson) -> Result<Option<u64>> {
    let mut conn = shared.enter(std::slice::from_ref(parent), None).await?;
    refresh(shared, parent, &mut conn).await
}

/// Writes the subset, the total and the computed fields of a parent, unless another writer does. Returns the number of
/// embedded children, as it read them last, or `None` if the parent does not exist.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated) for an unmanaged parent that embeds children which are not stored.
pub(super) async fn refresh(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<u64>> {
    let settings = &shared.settings;
    let mut first_version = None;
    let mut count = 0;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            measure::retry();
        }
        let Some(state) = find_state(shared, parent, conn).await? else {
            measure::refreshed("no_parent", 1);
            return Ok(None);
        };
        let version = state.version().unwrap_or(0);
        let others = version.wrapping_sub(*first_version.get_or_insert(version));
        if others >= 2 && !settings.counts_children() {
            measure::refreshed("unchanged", 1);
            return Ok(Some(count));
        }
        unmanaged::check(shared, parent, &state, conn).await?;
        let embedded = first_children(shared, parent, conn).await?;
        count = embedded.count() as u64;
        let derived = Derived {
            subsets: embedded.fields(settings)?,
            figures: figures(shared, parent, conn).await?,
        };
        let unchanged = query::unchanged(settings, parent, &state);
        let update = query::replace_subsets(settings, derived, state.version());
        let updated = conn.update_one(&shared.parents, unchanged, update, None).await;
        if updated.map_err(|error| of_parent(error.into()))?.matched_count > 0 {
            measure::refreshed("written", 1);
            return Ok(Some(count));
        }
        measure::conflict();
    }
    Err(Error::new(
        ErrorKind::Contention,
        "other writers wrote the parent during each attempt, and its subset, total or computed fields may be stale: call rebuild(..) again",
    ))
}
