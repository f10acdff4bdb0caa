//! Reads of parents and children.

pub(crate) mod children;
pub(crate) mod page;
pub(crate) mod unmanaged;

use crate::form::parent::ParentState;
use crate::repository::prelude::*;

/// Reads the state of a parent: from the primary, or from the snapshot of a transaction.
pub(crate) async fn find_state(
    shared: &Shared,
    parent: &Bson,
    session: Option<&mut Session<'_>>,
) -> Result<Option<ParentState>> {
    let settings = &shared.settings;
    let options = options::find_state(settings, is_in_transaction(session.as_deref()));
    let found = send::find_one(session, &shared.parents, query::by_id(parent), options).await?;
    Ok(found.map(|document| ParentState::of(settings, document)))
}

pub(crate) fn is_in_transaction(session: Option<&Session<'_>>) -> bool {
    session.is_some_and(Session::is_in_transaction)
}

/// Names a missing index in the error of a read for the caller.
pub(crate) fn hinted(error: DriverError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index).caused_by(error),
        false => error.into(),
    }
}

/// Names a missing index in the error of a command that is part of a write. Omits the driver's error, which would
/// replace this one in the driver's `and_run2`.
pub(crate) fn hinted_in_write(error: DriverError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index),
        false => error.into(),
    }
}
