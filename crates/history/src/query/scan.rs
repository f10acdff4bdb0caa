//! The reads of a scan for problems.

use mongodb::bson::{Bson, Document, doc};

use super::{head, revision};
use crate::form::document::Head;
use crate::settings::Settings;

/// All revisions, or the revisions of one document, in order, with the fields that name them.
pub(crate) fn chain(settings: &Settings, id: Option<&Bson>) -> Vec<Document> {
    let mut stages = Vec::new();
    if let Some(id) = id {
        stages.push(doc! { "$match": super::revisions(settings, id) });
    }
    stages.push(doc! { "$sort": { settings.document_id.as_str(): 1, settings.revision.as_str(): 1 } });
    stages.push(doc! { "$project": head(settings) });
    stages
}

/// All current documents, in the order of their ids.
pub(crate) fn current(settings: &Settings) -> Vec<Document> {
    vec![doc! { "$sort": { settings.id.as_str(): 1 } }]
}

/// Matches the copies of some current documents.
pub(crate) fn copies<'a>(settings: &Settings, heads: impl Iterator<Item = (&'a Bson, Head)>) -> Document {
    let any: Vec<Document> = heads.map(|(id, head)| revision(settings, id, head.revision)).collect();
    doc! { "$or": any }
}

pub(crate) fn current_of<'a>(settings: &Settings, ids: impl Iterator<Item = &'a Bson>) -> Document {
    let any: Vec<Document> = ids.map(|id| super::current(settings, id)).collect();
    doc! { "$or": any }
}
