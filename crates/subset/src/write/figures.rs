//! The figures in a transaction, which changes them by what it adds and removes.
//!
//! # Design
//!
//! ## Why does a change return the child before it?
//!
//! A sum without the old value of a child is its new sum. `findAndModify` writes the child and returns it in one round trip.
//! The child after the change comes with the first children.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::stored::value;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use mongodb::options::UpdateModifications;

use super::change::{Change, ParentWrite};
use crate::form::parent::Embedded;
use crate::query::figures::change::{ValueChange, set_and_add, set_and_change, with_figures};
use crate::query::figures::{CHANGED, EXTREME, VALUE, first_children_and_values};
use crate::query::options;
use crate::read::{add_child, first_children};
use crate::repository::Shared;

/// The first children of a parent for each subset, and what its figures need.
pub(super) struct Children {
    pub(super) embedded: Embedded,
    /// The minima and maxima by the numbers of their fields; null for other fields.
    extremes: Vec<Bson>,
    /// The changed child as it is now.
    changed: Option<RawDocumentBuf>,
}

impl Children {
    /// Reads the children of a parent after a write. `before` is the child before it.
    pub(super) async fn read(
        write: &ParentWrite<'_>,
        parent: &Bson,
        before: Option<&RawDocumentBuf>,
        conn: &mut Conn<'_>,
    ) -> Result<Self> {
        let Shared { children, settings, .. } = write.shared;
        let is_deleted = matches!(write.change, Change::Delete);
        let changed = write.child.as_ref().filter(|_| before.is_some() && !is_deleted);
        let has_extremes = settings.computed().any(|computed| computed.kind.is_extreme());
        let mut read = Self {
            embedded: Embedded::none(settings),
            extremes: vec![Bson::Null; settings.computed().count()],
            changed: None,
        };
        if changed.is_none() && !has_extremes {
            read.embedded = first_children(write.shared, parent, conn).await?;
            return Ok(read);
        }
        let stages = first_children_and_values(settings, children.name(), parent, changed);
        let most = settings.most_embedded().saturating_add(settings.most_computed());
        // With the changed child.
        let options = options::aggregate(&settings.order_index, most.saturating_add(1));
        let rows = conn.aggregate_all(children, stages, options).await?;
        for row in rows {
            if add_child(&mut read.embedded, &row) {
                continue;
            }
            if let Ok(changed) = row.get_document(CHANGED) {
                read.changed = Some(changed.to_owned());
                continue;
            }
            let number = row
                .get_i32(EXTREME)
                .ok()
                .and_then(|number| usize::try_from(number).ok());
            if let Some(extreme) = number.and_then(|number| read.extremes.get_mut(number)) {
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

    /// Returns the write of a parent that changes its figures: a filter and an update. `None` without figures, or if all
    /// children are needed.
    pub(super) fn change_of(
        &self,
        write: &ParentWrite<'_>,
        parent: &Bson,
        before: Option<&RawDocumentBuf>,
        found: bool,
        subsets: &Document,
    ) -> Option<(Document, UpdateModifications)> {
        let settings = &write.shared.settings;
        if settings.figures.is_empty() {
            return None;
        }
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
        let update = match settings.total().filter(|_| changes.is_empty()) {
            Some(total) => set_and_add(total, subsets.clone(), added).into(),
            None => set_and_change(settings, subsets, added, &changes, &self.extremes).into(),
        };
        Some((filter, update))
    }
}
