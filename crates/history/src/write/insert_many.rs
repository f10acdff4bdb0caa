//! The insert of many documents, each with its first revision, or the one after its deletion.

use std::collections::HashMap;

use mongo_patterns_core::document_id::{bytes, canonical};
use mongo_patterns_core::size;
use mongo_patterns_core::stored::id_of;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;

use super::insert::{already_exists, is_of_id, refused};
use super::record::insert_all_new;
use crate::form::document::{Encoded, Head, copy, id_in, no_head};
use crate::repository::prelude::*;
use crate::results::Recorded;
use crate::write::change::with_head;

/// Inserts documents, in the order of the results.
pub(crate) async fn run(
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
        let newest = self.newest(conn).await?;
        let of_ids = || query::of_ids(settings, self.ids);
        let hinted = |error| hinted(error, &settings.current_index);
        if self.reads_current {
            let found = conn.find_one(current, of_ids(), options::find_current(settings)).await;
            if found.map_err(hinted)?.is_some() {
                return Err(already_exists());
            }
        }
        let numbered = |document: &Encoded| {
            let newest = newest.get(&canonical(&document.id)).copied();
            let numbered = query::change::numbered(settings, document.clone(), newest);
            let numbered = RawDocumentBuf::try_from(&numbered).map_err(CommandError::from)?;
            size::check(&numbered)?;
            Ok(numbered)
        };
        let numbered = self.documents.iter().map(numbered).collect::<Result<Vec<_>>>()?;
        let keys: Vec<Vec<u8>> = numbered.iter().map(|document| bytes(&id_of(document))).collect();
        let inserted = conn.insert_many(current, numbered, None).await;
        inserted.map_err(|error| match is_of_id(settings, &error) {
            Some(true) => already_exists().caused_by(error),
            Some(false) => refused().caused_by(error),
            None => error.into(),
        })?;
        let updated = conn.update_many(current, of_ids(), query::change::set_time(settings), None);
        updated.await?;
        let options = options::find_all_current(settings, self.ids.len());
        let stored = conn.find_all(current, of_ids(), options).await.map_err(hinted)?;
        let copies = stored.iter().map(|document| copy(document, ObjectId::new()));
        let copies = copies.collect::<std::result::Result<Vec<_>, _>>()?;
        insert_all_new(self.shared, copies, conn).await?;
        let mut recorded = HashMap::new();
        for document in stored {
            let key = bytes(&id_of(&document));
            recorded.insert(key, with_head(settings, document)?.head.into());
        }
        Ok(keys.iter().filter_map(|key| recorded.get(key).copied()).collect())
    }

    /// Reads the newest revisions of the documents that were deleted.
    async fn newest(self, conn: &mut Conn<'_>) -> Result<HashMap<String, Head>> {
        let settings = &self.shared.settings;
        let options = options::newest_of(settings, self.ids.len());
        let found = conn.aggregate_all(&self.shared.revisions, query::newest_of(settings, self.ids), options);
        let found = found.await.map_err(|error| hinted(error, &settings.revision_index))?;
        let head = |row: &RawDocumentBuf| {
            let head = Head::of(settings, row).ok_or_else(|| no_head(settings, row))?;
            Ok((canonical(&id_in(settings, row)), head))
        };
        found.iter().map(head).collect()
    }
}
