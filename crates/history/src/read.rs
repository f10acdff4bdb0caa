//! Reads of current documents and of revisions.
//!
//! The transaction of a write stores the current document together with its copy, so reads of the history read only the
//! copies.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::pages::IdPage;
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::form::document::{Head, decode, decode_revision};
use crate::query;
use crate::query::options;
use crate::repository::Shared;
use crate::results::{Current, Revision, RevisionPage};
use crate::token::RevisionToken;

/// Decodes a document of the collection of the revisions.
pub(crate) fn revision_of<D: DeserializeOwned>(shared: &Shared, document: &RawDocument) -> Result<Revision<D>> {
    decode_revision(&shared.settings, document).map_err(|error| error.of_collection(&shared.revisions))
}

/// Decodes a current document.
pub(crate) fn current_of<D: DeserializeOwned>(shared: &Shared, document: &RawDocument) -> Result<Current<D>> {
    let head = Head::read(&shared.settings, document);
    Ok(Current {
        revision: head.map_or(0, |head| head.revision),
        time: head.map(|head| head.time),
        document: decode(document)?,
    })
}

/// Reads the current document.
pub(crate) async fn find_current(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
    find_matching(shared, id, &Document::new(), conn).await
}

/// Reads the current document, if it matches a filter.
pub(crate) async fn find_matching(
    shared: &Shared,
    id: &Bson,
    filter: &Document,
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let filter = and(query::current(settings, id), filter.clone());
    let options = options::find_current(settings);
    Ok(conn.find_one(&shared.current, filter, options).await?)
}

/// Reads a revision.
pub(crate) async fn find_revision(
    shared: &Shared,
    id: &Bson,
    revision: u64,
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let filter = query::revision(settings, id, revision);
    Ok(conn
        .find_one(&shared.revisions, filter, options::find_revision(settings))
        .await?)
}

/// Reads what names the newest revision.
pub(crate) async fn find_newest(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let options = options::find_newest(settings);
    Ok(conn
        .find_one(&shared.revisions, query::revisions(settings, id), options)
        .await?)
}

/// Reads the revision that a document had at a time.
pub(crate) async fn find_as_of(
    shared: &Shared,
    id: &Bson,
    time: DateTime,
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let options = options::find_as_of(settings);
    Ok(conn
        .find_one(&shared.revisions, query::until(settings, id, time), options)
        .await?)
}

/// Reads a page of the history of a document.
pub(crate) async fn page<D: DeserializeOwned>(
    shared: &Shared,
    id: &Bson,
    page: IdPage<RevisionToken>,
    conn: &mut Conn<'_>,
) -> Result<RevisionPage<D>> {
    let settings = &shared.settings;
    let after = page.after.map(RevisionToken::position);
    let filter = query::beyond(settings, id, after, page.newest_first);
    let index = (
        settings.revision_index.as_str(),
        [&settings.document_id, &settings.revision],
    );
    let decode = |row: &RawDocument| revision_of(shared, row);
    let token = |last: &Revision<D>| RevisionToken::after(last.revision);
    let (revisions, next) = page.read(&shared.revisions, filter, index, decode, token, conn).await?;
    Ok(RevisionPage { revisions, next })
}
