//! An update of an item that changes the figures of its bucket.
//!
//! # Design
//!
//! ## Why are there two commands?
//!
//! An update with operators cannot compute the figures from the changed items. So it marks them as not current, by their
//! count, and a second command computes them. In between, and if the second command is never sent, reads take the items of
//! the bucket.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{Result, Updated, send};
use mongodb::Collection;
use mongodb::bson::{Document, RawBson, RawDocumentBuf};
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument, UpdateModifications};

use crate::query::figures::{marked, recomputed};
use crate::settings::Settings;
use crate::settings::figures::Figures;

/// An update of a field with figures.
pub(crate) struct FigureUpdate {
    update: Document,
    figures: Vec<Document>,
}

impl FigureUpdate {
    /// Returns the update of an item if it changes figures, and cannot compute them.
    pub(crate) fn new(settings: &Settings, update: &UpdateModifications) -> Result<Option<Self>> {
        let (UpdateModifications::Document(update), Some(figures)) = (update, &settings.figures) else {
            return Ok(None);
        };
        if !changes_figures(settings, figures, update)? {
            return Ok(None);
        }
        Ok(Some(Self {
            update: marked(figures, update.clone()),
            figures: recomputed(settings).into_iter().collect(),
        }))
    }

    /// Updates the item of a filter, and computes the figures. `None` when no bucket has the item.
    pub(super) async fn update_item(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        mut options: FindOneAndUpdateOptions,
        conn: &mut Conn<'_>,
    ) -> send::Result<Option<Updated>> {
        let (update, figures) = (self.update.clone(), self.figures.clone());
        options.return_document = Some(ReturnDocument::Before);
        let (filter_again, options_before) = (filter.clone(), options.clone());
        let before = conn
            .find_one_and_update(collection, filter, update, options_before)
            .await?;
        let Some(before) = before else { return Ok(None) };
        let is_in_session = conn.has_session();
        options.return_document = Some(ReturnDocument::After);
        match conn
            .find_one_and_update(collection, filter_again, figures, options)
            .await
        {
            Ok(after) => Ok(Some(Updated::new(after.is_none_or(|after| after != before)))),
            Err(error) if is_in_session => Err(error),
            // The item is changed, and its figures are marked.
            Err(_) => Ok(Some(Updated::new(true))),
        }
    }
}

/// Returns whether an update of an item changes a field with figures.
fn changes_figures(settings: &Settings, figures: &Figures, update: &Document) -> Result<bool> {
    let mut changes = false;
    for (operator, paths) in update {
        for (path, value) in paths.as_document().into_iter().flatten() {
            // The array, the position of the item, the field of the item.
            let mut path = path.splitn(4, '.').skip(2);
            let (field, below) = (path.next(), path.next());
            let changed = figures
                .fields
                .iter()
                .find(|figure| field == Some(figure.field.as_str()));
            changes |= changed.is_some() || field.is_none();
            let Some(figure) = changed else { continue };
            match operator.as_str() {
                "$set" | "$inc" | "$mul" | "$min" | "$max" if below.is_none() => {
                    let value = RawBson::try_from(value.clone()).map_err(CommandError::from)?;
                    figure.check(settings.page_size, Some(value.as_raw_bson_ref()))?;
                }
                "$currentDate" if below.is_none() && figure.times => {}
                _ => figure.check(settings.page_size, None)?,
            }
        }
    }
    Ok(changes)
}
