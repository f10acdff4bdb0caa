//! The refresh of a subset, by compare-and-set.

use super::error::of_parent;
use crate::form::parent::ParentState;
use crate::query::Derived;
use crate::read::{elements, find_state, first_children, includes, total, unmanaged};
use crate::repository::prelude::*;

/// The maximum number of attempts. Three suffice, unless the parent is deleted and inserted again in between.
const MAX_ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(crate) enum Refreshed {
    /// This refresh or a later one of another writer wrote the parent, or it needs no write.
    Done {
        /// The embedded children, as this refresh read them.
        embedded: Vec<RawDocumentBuf>,
        written: bool,
    },
    NoParent,
}

/// Writes the subset and the total of a parent, unless another writer does.
///
/// Reads the version before the children. If it is unchanged when the parent is written, no other client has written
/// the parent since, and the children that were read are not older than the stored subset. A refresh that lost against
/// two others is done: the second of them read the version after this refresh had, so it has read all children that
/// were written before this refresh began.
///
/// `before` is the parent as it was before a child was written: it does not count for the two lost attempts. It may be
/// a guess, because a version that is unchanged when the parent is written was the same when the children were read.
///
/// With `unless_excluded`, a new child, the parent is not written if its subset is correct and excludes this child.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated) for an unmanaged parent that embeds children which are not stored.
pub(crate) async fn refresh(
    shared: &Shared,
    parent: &Bson,
    mut before: Option<ParentState>,
    unless_excluded: Option<&Bson>,
    mut session: Option<&mut Session<'_>>,
) -> Result<Refreshed> {
    let (settings, versions) = (&shared.settings, &shared.versions);
    let mut first_version = None;
    let mut embedded = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let state = match before.take() {
            Some(state) => state,
            None => {
                let Some(state) = find_state(shared, parent, session.as_deref_mut()).await? else {
                    return Ok(Refreshed::NoParent);
                };
                let version = state.version().unwrap_or(0);
                if version.wrapping_sub(*first_version.get_or_insert(version)) >= 2 {
                    let written = false;
                    return Ok(Refreshed::Done { embedded, written });
                }
                state
            }
        };
        unmanaged::check(shared, parent, &state, session.as_deref_mut()).await?;
        embedded = first_children(shared, parent, session.as_deref_mut()).await?;
        if unless_excluded.is_some_and(|child| !includes(settings, &embedded, child)) {
            let is_correct = if state.is_guess() {
                let Some(found) = find_state(shared, parent, session.as_deref_mut()).await? else {
                    versions.forget(parent);
                    return Ok(Refreshed::NoParent);
                };
                found.has_subset(settings, &embedded)
            } else {
                state.has_subset(settings, &embedded)
            };
            if is_correct {
                let written = false;
                return Ok(Refreshed::Done { embedded, written });
            }
        }
        let derived = Derived {
            subset: elements(&embedded)?,
            total: total(shared, parent, session.as_deref_mut()).await?,
        };
        let unchanged = query::unchanged(settings, parent, &state);
        let update = query::replace_subset(settings, derived, state.version());
        let updated = send::update_one(session.as_deref_mut(), &shared.parents, unchanged, update, None).await;
        let updated = updated.map_err(|error| of_parent(error.into()))?;
        if updated.matched_count > 0 {
            versions.record(parent, state.version().unwrap_or(0));
            let written = true;
            return Ok(Refreshed::Done { embedded, written });
        }
        versions.forget(parent);
    }
    Err(Error::new(
        ErrorKind::Contention,
        "the parent was deleted and inserted again during each attempt, and its subset may be stale: call rebuild(..)",
    ))
}
