//! Options of the driver's calls.

use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::send;
use mongodb::bson::{Document, doc};
use mongodb::options::{
    AggregateOptions, DeleteOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, ReturnDocument,
};

use super::head;
use crate::settings::Settings;

fn hint(index: &str) -> Hint {
    Hint::Name(index.to_owned())
}

fn find_one(index: &str, projection: Option<Document>) -> FindOneOptions {
    FindOneOptions::builder()
        .hint(hint(index))
        .projection(projection)
        .build()
}

pub(crate) fn find_current(settings: &Settings) -> FindOneOptions {
    find_one(&settings.current_index, None)
}

pub(crate) fn find_revision(settings: &Settings) -> FindOneOptions {
    find_one(&settings.revision_index, None)
}

/// Only the fields that name the revision.
pub(crate) fn find_newest(settings: &Settings) -> FindOneOptions {
    let mut options = find_one(&settings.revision_index, Some(head(settings)));
    options.sort = Some(doc! { settings.document_id.as_str(): -1, settings.revision.as_str(): -1 });
    options
}

pub(crate) fn newest_of(settings: &Settings, documents: usize) -> AggregateOptions {
    AggregateOptions::builder()
        .hint(hint(&settings.revision_index))
        .batch_size(one_batch(documents))
        .build()
}

pub(crate) fn find_as_of(settings: &Settings) -> FindOneOptions {
    let mut options = find_one(&settings.time_index, None);
    options.sort = Some(doc! {
        settings.document_id.as_str(): -1,
        settings.time.as_str(): -1,
        settings.revision.as_str(): -1,
    });
    options
}

pub(crate) fn change(settings: &Settings, upsert: bool) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .hint(hint(&settings.current_index))
        .upsert(upsert.then_some(true))
        .return_document(ReturnDocument::After)
        .build()
}

pub(crate) fn delete_current(settings: &Settings) -> DeleteOptions {
    DeleteOptions::builder().hint(hint(&settings.current_index)).build()
}

/// In the order of the index, from the oldest: an interrupted deletion leaves no gap.
pub(crate) fn delete_revisions(settings: &Settings) -> DeleteOptions {
    DeleteOptions::builder().hint(hint(&settings.revision_index)).build()
}

/// The ids of current documents, each once: the sort is by a field that no write changes.
pub(crate) fn ids(settings: &Settings) -> FindOptions {
    let id = doc! { settings.id.as_str(): 1 };
    let mut projection = doc! { "_id": 0 };
    projection.extend(id.clone());
    send::latest(FindOptions::builder().sort(id).projection(projection).build())
}

/// A scan of all documents in the order of an index.
pub(crate) fn scan(index: &str) -> AggregateOptions {
    let options = AggregateOptions::builder().hint(hint(index)).allow_disk_use(true);
    send::latest(options.build())
}
