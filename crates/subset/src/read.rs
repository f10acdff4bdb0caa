//! Reads of parents and children.

pub(crate) mod page;
pub(crate) mod unmanaged;

use crate::form::child::is_id;
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
pub(crate) fn hinted(error: CommandError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index).caused_by(error),
        false => error.into(),
    }
}

/// Names a missing index in the error of a command that is part of a write. Omits the driver's error, which would
/// replace this one in the driver's `and_run2`.
pub(crate) fn hinted_in_write(error: CommandError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index),
        false => error.into(),
    }
}

/// Reads the first children, as they are embedded.
pub(crate) async fn first_children(
    shared: &Shared,
    parent: &Bson,
    session: Option<&mut Session<'_>>,
) -> Result<Vec<RawDocumentBuf>> {
    let settings = &shared.settings;
    let options = options::find_first_children(settings, is_in_transaction(session.as_deref()));
    let filter = query::children_of(settings, parent);
    let found = send::find_all(session, &shared.children, filter, options).await;
    found.map_err(|error| hinted_in_write(error, &settings.order_index))
}

/// Reads the first children as they are embedded, and then the state of their parent. Not in a transaction.
pub(crate) async fn first_children_and_state(
    shared: &Shared,
    parent: &Bson,
    session: Option<&mut Session<'_>>,
) -> Result<(Vec<RawDocumentBuf>, Option<ParentState>)> {
    let settings = &shared.settings;
    let stages = query::first_children_and_state(settings, shared.parents.name(), parent);
    let options = options::first_children_and_state(settings);
    let rows = send::aggregate_all(session, &shared.children, stages, options).await;
    let rows = rows.map_err(|error| hinted_in_write(error, &settings.order_index))?;
    let (mut children, mut state) = (Vec::with_capacity(rows.len()), None);
    for row in rows {
        let document = |field: &str| row.get_document(field).ok().map(ToOwned::to_owned);
        match document(query::CHILD) {
            Some(child) => children.push(child),
            None => state = document(query::PARENT).map(|parent| ParentState::of(settings, parent)),
        }
    }
    Ok((children, state))
}

/// Counts the children, if the parent stores their number.
pub(crate) async fn total(shared: &Shared, parent: &Bson, session: Option<&mut Session<'_>>) -> Result<Option<i64>> {
    let settings = &shared.settings;
    if settings.total.is_none() {
        return Ok(None);
    }
    let options = options::count_children(settings, is_in_transaction(session.as_deref()));
    let filter = query::children_of(settings, parent);
    let counted = send::count_documents(session, &shared.children, filter, options).await;
    let counted = counted.map_err(|error| hinted_in_write(error, &settings.child_index))?;
    Ok(i64::try_from(counted).ok())
}

/// Returns documents as the elements of an array.
pub(crate) fn elements(documents: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
    let elements = documents
        .iter()
        .map(|child| Bson::try_from(RawBsonRef::Document(child)));
    let elements: bson::error::Result<Vec<Bson>> = elements.collect();
    Ok(elements.map_err(CommandError::from)?)
}

pub(crate) fn includes(settings: &Settings, embedded: &[RawDocumentBuf], child: &Bson) -> bool {
    let field = settings.child_id.as_str();
    embedded
        .iter()
        .any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
}
