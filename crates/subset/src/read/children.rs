//! The children from which a parent's subset and total are derived.

use mongodb::bson;

use super::{hinted_in_write, is_in_transaction};
use crate::form::child::is_id;
use crate::repository::prelude::*;

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
    Ok(elements.map_err(DriverError::from)?)
}

pub(crate) fn includes(settings: &Settings, embedded: &[RawDocumentBuf], child: &Bson) -> bool {
    let field = settings.child_id.as_str();
    embedded
        .iter()
        .any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
}
