//! Reads that decide about a write, or about a finding. They read from the primary.

use mongo_patterns_core::send::Result;

use crate::prelude::*;
use crate::query;

/// Returns whether a document matches.
pub(crate) async fn exists(
    session: Option<&mut Session<'_>>,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
) -> Result<bool> {
    let options = FindOneOptions::builder()
        .projection(query::id_only())
        .selection_criteria(primary())
        .read_concern(session.is_none().then(ReadConcern::local))
        .build();
    Ok(send::find_one(session, collection, filter, options).await?.is_some())
}

/// Returns the step that finds documents: as they are now, or as the transaction of the steps sees them.
pub(crate) fn find(
    steps: &Steps<'_, '_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    projection: Option<Document>,
) -> Step {
    let in_session = matches!(steps, Steps::Run(Some(_)));
    let options = FindOptions::builder()
        .projection(projection)
        .read_concern((!in_session).then(ReadConcern::local))
        .build();
    Step::find(purpose, collection, filter, options)
}
