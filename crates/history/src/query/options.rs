//! Options of the driver's calls.

use mongo_patterns_core::action::batch_size;
use mongodb::options::{
    AggregateOptions, DeleteOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, ReturnDocument,
    SelectionCriteria,
};

use super::head;
use crate::prelude::*;

/// What a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// What the collection is configured for, or the snapshot of the session's transaction.
    Configured,
    /// The latest data of the primary, to decide about a write.
    Primary,
}

impl Reader {
    /// Returns the reader of a write's reads.
    pub(crate) fn of_write(conn: &Conn<'_>) -> Self {
        match conn.is_in_transaction() {
            true => Self::Configured,
            false => Self::Primary,
        }
    }

    fn concerns(self) -> (Option<SelectionCriteria>, Option<ReadConcern>) {
        match self {
            Self::Configured => (None, None),
            Self::Primary => (Some(primary()), Some(ReadConcern::local())),
        }
    }
}

fn hint(index: &str) -> Hint {
    Hint::Name(index.to_owned())
}

fn find_one(index: &str, projection: Option<Document>, reader: Reader) -> FindOneOptions {
    let (criteria, concern) = reader.concerns();
    FindOneOptions::builder()
        .hint(hint(index))
        .projection(projection)
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

pub(crate) fn find_current(settings: &Settings, reader: Reader) -> FindOneOptions {
    find_one(&settings.current_index, None, reader)
}

pub(crate) fn find_revision(settings: &Settings, reader: Reader) -> FindOneOptions {
    find_one(&settings.revision_index, None, reader)
}

/// Only the fields that name the revision.
pub(crate) fn find_newest(settings: &Settings, reader: Reader) -> FindOneOptions {
    let mut options = find_one(&settings.revision_index, Some(head(settings)), reader);
    options.sort = Some(doc! { settings.id.as_str(): -1, settings.revision.as_str(): -1 });
    options
}

pub(crate) fn find_as_of(settings: &Settings, reader: Reader) -> FindOneOptions {
    let mut options = find_one(&settings.time_index, None, reader);
    options.sort = Some(doc! {
        settings.id.as_str(): -1,
        settings.time.as_str(): -1,
        settings.revision.as_str(): -1,
    });
    options
}

pub(crate) fn find_page(settings: &Settings, limit: u32, newest_first: bool) -> FindOptions {
    let direction = if newest_first { -1 } else { 1 };
    FindOptions::builder()
        .sort(doc! { settings.id.as_str(): direction, settings.revision.as_str(): direction })
        .limit(i64::from(limit))
        .batch_size(batch_size(limit))
        .hint(hint(&settings.revision_index))
        .build()
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

/// A scan of all documents in the order of an index.
pub(crate) fn scan(index: &str) -> AggregateOptions {
    AggregateOptions::builder()
        .hint(hint(index))
        .allow_disk_use(true)
        .selection_criteria(primary())
        .read_concern(ReadConcern::local())
        .build()
}

/// A read of some documents by their ids.
pub(crate) fn find_some() -> FindOptions {
    FindOptions::builder()
        .selection_criteria(primary())
        .read_concern(ReadConcern::local())
        .build()
}
