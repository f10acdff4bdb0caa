//! Unmanaged parents: no repository has written them yet, and the children that they embed may be stored nowhere else.
//!
//! # Design
//!
//! ## Why is the first write to a parent special?
//!
//! Writing the subset of an unmanaged parent would lose the embedded children that their collection does not have. So
//! the first write checks that all of them are stored, and compares the embedded ids when it writes. It precedes every
//! change of the children: as long as a parent has no version, no repository changes or deletes what a migration
//! copies.

use mongo_patterns_core::error::Remedy;

use super::{find_state, is_in_transaction};
use crate::form::parent::ParentState;
use crate::repository::prelude::*;

/// Checks that all children that an unmanaged parent embeds are stored. One round trip for each subset of an unmanaged
/// parent that has children, none for all others.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated).
pub(crate) async fn check(shared: &Shared, parent: &Bson, state: &ParentState, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let subsets = state.ids_of_subsets(settings).unwrap_or_default();
    for (field, ids) in settings.subset_fields().zip(subsets) {
        if !are_stored(shared, parent, &ids, conn).await? {
            return Err(not_migrated(parent, field));
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
    let options = options::count_children(settings, is_in_transaction(conn));
    let filter = query::children_among(settings, parent, ids);
    let counted = conn.count_documents(&shared.children, filter, options).await;
    // The index is unique, so embedded children with equal ids are counted once.
    let stored = counted.map_err(|error| hinted(error, &settings.child_index))?;
    Ok(stored == ids.len() as u64)
}

/// Returns the filter by which a parent can be deleted with its children, or `None` if it does not exist.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated).
pub(crate) async fn deletable(shared: &Shared, parent: &Bson, conn: &mut Conn<'_>) -> Result<Option<Document>> {
    let Some(state) = find_state(shared, parent, conn).await? else {
        return Ok(None);
    };
    check(shared, parent, &state, conn).await?;
    let settings = &shared.settings;
    Ok(Some(match state.is_unmanaged(settings) {
        true => query::unchanged(settings, parent, &state),
        false => query::managed(settings, parent),
    }))
}

fn not_migrated(parent: &Bson, subset: &FieldName) -> Error {
    let message = "no repository has written the parent, and it embeds children that their collection does not have; the parent was not written: migrate them with migrate_from_embedded(), or discard them with rebuild(..).discard_embedded()";
    let error = Error::new(ErrorKind::NotMigrated, message).with_remedy(Remedy::DiscardEmbedded);
    error.at(parent.clone(), subset.as_str())
}
