//! The update of all documents of a filter.
//!
//! # Design
//!
//! ## Why has each document a transaction of its own?
//!
//! One transaction would lock all documents, conflict with every other writer, and end after a minute.

use futures::future::join_all;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::check_filter;
use mongo_patterns_core::{Error, ErrorKind, Result, send};
use mongodb::bson::Bson;

use super::change::Request;
use super::joined::change_alone;
use crate::form::document::id_in;
use crate::query::options;
use crate::repository::Shared;
use crate::results::UpdatedMany;

/// How many documents are updated concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;

/// Updates the documents that match the filter of the request.
pub(crate) async fn update_many(shared: &Shared, request: &Request) -> Result<UpdatedMany> {
    shared.check_write().await?;
    let (current, filter) = (&shared.current, &request.filter);
    check_filter(&mut Conn::new(), current, filter).await?;
    let mut rows = send::find_rows(current, filter.clone(), options::ids(&shared.settings)).await?;
    let (mut done, mut last) = (UpdatedMany::default(), None);
    loop {
        let batch = send::next_rows(&mut rows, CONCURRENCY).await;
        let batch = batch.map_err(|error| Error::from(error).with_stored(done.modified))?;
        let Some(batch) = batch else {
            return Ok(done);
        };
        let ids = batch.iter().map(|row| id_in(&shared.settings, row));
        // The server can read a document twice that moves in the index of the filter, before it sorts.
        let new = ids.filter(|id| last.replace(id.clone()).as_ref() != Some(id));
        let updates: Vec<_> = new.map(|id| update(shared, id, request)).collect();
        let mut failed = None;
        for updated in join_all(updates).await {
            done.matched += 1;
            match updated {
                Ok(is_updated) => done.modified += u64::from(is_updated),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error.with_stored(done.modified));
        }
    }
}

/// Updates one document. Returns whether it still matches the filter.
async fn update(shared: &Shared, id: Bson, request: &Request) -> Result<bool> {
    let mut conn = shared.enter(&id, None).await?;
    match change_alone(shared, &id, request, &mut conn).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.of_document(id, "")),
    }
}
