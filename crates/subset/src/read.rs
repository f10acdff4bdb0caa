//! Reads of parents and children.
//!
//! A parent is *unmanaged* if no repository has written it yet. The children that it embeds may be stored nowhere else.
//!
//! # Design
//!
//! ## Why is the first write to a parent special?
//!
//! A write of the subset of an unmanaged parent would lose the embedded children that their collection lacks. So the first
//! write checks that all are stored, and compares the embedded ids when it writes. It precedes every change of the children:
//! as long as a parent has no version, no repository changes or deletes copies of a migration.

pub(crate) mod page;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document, RawDocument, doc};

use crate::form::parent::{Embedded, ParentState};
use crate::query::figures::{of_parent, of_rows, union};
use crate::query::first_children::{CHILD, SUBSET, of_all_subsets};
use crate::query::{self, options};
use crate::repository::Shared;

/// Reads the state of a parent: from the primary, or from the snapshot of a transaction.
pub(crate) async fn find_state(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<ParentState>> {
    let settings = &shared.settings;
    let options = options::find_state(settings);
    let found = conn.find_one(&shared.parents, query::by_id(parent), options).await?;
    Ok(found.map(|document| ParentState::of(settings, document)))
}

/// Reads the first children for each subset, as they are embedded.
pub(crate) async fn first_children(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Embedded> {
    let Shared { children, settings, .. } = shared;
    if settings.subsets.len() == 1 && !settings.first().is_covered() {
        let options = options::find_first_children(settings);
        let filter = query::children_of(settings, parent);
        return Ok(Embedded(vec![conn.find_all(children, filter, options).await?]));
    }
    let stages = of_all_subsets(settings, children.name(), parent);
    let options = options::aggregate(&settings.order_index, settings.most_embedded());
    let rows = conn.aggregate_all(children, stages, options).await?;
    let mut embedded = Embedded::none(settings);
    for row in rows {
        add_child(&mut embedded, &row);
    }
    Ok(embedded)
}

/// Adds the child of a row to its subset. Returns whether the row has one.
pub(crate) fn add_child(embedded: &mut Embedded, row: &RawDocument) -> bool {
    let Ok(child) = row.get_document(CHILD) else {
        return false;
    };
    let number = row.get_i32(SUBSET).map_or(0, |number| number.saturating_add(1));
    let subset = usize::try_from(number)
        .ok()
        .and_then(|number| embedded.0.get_mut(number));
    if let Some(subset) = subset {
        subset.push(child.to_owned());
    }
    true
}

/// Computes the figures of a parent: its fields with their values.
pub(crate) async fn figures(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Document> {
    let Shared { children, settings, .. } = shared;
    let sources = settings.sources();
    if sources.is_empty() {
        let Some(total) = settings.total() else {
            return Ok(Document::new());
        };
        let options = options::count_children(settings);
        let counted = conn
            .count_documents(children, query::children_of(settings, parent), options)
            .await?;
        return Ok(doc! { total.as_str(): i64::try_from(counted).unwrap_or(i64::MAX) });
    }
    let mut pipelines = of_parent(settings, parent);
    if !conn.is_in_transaction() {
        pipelines = vec![union(children.name(), pipelines)];
    }
    let mut rows = Vec::new();
    for (of, stages) in sources.into_iter().zip(pipelines) {
        let index = settings.values_index(of);
        let options = options::aggregate(&index, settings.most_computed());
        rows.extend(conn.aggregate_all(children, stages, options).await?);
    }
    Ok(of_rows(settings, &rows))
}

/// Checks that all children that an unmanaged parent embeds are stored. At most one round trip for each subset.
pub(crate) async fn require_stored(
    shared: &Shared,
    parent: &Bson,
    state: &ParentState,
    conn: &mut Conn<'_>,
) -> Result<()> {
    let settings = &shared.settings;
    let subsets = state.ids_of_subsets(settings).unwrap_or_default();
    for (subset, ids) in settings.subsets.iter().zip(subsets) {
        if !are_stored(shared, parent, &ids, conn).await? {
            return Err(not_migrated(parent, &subset.field));
        }
    }
    Ok(())
}

/// Returns whether the embedded children with these ids are stored.
async fn are_stored(shared: &Shared, parent: &Bson, ids: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let settings = &shared.settings;
    let is_valid = |id: &Bson| DocumentId::new(id.clone()).is_ok();
    let ids = match ids {
        Bson::Array(ids) if ids.is_empty() => return Ok(true),
        Bson::Array(ids) if ids.iter().all(is_valid) => ids,
        _ => return Ok(false),
    };
    let options = options::count_children(settings);
    let filter = query::children_among(settings, parent, ids);
    // The index is unique, so embedded children with equal ids are counted once.
    let stored = conn.count_documents(&shared.children, filter, options).await?;
    Ok(stored == ids.len() as u64)
}

/// Returns the filter by which a parent can be deleted with its children, or `None` if it does not exist.
pub(crate) async fn deletable(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<Document>> {
    let Some(state) = find_state(shared, parent, conn).await? else {
        return Ok(None);
    };
    require_stored(shared, parent, &state, conn).await?;
    let settings = &shared.settings;
    Ok(Some(match state.is_unmanaged(settings) {
        true => query::unchanged(settings, parent, &state),
        false => query::managed(settings, parent),
    }))
}

fn not_migrated(parent: &Bson, subset: &FieldName) -> Error {
    let message = "no repository has written the parent, and it embeds children that their collection does not have; the parent was not written: migrate them with migrate_from_embedded(), or discard them with refresh(..).discard_embedded()";
    let error = Error::new(ErrorKind::NotMigrated, message).with_remedy(Remedy::DiscardEmbedded);
    error.of_document(parent.clone(), subset.as_str())
}
