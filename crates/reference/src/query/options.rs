//! Options of the driver's calls.

use mongo_patterns_core::send;
use mongodb::bson::{Document, doc};
use mongodb::options::{
    AggregateOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, ReturnDocument, UpdateOptions,
};

use super::CopyUpdate;
use crate::settings::ReferenceField;

/// How many documents a scan reads by one command.
pub(crate) const BATCH: usize = 500;

fn hint(index: &str) -> Hint {
    Hint::Name(index.to_owned())
}

pub(crate) fn find_sources(projection: Document) -> FindOptions {
    FindOptions::builder().projection(projection).build()
}

/// A read of the fields with references of one document.
pub(crate) fn find_document(projection: Document) -> FindOneOptions {
    FindOneOptions::builder().projection(projection).build()
}

/// A read of any reference to a source.
pub(crate) fn find_reference(field: &ReferenceField) -> FindOneOptions {
    let mut options = find_document(doc! { "_id": 1 });
    options.hint = Some(hint(&field.index));
    options
}

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
    let options = FindOptions::builder()
        .projection(projection)
        .batch_size(u32::try_from(BATCH).ok());
    send::latest(options.build())
}

/// A read of some copies by their index.
pub(crate) fn read_index(index: &str) -> AggregateOptions {
    AggregateOptions::builder().hint(hint(index)).build()
}

pub(crate) fn scan_copies() -> AggregateOptions {
    send::latest(AggregateOptions::builder().allow_disk_use(true).build())
}
