//! Inserts of many documents without a transaction.

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::conn::Conn;
use crate::error::{CommandError, Error, Result, refused_document};
use crate::transaction::with_stored;
use crate::versions::in_commands;

/// The least size that a document counts with, so that a command has fewer documents than the server's limit of 100,000.
const LEAST_BYTES: usize = 84;

/// Inserts documents in their order, until the server refuses one. Returns their `_id`s. One round trip for each 8 MB.
pub fn insert<'a>(
    conn: &'a mut Conn<'_>,
    collection: &'a Collection<RawDocumentBuf>,
    documents: Vec<RawDocumentBuf>,
    refused: fn(CommandError) -> Error,
) -> BoxFuture<'a, Result<Vec<Bson>>> {
    Box::pin(async move {
        let mut ids = Vec::with_capacity(documents.len());
        for together in in_commands(documents, |document| document.as_bytes().len().max(LEAST_BYTES)) {
            match conn.insert_many(collection, together, None).await {
                Ok(mut inserted) => {
                    let next = |position| inserted.inserted_ids.remove(&position);
                    ids.extend((0..).map_while(next));
                }
                Err(error) => {
                    let stored = ids.len() + refused_document(&error).unwrap_or(0);
                    return Err(with_stored(refused(error), stored, conn));
                }
            }
        }
        Ok(ids)
    })
}
