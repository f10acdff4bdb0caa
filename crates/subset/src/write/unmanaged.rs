//! The first write to unmanaged parents.

use super::error::no_parent;
use super::refresh::{Before, refresh};
use crate::form::parent::ParentState;
use crate::read::{find_state, unmanaged};
use crate::repository::prelude::*;
use crate::repository::refreshes::Needs;

/// Writes a parent if it is unmanaged and embeds children. Returns its state afterwards.
pub(super) async fn ensure_managed(
    shared: &Shared,
    parent: &Bson,
    state: ParentState,
    mut session: Option<&mut Session<'_>>,
) -> Result<ParentState> {
    if !state.is_unmanaged(&shared.settings) {
        return Ok(state);
    }
    let before = Before::unread(shared, parent).read(state);
    refresh(shared, parent, before, Needs::write(), session.as_deref_mut()).await?;
    find_state(shared, parent, session).await?.ok_or_else(no_parent)
}

/// Increments the version of an unmanaged parent that embeds children, in the transaction of the session.
pub(super) async fn increment_first_version(shared: &Shared, parent: &Bson, session: &mut Session<'_>) -> Result<()> {
    let Some(state) = find_state(shared, parent, Some(&mut *session)).await? else {
        return Err(no_parent());
    };
    unmanaged::check(shared, parent, &state, Some(&mut *session)).await?;
    let settings = &shared.settings;
    let increment = query::increment_version(settings);
    let unchanged = query::unchanged(settings, parent, &state);
    let updated = send::update_one(Some(session), &shared.parents, unchanged, increment, None).await?;
    match updated.matched_count {
        0 => Err(Error::new(
            ErrorKind::Contention,
            "another writer wrote the parent for the first time concurrently, nothing was stored: try again",
        )),
        _ => Ok(()),
    }
}

/// Gives an unmanaged parent a version, which discards the children that only it has.
pub(super) async fn discard_embedded(shared: &Shared, parent: &Bson, session: Option<&mut Session<'_>>) -> Result<()> {
    let settings = &shared.settings;
    let unmanaged = query::unmanaged(settings, Some(parent));
    let increment = query::increment_version(settings);
    send::update_many(session, &shared.parents, unmanaged, increment, None).await?;
    Ok(())
}
