//! The reads.

pub(crate) mod elements;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::{Error, ErrorKind, Result, send};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::options::{FindOneOptions, FindOptions};

use crate::form::document::is_true;
use crate::query;
use crate::repository::Shared;
use crate::results::not_found;

/// Refuses undefined, which no filter of a server matches.
pub(crate) fn check_compared(element: &Bson) -> Result<()> {
    match element {
        Bson::Undefined => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the element is undefined, which the server does not compare; nothing was sent: use null",
        )),
        _ => Ok(()),
    }
}

/// Returns whether a list has an element: first by its main document, then by its overflow documents.
pub(crate) async fn contains(shared: &Shared, id: &Bson, element: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let settings = &shared.settings;
    let has = query::project(query::has_element(settings, element));
    let found = conn.find_one(&shared.main, query::by_id(id), has).await?;
    let found = found.ok_or_else(not_found)?;
    if is_true(&found, "has") || !is_true(&found, "flagged") {
        return Ok(is_true(&found, "has"));
    }
    let filter = query::overflow_with(settings, id, element);
    let id_only = query::project(query::id_only());
    let found = conn.find_one(&shared.overflow, filter, id_only).await?;
    Ok(found.is_some())
}

/// Returns whether a document of the primary matches, to decide about a write.
pub(crate) async fn exists(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
) -> send::Result<bool> {
    let options = FindOneOptions::builder().projection(query::id_only()).build();
    Ok(conn.find_one(collection, filter, options).await?.is_some())
}

/// Returns the step that finds documents, to decide about a rewrite.
pub(crate) fn find(
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    projection: Option<Document>,
) -> Step {
    let options = FindOptions::builder().projection(projection).build();
    Step::find(purpose, collection, filter, options)
}
