//! Writes in a transaction.

use super::change::{Write, Written};
use super::error::of_parent;
use super::unmanaged::increment_first_version;
use crate::query::Derived;
use crate::read::{elements, first_children, total};
use crate::repository::prelude::*;

pub(super) async fn write(write: &Write<'_>, session: &mut Session<'_>) -> Result<Written> {
    let Shared { parents, settings, .. } = write.shared;
    for parent in &write.parents {
        let managed = query::managed(settings, parent);
        let increment = query::increment_version(settings);
        let updated = send::update_one(Some(&mut *session), parents, managed, increment, None).await?;
        if updated.matched_count == 0 {
            increment_first_version(write.shared, parent, &mut *session).await?;
        }
    }
    let applied = write.apply(Some(&mut *session)).await;
    let mut written = applied.map_err(|failure| failure.error)?;
    for parent in &write.parents {
        let embedded = first_children(write.shared, parent, Some(&mut *session)).await?;
        let subset = elements(&embedded)?;
        let updated = write_parent(write, parent, subset, written.found, session).await;
        written.parents += updated.map_err(of_parent)?;
        written.embedded += embedded.len() as u64;
        written.in_subset |= write.embeds(&embedded);
    }
    Ok(written)
}

/// Writes the subset and the total of a parent. Returns the number of parents that it wrote.
async fn write_parent(
    write: &Write<'_>,
    parent: &Bson,
    subset: Vec<Bson>,
    found: bool,
    session: &mut Session<'_>,
) -> Result<u64> {
    let Shared { parents, settings, .. } = write.shared;
    if let Some(field) = &settings.total
        && let Some(added) = write.added_to(parent, found)
    {
        let add = query::set_subset_and_add(settings, field, subset.clone(), added);
        let filter = query::with_total(field, parent);
        let updated = send::update_one(Some(&mut *session), parents, filter, add, None).await?;
        if updated.matched_count > 0 {
            return Ok(updated.matched_count);
        }
    }
    let total = total(write.shared, parent, Some(&mut *session)).await?;
    let set = query::set_subset(settings, Derived { subset, total });
    let updated = send::update_one(Some(session), parents, query::by_id(parent), set, None).await?;
    Ok(updated.matched_count)
}
