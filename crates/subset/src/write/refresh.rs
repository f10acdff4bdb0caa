//! The refresh of a subset, by compare-and-set.

use std::sync::Arc;

use super::error::of_parent;
use crate::form::embedded::Embedded;
use crate::form::parent::ParentState;
use crate::form::rank::Rank;
use crate::query::Derived;
use crate::read::{figures, find_state, first_children, first_children_and_state, unmanaged};
use crate::repository::prelude::*;
use crate::repository::refreshes::{Needs, NewChild, ParentRefreshes, Refreshed, Turn};

/// The maximum number of attempts. Three suffice, unless the parent is deleted and inserted again in between.
const MAX_ATTEMPTS: usize = 16;

/// What a call knows of a parent before it changes a child.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    refreshes: ParentRefreshes<'a>,
    /// How many refreshes had begun when the state was read.
    begun: u64,
    /// `None` if it was not read.
    state: Option<ParentState>,
}

impl<'a> Before<'a> {
    /// Returns a parent that was not read.
    pub(crate) fn unread(shared: &'a Shared, parent: &Bson) -> Self {
        let refreshes = shared.refreshes.of(parent);
        Self {
            begun: refreshes.begun(),
            refreshes,
            state: None,
        }
    }

    /// Sets the state. It was read after this value was created.
    pub(crate) fn read(self, state: ParentState) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    pub(crate) fn was_read(&self) -> bool {
        self.state.is_some()
    }
}

/// Refreshes a parent after a change, or shares a refresh of another call of this process that begins later than the
/// change was stored. In a session of the caller it shares none: the session would not have seen its writes.
pub(crate) async fn refresh(
    shared: &Shared,
    parent: &Bson,
    before: Before<'_>,
    needs: Needs,
    session: Option<&mut Session<'_>>,
) -> Result<Refreshed> {
    let Before {
        refreshes,
        begun,
        state,
    } = before;
    let running = match refreshes.next(needs, session.is_some()).await {
        Turn::Shared(outcome) => {
            measure::refreshed("shared", 1);
            return outcome;
        }
        Turn::Run(running) => running,
    };
    // Another refresh has written what was read.
    let state = state.filter(|_| running.begun_before() == begun);
    let state = state.or_else(|| shared.versions.version(parent).map(ParentState::guess));
    let refreshed = refresh_now(shared, parent, state, &running.needs(), session).await;
    running.complete(&refreshed);
    match &refreshed {
        Ok(Refreshed::Done { written: true, .. }) => measure::refreshed("written", 1),
        Ok(Refreshed::Done { written: false, .. }) => measure::refreshed("unchanged", 1),
        Ok(Refreshed::NoParent) => measure::refreshed("no_parent", 1),
        Err(_) => {}
    }
    refreshed
}

/// Refreshes a parent that this call has not changed. Locks it.
pub(crate) async fn refresh_parent(shared: &Shared, parent: &Bson) -> Result<Refreshed> {
    let _locked = shared.lock_exclusively(std::slice::from_ref(parent)).await;
    let before = Before::unread(shared, parent);
    refresh(shared, parent, before, Needs::write(), None).await
}

/// Writes the subset, the total and the computed fields of a parent, unless another writer does.
///
/// Reads the version before the children. If it is unchanged when the parent is written, no other client has written
/// the parent since, and the children that were read are not older than the stored subset. A refresh that lost against
/// two others is done: the second of them read the version after this refresh had, so it has read all children that
/// were written before this refresh began.
///
/// `before` is the parent as it was before this refresh began: it does not count for the two lost attempts. It may be a
/// guess, because a version that is unchanged when the parent is written was the same when the children were read.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated) for an unmanaged parent that embeds children which are not stored.
async fn refresh_now(
    shared: &Shared,
    parent: &Bson,
    mut before: Option<ParentState>,
    needs: &Needs,
    mut session: Option<&mut Session<'_>>,
) -> Result<Refreshed> {
    let (settings, versions) = (&shared.settings, &shared.versions);
    let may_skip = !needs.write && !needs.children.is_empty();
    let mut first_version = None;
    let mut embedded: Arc<Embedded> = Arc::default();
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            measure::retry();
        }
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
        // A guess has no subset to compare. The parent as it is after the children were read serves as well.
        let reads_parent = may_skip && state.is_guess();
        let found = if reads_parent && probably_excluded(shared, parent, needs) {
            let (children, found) = first_children_and_state(shared, parent, session.as_deref_mut()).await?;
            embedded = children.into();
            Some(found)
        } else {
            embedded = first_children(shared, parent, session.as_deref_mut()).await?.into();
            None
        };
        let includes_new = |child: &NewChild| embedded.includes(settings, &child.id);
        if may_skip && !needs.children.iter().any(includes_new) {
            let is_correct = if reads_parent {
                let found = match found {
                    Some(found) => found,
                    None => find_state(shared, parent, session.as_deref_mut()).await?,
                };
                let Some(found) = found else {
                    versions.forget(parent);
                    return Ok(Refreshed::NoParent);
                };
                found.has_subsets(settings, &embedded)
            } else {
                state.has_subsets(settings, &embedded)
            };
            if is_correct {
                let written = false;
                return Ok(Refreshed::Done { embedded, written });
            }
        }
        let derived = Derived {
            subsets: embedded.fields(settings)?,
            figures: figures(shared, parent, session.as_deref_mut()).await?,
        };
        let unchanged = query::unchanged(settings, parent, &state);
        let update = query::replace_subsets(settings, derived, state.version());
        let updated = send::update_one(session.as_deref_mut(), &shared.parents, unchanged, update, None).await;
        let updated = updated.map_err(|error| of_parent(error.into()))?;
        if updated.matched_count > 0 {
            let last = embedded.first.get(settings.size as usize - 1);
            let last = last.and_then(|last| Rank::of(settings, last));
            versions.record(parent, state.version().unwrap_or(0), last);
            let written = true;
            return Ok(Refreshed::Done { embedded, written });
        }
        versions.forget(parent);
        measure::conflict();
    }
    Err(Error::new(
        ErrorKind::Contention,
        "the parent was deleted and inserted again during each attempt, and its subset may be stale: call rebuild(..)",
    ))
}

/// Returns whether all new children rank after the last one of the subset as this process left it.
fn probably_excluded(shared: &Shared, parent: &Bson, needs: &Needs) -> bool {
    let Some(last) = shared.versions.last(parent) else {
        return false;
    };
    let is_after = |rank: &Rank| rank.is_after(&shared.settings, &last);
    needs
        .children
        .iter()
        .all(|child| child.rank.as_ref().is_some_and(is_after))
}
