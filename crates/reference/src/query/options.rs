//! Options of the driver's calls.

use mongodb::options::{
    AggregateOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, ReturnDocument, SelectionCriteria,
    UpdateOptions,
};

use super::CopyUpdate;
use crate::prelude::*;

/// How many documents a scan reads by one command.
pub(crate) const BATCH: usize = 500;

/// Returns the selection criteria and the read concern of a read that decides about a write, or that checks stored
/// data: the latest data of the primary. In a transaction those of the transaction.
fn latest(conn: &Conn<'_>) -> (Option<SelectionCriteria>, Option<ReadConcern>) {
    match conn.is_in_transaction() {
        true => (None, None),
        false => (Some(primary()), Some(ReadConcern::local())),
    }
}

fn hint(index: &str) -> Hint {
    Hint::Name(index.to_owned())
}

/// A read of sources.
pub(crate) fn find_sources(projection: Document, conn: &Conn<'_>) -> FindOptions {
    let (criteria, concern) = latest(conn);
    FindOptions::builder()
        .projection(projection)
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

/// A read of the fields with references of one document.
pub(crate) fn find_document(projection: Document, conn: &Conn<'_>) -> FindOneOptions {
    let (criteria, concern) = latest(conn);
    FindOneOptions::builder()
        .projection(projection)
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

/// A read of any reference to a source.
pub(crate) fn find_reference(field: &ReferenceField, conn: &Conn<'_>) -> FindOneOptions {
    let mut options = find_document(doc! { "_id": 1 }, conn);
    options.hint = Some(hint(&field.index));
    options
}

/// An update of a source that returns it.
pub(crate) fn update_source(projection: Document) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .projection(projection)
        .return_document(ReturnDocument::After)
        .build()
}

/// An update of the copies of a source.
pub(crate) fn update_copies(field: &ReferenceField, update: &CopyUpdate) -> UpdateOptions {
    UpdateOptions::builder()
        .array_filters(update.array_filters.clone())
        .hint(hint(&field.index))
        .build()
}

/// An update of the copies in one document.
pub(crate) fn update_copy(update: &CopyUpdate) -> UpdateOptions {
    UpdateOptions::builder()
        .array_filters(update.array_filters.clone())
        .build()
}

/// A scan of all referring documents, or a read of some.
pub(crate) fn scan(projection: Document) -> FindOptions {
    let mut options = find_sources(projection, &Conn::new());
    options.batch_size = u32::try_from(BATCH).ok();
    options
}

/// A scan of the copies in the order of their index.
pub(crate) fn scan_index(index: &str) -> AggregateOptions {
    let (criteria, concern) = latest(&Conn::new());
    AggregateOptions::builder()
        .hint(hint(index))
        .allow_disk_use(true)
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}
