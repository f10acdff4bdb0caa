//! The computed fields in a transaction, which changes them by what it adds and removes.
//!
//! # Design
//!
//! ## Why does a change return the child before it?
//!
//! A sum without the old value of a child is its new sum. `findAndModify` writes the child and returns it in one round trip.
//! The child after the change comes with the first children, because an update can have operators.

use super::change::{Change, Write, Written, child_not_found};
use crate::form::embedded::Embedded;
use crate::query::computed::change::{ValueChange, set_subsets_and_change, with_figures};
use crate::query::computed::{CHANGED, EXTREME, VALUE, first_children_and_values};
use crate::read::{add_child, first_children};
use crate::repository::prelude::*;

/// The first children of a parent for each subset, and what its computed fields need.
pub(super) struct Children {
    pub(super) embedded: Embedded,
    /// The minima and maxima by the numbers of their fields; null for other fields.
    extremes: Vec<Bson>,
    /// The changed child as it is now.
    changed: Option<RawDocumentBuf>,
}

/// Applies a change. Returns also the child before it, if computed fields need it.
pub(super) async fn apply(write: &Write<'_>, conn: &mut Conn<'_>) -> Result<(Written, Option<RawDocumentBuf>)> {
    let Shared { children, settings, .. } = write.shared;
    let (Some(child), [parent], true) = (&write.child, write.parents.as_slice(), needs_old_child(settings)) else {
        return Ok((write.apply(conn).await?, None));
    };
    let filter = query::child(settings, parent, child);
    let before = match &write.change {
        Change::Update(update) => {
            let options = options::find_and_update_child(settings);
            conn.find_one_and_update(children, filter, update.clone(), options)
                .await
        }
        Change::Replace(document) => {
            let options = options::find_and_replace_child(settings);
            conn.find_one_and_replace(children, filter, document.clone(), options)
                .await
        }
        Change::Delete => {
            let options = options::find_and_delete_child(settings);
            conn.find_one_and_delete(children, filter, options).await
        }
        Change::Insert(_) | Change::Nothing => return Ok((write.apply(conn).await?, None)),
    };
    let before = before.map_err(|error| write.not_written(error))?;
    if before.is_none() && !matches!(write.change, Change::Delete) {
        return Err(child_not_found());
    }
    let found = u64::from(before.is_some());
    Ok((Written::child(found, found), before))
}

/// Returns whether there are sums or counts, which change by the old value of a child.
fn needs_old_child(settings: &Settings) -> bool {
    settings.computed.iter().any(|computed| !computed.figure.is_extreme())
}

impl Children {
    /// Reads the children of a parent after a write. `before` is the child before it.
    pub(super) async fn read(
        write: &Write<'_>,
        parent: &Bson,
        before: Option<&RawDocumentBuf>,
        conn: &mut Conn<'_>,
    ) -> Result<Self> {
        let Shared { children, settings, .. } = write.shared;
        let is_deleted = matches!(write.change, Change::Delete);
        let changed = write.child.as_ref().filter(|_| before.is_some() && !is_deleted);
        let has_extremes = settings.computed.iter().any(|computed| computed.figure.is_extreme());
        let mut read = Self {
            embedded: Embedded::none(settings),
            extremes: vec![Bson::Null; settings.computed.len()],
            changed: None,
        };
        if changed.is_none() && !has_extremes {
            read.embedded = first_children(write.shared, parent, conn).await?;
            return Ok(read);
        }
        let stages = first_children_and_values(settings, children.name(), parent, changed);
        let options = options::first_children_and_values(settings);
        let rows = conn.aggregate_all(children, stages, options).await;
        let rows = rows.map_err(|error| hinted(error, &settings.order_index))?;
        for row in rows {
            if add_child(&mut read.embedded, &row) {
                continue;
            }
            if let Ok(changed) = row.get_document(CHANGED) {
                read.changed = Some(changed.to_owned());
            } else if let Some(number) = row
                .get_i32(EXTREME)
                .ok()
                .and_then(|number| usize::try_from(number).ok())
                && let Some(extreme) = read.extremes.get_mut(number)
            {
                *extreme = value(&row, VALUE).unwrap_or(Bson::Null);
            }
        }
        Ok(read)
    }

    /// Returns whether the write changed the child. `None` if it is not known from the child.
    pub(super) fn is_modified(&self, before: Option<&RawDocumentBuf>) -> Option<bool> {
        let (before, changed) = (before?, self.changed.as_ref()?);
        Some(before.as_bytes() != changed.as_bytes())
    }

    /// Returns the write of a parent that changes its computed fields and its total: a filter and a pipeline. `None` if
    /// they must be computed from all children.
    pub(super) fn change_of(
        &self,
        write: &Write<'_>,
        parent: &Bson,
        before: Option<&RawDocumentBuf>,
        found: bool,
        subsets: Document,
    ) -> Option<(Document, Vec<Document>)> {
        let settings = &write.shared.settings;
        let added = write.added_to(parent, found)?;
        let new: Vec<&RawDocument> = match &write.change {
            Change::Insert(inserted) => write.of_parent(inserted, parent).collect(),
            _ => self.changed.as_deref().into_iter().collect(),
        };
        let old: Vec<&RawDocument> = before.map(|before| &**before).into_iter().collect();
        let sources = settings.sources().into_iter();
        let changes: Vec<ValueChange> = sources
            .map(|of| ValueChange::of(of, old.iter().copied(), new.iter().copied()))
            .collect();
        let filter = with_figures(settings, parent, &changes)?;
        let update = set_subsets_and_change(settings, subsets, added, &changes, &self.extremes);
        Some((filter, update))
    }
}
