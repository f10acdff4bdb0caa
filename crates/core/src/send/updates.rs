//! Several updates in one command.
//!
//! # Design
//!
//! ## Why not the bulk write of the driver?
//!
//! It needs MongoDB 8.0. The driver retries it after a broken connection, which idempotent updates do not need.

use futures::future::BoxFuture;
use mongodb::bson::{self, Bson, Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind as DriverKind, WriteFailure};
use serde::de::DeserializeOwned;

use super::{Raw, Result};
use crate::conn::Conn;
use crate::error::CommandError;
use crate::error::command::Command;

/// What the server replied to several updates.
#[derive(Debug, Default)]
pub struct UpdatesReply {
    /// The number of updates that found or inserted a document.
    pub matched: u64,
    /// The updates that failed, by their index.
    pub failed: Vec<(usize, CommandError)>,
    /// The write concern was not satisfied: what took effect may be undone.
    pub unconfirmed: Option<CommandError>,
}

impl Conn<'_> {
    /// Sends update statements (`q`, `u` and their options) in one command, which the server executes in any order, also if
    /// some fail. They must be idempotent.
    pub fn update_each<'a>(
        &'a mut self,
        collection: &Raw,
        statements: Vec<Document>,
    ) -> BoxFuture<'a, Result<UpdatesReply>> {
        self.update_statements(collection, statements, false)
    }

    /// Does what [`update_each`](Self::update_each) does, in order, up to the first one that fails.
    pub fn update_in_order<'a>(
        &'a mut self,
        collection: &Raw,
        statements: Vec<Document>,
    ) -> BoxFuture<'a, Result<u64>> {
        let updated = self.update_statements(collection, statements, true);
        Box::pin(async move {
            let reply = updated.await?;
            let failed = reply
                .failed
                .into_iter()
                .map(|(_, error)| error)
                .chain(reply.unconfirmed);
            failed.map(Err).next().unwrap_or(Ok(reply.matched))
        })
    }

    fn update_statements<'a>(
        &'a mut self,
        collection: &Raw,
        statements: Vec<Document>,
        is_ordered: bool,
    ) -> BoxFuture<'a, Result<UpdatesReply>> {
        let mut command = doc! { "update": collection.name(), "updates": statements, "ordered": is_ordered };
        let concern = collection.write_concern().map(bson::serialize_to_bson);
        let database = collection.client().database(&collection.namespace().db);
        Box::pin(async move {
            // A transaction has that of its commit.
            if let Some(concern) = concern.filter(|_| !self.is_in_transaction()) {
                command.insert("writeConcern", concern.map_err(DriverError::from)?);
            }
            of_reply(&self.run_command(&database, command).await?)
        })
    }
}

fn of_reply(reply: &Document) -> Result<UpdatesReply> {
    let mut failed = Vec::new();
    for error in reply.get_array("writeErrors").into_iter().flatten() {
        let index = error.as_document().and_then(|error| error.get_i32("index").ok());
        let error = failure(error, WriteFailure::WriteError)?;
        match index.and_then(|index| usize::try_from(index).ok()) {
            Some(index) => failed.push((index, error)),
            // Of which update is unknown.
            None => return Err(error),
        }
    }
    let unconfirmed = reply.get("writeConcernError");
    Ok(UpdatesReply {
        matched: reply.get_i32("n").ok().and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        failed,
        unconfirmed: unconfirmed
            .map(|error| failure(error, WriteFailure::WriteConcernError))
            .transpose()?,
    })
}

/// Converts a part of a reply into the driver's error.
fn failure<T: DeserializeOwned>(reply: &Bson, of: fn(T) -> WriteFailure) -> Result<CommandError> {
    let error = bson::deserialize_from_bson(reply.clone()).map_err(DriverError::from)?;
    let error = DriverKind::Write(of(error)).into();
    Ok(CommandError::new(error, Command::WriteOne))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code;

    #[test]
    fn a_reply_names_the_statements_that_failed() {
        let errors = vec![doc! { "index": 2, "code": 121, "errmsg": "Document failed validation" }];
        let concern = doc! { "code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting timed out" };
        let reply = doc! { "ok": 1, "n": 3, "writeErrors": errors, "writeConcernError": concern };
        let reply = of_reply(&reply).unwrap();
        assert_eq!((reply.matched, reply.failed.len()), (3, 1));
        let (index, error) = &reply.failed[0];
        assert_eq!((*index, code(error)), (2, Some(121)));
        assert_eq!(code(&reply.unconfirmed.unwrap()), Some(64));
        let reply = of_reply(&doc! { "ok": 1, "n": 4 }).unwrap();
        assert!(reply.matched == 4 && reply.failed.is_empty() && reply.unconfirmed.is_none());
    }

    #[test]
    fn an_error_without_its_statement_fails_the_command() {
        let errors = vec![doc! { "code": 121, "errmsg": "Document failed validation" }];
        let error = of_reply(&doc! { "ok": 1, "n": 3, "writeErrors": errors }).unwrap_err();
        assert_eq!(code(&error), Some(121));
    }
}
