//! The insert of many documents, each with its first revision, or the one after its deletion.

use std::collections::HashMap;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id, send, size, transaction};
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, RawDocumentBuf, doc};

use super::insert::{already_exists, is_of_id, refused};
use super::record::{Changed, insert_all_new};
use crate::form::document::{Encoded, Head, copy, id_of_revision, no_head};
use crate::query;
use crate::query::options;
use crate::repository::Shared;
use crate::results::Recorded;
use crate::write::change::with_head;

/// Inserts documents, in the order of the results.
pub(crate) async fn insert_many(
    shared: &Shared,
    documents: Vec<Encoded>,
    session: Option<&mut ClientSession>,
) -> Result<Vec<Recorded>> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    shared.check_write().await?;
    let ids: Vec<Bson> = documents.iter().map(|document| document.id.clone()).collect();
    let mut conn = shared.enter_all(&ids, session).await?;
    let batch = Batch {
        shared,
        documents: &documents,
        ids: &ids,
        // A duplicate would abort the transaction of the caller.
        reads_current: conn.is_in_transaction(),
    };
    let (current, retry) = (&shared.current, &shared.settings.retry);
    transaction::run(current, retry, &mut conn, batch, |conn, batch| {
        Box::pin(batch.insert(conn))
    })
    .await
}

#[derive(Clone, Copy)]
struct Batch<'a> {
    shared: &'a Shared,
    documents: &'a [Encoded],
    ids: &'a [Bson],
    reads_current: bool,
}

impl Batch<'_> {
    async fn insert(self, conn: &mut Conn<'_>) -> Result<Vec<Recorded>> {
        let Shared { current, settings, .. } = self.shared;
        // Not between two commands of a transaction of the caller.
        let now = self.now().await?;
        let newest = self.newest(conn).await?;
        if self.reads_current {
            let filter = document_id::with_ids(settings.id.as_str(), self.ids);
            let options = options::find_current(settings);
            if conn.find_one(current, filter, options).await?.is_some() {
                return Err(already_exists());
            }
        }
        let (mut numbered, mut copies, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
        for document in self.documents {
            let newest = newest.get(&canonical(&document.id)).copied();
            let document = query::change::numbered(settings, document.clone(), newest, now);
            let document = RawDocumentBuf::try_from(&document).map_err(CommandError::from)?;
            size::check(&document)?;
            copies.push(copy(settings, &document, ObjectId::new())?);
            let Changed { document, head } = with_head(settings, document)?;
            recorded.push(head.into());
            numbered.push(document);
        }
        let inserted = conn.insert_many(current, numbered, None).await;
        inserted.map_err(|error| match is_of_id(settings, &error) {
            Some(true) => already_exists().caused_by(error),
            Some(false) => refused().caused_by(error),
            None => error.into(),
        })?;
        insert_all_new(self.shared, copies, conn).await?;
        Ok(recorded)
    }

    /// Reads the clock of the server or of the router, as `$$NOW` does.
    async fn now(self) -> Result<DateTime> {
        let database = self.shared.current.client().database("admin");
        let reply = send::run_read(&database, doc! { "hello": 1 }).await?;
        let now = reply.get_datetime("localTime").copied();
        now.map_err(|_| Error::new(ErrorKind::Driver, "the server returned no time"))
    }

    /// Reads the newest revisions of the documents that were deleted.
    async fn newest(self, conn: &mut Conn<'_>) -> Result<HashMap<String, Head>> {
        let settings = &self.shared.settings;
        let options = options::newest_of(settings, self.ids.len());
        let stored = conn.aggregate_all(&self.shared.revisions, query::newest_of(settings, self.ids), options);
        let stored = stored.await?;
        let head = |row: &RawDocumentBuf| {
            let head = Head::read(settings, row);
            let head = head.ok_or_else(|| no_head(settings, row).of_collection(&self.shared.revisions))?;
            Ok((canonical(&id_of_revision(settings, row)), head))
        };
        stored.iter().map(head).collect()
    }
}
