//! Reads of parents and children.

pub(crate) mod page;
pub(crate) mod unmanaged;

use crate::form::embedded::Embedded;
use crate::form::parent::ParentState;
use crate::query::Figures;
use crate::query::first_children::{CHILD, SUBSET};
use crate::repository::prelude::*;

/// Reads the state of a parent: from the primary, or from the snapshot of a transaction.
pub(crate) async fn find_state(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<ParentState>> {
    let settings = &shared.settings;
    let options = options::find_state(settings, is_in_transaction(conn));
    let found = conn.find_one(&shared.parents, query::by_id(parent), options).await?;
    Ok(found.map(|document| ParentState::of(settings, document)))
}

pub(crate) fn is_in_transaction(conn: &Conn<'_>) -> bool {
    conn.is_in_transaction()
}

/// Reads the first children for each subset, as they are embedded.
pub(crate) async fn first_children(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Embedded> {
    let Shared { children, settings, .. } = shared;
    let in_transaction = is_in_transaction(conn);
    let failed = |error| hinted(error, &settings.order_index);
    if settings.further.is_empty() && !settings.is_covered() {
        let options = options::find_first_children(settings, in_transaction);
        let filter = query::children_of(settings, parent);
        let found = conn.find_all(children, filter, options).await;
        return found.map(Embedded::only).map_err(failed);
    }
    let stages = query::first_children::of_all_subsets(settings, children.name(), parent);
    let options = options::first_children_of_all(settings, in_transaction);
    let rows = conn.aggregate_all(children, stages, options).await;
    let mut embedded = Embedded::none(settings);
    for row in rows.map_err(failed)? {
        add_child(&mut embedded, &row);
    }
    Ok(embedded)
}

/// Adds the child of a row to its subset. Returns whether the row has one.
pub(crate) fn add_child(embedded: &mut Embedded, row: &RawDocument) -> bool {
    let Ok(child) = row.get_document(CHILD) else {
        return false;
    };
    let further = row.get_i32(SUBSET).ok().and_then(|number| usize::try_from(number).ok());
    embedded.add(further, child.to_owned());
    true
}

/// Computes what the parent stores of all its children.
pub(crate) async fn figures(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Figures> {
    let settings = &shared.settings;
    if settings.computed.is_empty() {
        let (total, computed) = (total(shared, parent, conn).await?, Document::new());
        return Ok(Figures { total, computed });
    }
    let in_transaction = is_in_transaction(conn);
    let mut pipelines = query::computed::of_parent(settings, parent);
    if !in_transaction {
        pipelines = vec![query::computed::union(shared.children.name(), pipelines)];
    }
    let mut rows = Vec::new();
    for (of, stages) in settings.sources().into_iter().zip(pipelines) {
        let index = settings.values_index(of);
        let options = options::compute(settings, &index, in_transaction);
        let read = conn.aggregate_all(&shared.children, stages, options).await;
        rows.extend(read.map_err(|error| hinted(error, &index))?);
    }
    let counted = rows.iter().find_map(|row| row.get_i64(query::computed::TOTAL).ok());
    Ok(Figures {
        total: settings.total.as_ref().map(|_| counted.unwrap_or(0)),
        computed: query::computed::of_rows(settings, &rows),
    })
}

/// Counts the children, if the parent stores their number.
async fn total(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<i64>> {
    let settings = &shared.settings;
    if settings.total.is_none() {
        return Ok(None);
    }
    let options = options::count_children(settings, is_in_transaction(conn));
    let filter = query::children_of(settings, parent);
    let counted = conn.count_documents(&shared.children, filter, options).await;
    let counted = counted.map_err(|error| hinted(error, &settings.child_index))?;
    Ok(i64::try_from(counted).ok())
}
