//! An update of an item that changes the figures or the bytes of its bucket.
//!
//! # Design
//!
//! ## Why are there two commands?
//!
//! An update with operators cannot compute the figures from the changed items. So it marks them as not current, by
//! their count, and a second command computes them. In between, and if the second command is never sent, reads take the
//! items of the bucket. Whichever of several writers computes the figures, it computes them from all items. Bytes have no
//! mark: an append needs a number, and a wrong one lets a bucket be larger or smaller, as an update itself does.

use mongo_patterns_core::Updated;
use mongodb::bson::RawBson;
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument, UpdateModifications};

use crate::prelude::*;
use crate::query::figures::{marked, recomputed};
use crate::settings::Settings;
use crate::settings::figures::Figures;

/// An update of a field with figures, or of any field of an item whose bytes are counted.
pub(crate) struct FigureUpdate {
    update: Document,
    figures: Vec<Document>,
}

impl FigureUpdate {
    /// Returns the update of an item if it changes figures or bytes, and cannot compute them.
    ///
    /// # Errors
    /// Those of an item with a value of which there can be no figures.
    pub(crate) fn of(settings: &Settings, update: &UpdateModifications) -> Result<Option<Self>> {
        let UpdateModifications::Document(update) = update else {
            return Ok(None);
        };
        let changed = match &settings.figures {
            Some(figures) => changes_figures(settings, figures, update)?.then_some(figures),
            None => None,
        };
        if changed.is_none() && settings.bytes.is_none() {
            return Ok(None);
        }
        let update = update.clone();
        Ok(Some(Self {
            update: match changed {
                Some(figures) => marked(figures, update),
                None => update,
            },
            figures: recomputed(settings).into_iter().collect(),
        }))
    }

    /// Updates the item of a filter, and computes the figures. `None` when no bucket has the item. The options project
    /// the item.
    pub(super) async fn run(
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
            // The item is changed. Its figures are marked, and its bytes are those before, until a repair.
            Err(_) => Ok(Some(Updated::new(true))),
        }
    }
}

/// Returns whether an update of an item changes a field with figures.
///
/// # Errors
/// When the item could have a value of which there can be no figures.
fn changes_figures(settings: &Settings, figures: &Figures, update: &Document) -> Result<bool> {
    let mut changes = false;
    for (operator, paths) in update {
        for (path, value) in paths.as_document().into_iter().flatten() {
            // The array, the position of the item, the field of the item.
            let mut path = path.splitn(4, '.').skip(2);
            let (field, below) = (path.next(), path.next());
            let changed = figures.of.iter().find(|figure| field == Some(figure.field.as_str()));
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
