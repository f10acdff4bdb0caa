//! The insert of a document with the copies of its sources.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::{Error, ErrorKind, Inserted, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::Bson;

use crate::form::document::Encoded;
use crate::form::id::distinct;
use crate::query;
use crate::repository::Shared;
use crate::write::is_in_transaction;
use crate::write::settle::{Placed, read_sources, settle, stored};

pub(crate) async fn insert(
    shared: &Shared,
    encoded: &Encoded,
    session: Option<&mut ClientSession>,
) -> Result<Inserted> {
    let mut conn = shared.enter(&encoded.id, session).await?;
    let settings = &shared.settings;
    let fields = || {
        settings
            .own()
            .map(move |field| (field, encoded.sources(settings, field)))
    };
    let ids = distinct(fields().flat_map(|(_, ids)| ids));
    let sources = read_sources(shared, &ids, &mut conn).await?;
    let document = encoded.with_copies(settings, |id| sources.get(id))?;
    let inserted = conn.insert_one(shared.documents(), document, None).await;
    inserted.map_err(refused)?;
    let id = encoded.id.clone();
    if is_in_transaction(&conn) {
        return Ok(Inserted::new(id));
    }
    let placed = |(field, ids): (_, Vec<&Bson>)| {
        let known = ids.into_iter().filter_map(|id| sources.get(id));
        let placed = known.map(|source| Placed {
            field,
            source: source.id.clone(),
            version: source.version,
        });
        placed.collect::<Vec<_>>()
    };
    let placed = fields().flat_map(placed).collect();
    let without_source = settle(shared, &id, placed, &mut conn).await.map_err(stored)?;
    for copy in without_source {
        let filter = query::one_referring_to_existing(copy.field, &id, &copy.source);
        let deleted = conn.delete_one(shared.documents(), filter, None).await;
        let deleted = deleted.map_err(|error| stored(error.into()))?;
        // Otherwise the deletion of the source has found the document, or another client has changed it.
        if deleted.deleted_count > 0 {
            return Err(withdrawn());
        }
    }
    Ok(Inserted::new(id))
}

/// Inserts documents in one transaction, which locks their sources.
pub(crate) async fn insert_many(
    shared: &Shared,
    documents: &[Encoded],
    session: Option<&mut ClientSession>,
) -> Result<Vec<Inserted>> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let settings = &shared.settings;
    let of_document = |document| {
        settings
            .own()
            .flat_map(move |field| Encoded::sources(document, settings, field))
    };
    let sources = distinct(documents.iter().flat_map(of_document));
    let mut conn = shared.enter_all(documents, &sources, session).await?;
    transaction::run(
        shared.documents(),
        &settings.retry,
        &mut conn,
        (shared, documents, &sources),
        |conn, (shared, documents, sources)| Box::pin(insert_many_in(shared, documents, sources, conn)),
    )
    .await?;
    let ids = documents.iter().map(|document| document.id.clone());
    Ok(ids.map(Inserted::new).collect())
}

async fn insert_many_in(shared: &Shared, documents: &[Encoded], sources: &[Bson], conn: &mut Conn<'_>) -> Result<()> {
    let sources = read_sources(shared, sources, conn).await?;
    let with_copies = |document: &Encoded| document.with_copies(&shared.settings, |id| sources.get(id));
    let documents = documents.iter().map(with_copies).collect::<Result<Vec<_>>>()?;
    let inserted = conn.insert_many(shared.documents(), documents, None).await;
    inserted.map(drop).map_err(refused)
}

/// Converts the error of an insert.
fn refused(error: CommandError) -> Error {
    let Some(duplicate) = duplicate_key(&error) else {
        return error.into();
    };
    let (kind, text) = match duplicate.is_of_id() {
        true => (
            ErrorKind::AlreadyExists,
            "there is a document with this `_id` already, nothing was stored: use another one",
        ),
        false => (
            ErrorKind::DuplicateKey,
            "a unique index of the application refused the document, nothing was stored: use other values",
        ),
    };
    Error::from_driver(kind, text, error)
}

fn withdrawn() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "a source of the document was deleted concurrently, and the document was removed again: refer to another source",
    )
}
