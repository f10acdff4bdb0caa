//! The commands of a follower.

use mongodb::bson::{Bson, Document, doc};

use super::number;
use crate::form::document::Head;
use crate::settings::Settings;

/// Projects the events of the change stream to the images of the document and the time.
pub(crate) fn changes() -> Vec<Document> {
    vec![doc! { "$project": {
        "operationType": 1,
        "clusterTime": 1,
        "wallTime": 1,
        "fullDocument": 1,
        "fullDocumentBeforeChange": 1,
    } }]
}

/// The settings that all followers of one name share.
pub(crate) fn record_settings(settings: &Settings, current: &str, revisions: &str) -> Document {
    let mut record = doc! {
        "pattern": "history",
        "current": current,
        "revisions": revisions,
        "id": settings.id.as_str(),
        "revision": settings.revision.as_str(),
        "time": settings.time.as_str(),
    };
    if settings.is_by_id() {
        record.insert("document_id", settings.document_id.as_str());
    }
    record
}

/// Gives a current document the number and the time of a revision.
pub(crate) fn set_head(settings: &Settings, head: Head) -> Vec<Document> {
    vec![doc! { "$set": {
        settings.revision.as_str(): number(head.revision),
        settings.time.as_str(): head.time,
    } }]
}

/// The revision of a deletion.
pub(crate) fn tombstone(settings: &Settings, id: &Bson, head: Head) -> Document {
    doc! {
        settings.document_id.as_str(): id,
        settings.revision.as_str(): number(head.revision),
        settings.time.as_str(): head.time,
        settings.deleted.as_str(): true,
    }
}
