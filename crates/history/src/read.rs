//! Reads of current documents and of revisions.
//!
//! One transaction stores the current document and its copy, so reads of the history read only the copies.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, ByNumber, Page, PageSource};
use mongo_patterns_core::migration::and;
use mongo_patterns_core::{DocumentId, Result};
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::form::document::{Head, decode, decode_revision};
use crate::query;
use crate::query::options;
use crate::repository::Shared;
use crate::results::{Current, Revision};
use crate::token::RevisionToken;

pub(crate) fn revision_of<D: DeserializeOwned>(shared: &Shared, document: &RawDocument) -> Result<Revision<D>> {
    decode_revision(&shared.settings, document).map_err(|error| error.of_collection(&shared.revisions))
}

pub(crate) fn current_of<D: DeserializeOwned>(shared: &Shared, document: &RawDocument) -> Result<Current<D>> {
    let head = Head::read(&shared.settings, document);
    Ok(Current {
        revision: head.map_or(0, |head| head.revision),
        time: head.map(|head| head.time),
        document: decode(document)?,
    })
}

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

pub(crate) struct Revisions<'a, D> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: DocumentId,
    pub(crate) types: PhantomData<fn() -> D>,
}

impl<D: DeserializeOwned> PageSource<Revision<D>, RevisionToken> for Revisions<'_, D> {
    fn read<'c>(
        &'c self,
        page: Asked<RevisionToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<Revision<D>, RevisionToken>>> {
        let (shared, settings) = (self.shared, &self.shared.settings);
        let position = page.start.position().map(|token| token.position());
        let filter = query::beyond(settings, self.id.value(), position, page.descends());
        let revisions = ByNumber {
            collection: &shared.revisions,
            index: settings.revision_index.as_str(),
            fields: [&settings.document_id, &settings.revision],
            edges: RevisionToken::EDGES,
        };
        let decode = |row: &RawDocument| revision_of(shared, row);
        let token = |of: &Revision<D>| RevisionToken::after(of.revision);
        Box::pin(revisions.read(page, filter, decode, token, conn))
    }
}
