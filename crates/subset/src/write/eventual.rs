//! Writes without a transaction: the children first, then their parents.

use super::change::{Change, Failure, Write, Written};
use super::error::{no_parent, with_stored};
use super::refresh::{Before, refresh};
use super::unmanaged::ensure_managed;
use crate::prelude::*;
use crate::query::{self, options};
use crate::read::find_state;
use crate::repository::refreshes::{Needs, Refreshed};

pub(super) async fn write(write: &Write<'_>, mut session: Option<&mut Session<'_>>) -> Result<Written> {
    let shared = write.shared;
    let mut before = Vec::with_capacity(write.parents.len());
    for parent in &write.parents {
        let unread = Before::unread(shared, parent);
        before.push(match may_skip_read(write, parent) {
            true => unread,
            false => {
                let state = find_state(shared, parent, session.as_deref_mut()).await?;
                let state = state.ok_or_else(no_parent)?;
                unread.read(ensure_managed(shared, parent, state, session.as_deref_mut()).await?)
            }
        });
    }
    let applied = write.apply(session.as_deref_mut()).await;
    let stored = match &applied {
        Ok(written) if !written.found => 0,
        Ok(_) => write.children(),
        Err(Failure {
            stored: Some(stored), ..
        }) => *stored,
        Err(_) => return applied.map_err(Failure::into_error),
    };
    // Also if the child exists already: the call that stored it may have been interrupted before it wrote the parent.
    let refreshed = refresh_all(write, before, stored, session).await?;
    let Written { found, modified, .. } = applied.map_err(Failure::into_error)?;
    Ok(Written {
        found,
        modified,
        ..refreshed
    })
}

/// Returns whether the version of the parent is cached, which saves a round trip. Only an insert for one parent can be
/// undone if that parent no longer exists.
fn may_skip_read(write: &Write<'_>, parent: &Bson) -> bool {
    let can_be_undone = write.is_insert() && write.parents.len() == 1;
    can_be_undone && write.shared.versions.version(parent).is_some()
}

/// Refreshes the parents, after `stored` children were stored.
async fn refresh_all(
    write: &Write<'_>,
    before: Vec<Before<'_>>,
    stored: usize,
    mut session: Option<&mut Session<'_>>,
) -> Result<Written> {
    let shared = write.shared;
    let mut written = Written::default();
    let (mut stored_before_orphans, mut failed) = (None, None);
    // A new child always changes the total, and may change computed fields.
    let may_skip = write.is_insert() && stored > 0 && !shared.settings.counts_children();
    for (parent, before) in write.parents.iter().zip(before) {
        let needs = Needs {
            write: !may_skip,
            children: write.new_child().filter(|_| may_skip).into_iter().collect(),
        };
        let was_read = before.was_read();
        let refreshed = refresh(shared, parent, before, needs, session.as_deref_mut()).await;
        let refreshed = match refreshed {
            // A read of the parent would have refused the child before it was stored.
            Err(error) if !was_read && error.kind() == ErrorKind::NotMigrated => {
                let left = delete_orphans(write, parent, stored, session.as_deref_mut()).await?;
                return Err(with_stored(error, left));
            }
            // The error concerns only this parent. The others are still refreshed.
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::NotMigrated) => {
                failed.get_or_insert(error);
                continue;
            }
            refreshed => refreshed.map_err(|error| with_stored(error, stored))?,
        };
        match refreshed {
            Refreshed::Done {
                embedded,
                written: by_us,
            } => {
                written.parents += u64::from(by_us);
                written.embedded += embedded.count() as u64;
                written.in_subset |= write.embeds(&embedded);
            }
            Refreshed::NoParent => {
                let left = delete_orphans(write, parent, stored, session.as_deref_mut()).await?;
                stored_before_orphans = Some(left);
            }
        }
    }
    if let Some(error) = failed {
        return Err(with_stored(error, stored_before_orphans.unwrap_or(stored)));
    }
    match stored_before_orphans {
        Some(stored) if !matches!(write.change, Change::Delete) => Err(with_stored(no_parent(), stored)),
        _ => Ok(written),
    }
}

/// Deletes the children that were inserted for a parent that no longer exists. Returns how many stored children precede
/// them, or all if nothing was inserted.
async fn delete_orphans(
    write: &Write<'_>,
    parent: &Bson,
    stored: usize,
    session: Option<&mut Session<'_>>,
) -> Result<usize> {
    let settings = &write.shared.settings;
    let Change::Insert(inserted) = &write.change else {
        return Ok(stored);
    };
    let is_orphan = |child: &&RawDocumentBuf| value(child, &settings.parent).as_ref() == Some(parent);
    let orphans = inserted[..stored].iter().filter(is_orphan);
    let ids: Vec<Bson> = orphans.filter_map(|child| value(child, &settings.child_id)).collect();
    let filter = query::children_among(settings, parent, &ids);
    let options = options::delete_children(settings);
    let deleted = send::delete_many(session, &write.shared.children, filter, options).await;
    deleted.map_err(|error| with_stored(error.into(), stored))?;
    let first_orphan = inserted.iter().position(|child| is_orphan(&child));
    Ok(first_orphan.unwrap_or(stored).min(stored))
}
