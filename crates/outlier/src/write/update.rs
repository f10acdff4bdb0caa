//! Updates one element of a list.
//!
//! # Design
//!
//! ## Why is only the first matching element updated?
//!
//! Its array or overflow document takes the update in one command, so that it is applied once or not at all. An update of
//! all would be several commands, with refreshes in between, and could not be continued after an interruption.
//!
//! ## Why can a refresh not lose an update?
//!
//! It writes every document whose elements it moves, in a transaction. If an update changes a document after the transaction
//! has read it, the transaction conflicts and runs again.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::update::Operators;
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
use mongodb::bson::{Bson, Document};
use mongodb::options::{FindOneOptions, Hint, UpdateOptions};

use crate::form::document::{elements_of, is_flagged};
use crate::query;
use crate::read::exists;
use crate::repository::Shared;
use crate::results::not_found;

/// An update of the first element with these fields.
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: &'a Bson,
    pub(crate) fields: &'a Document,
    pub(crate) operators: &'a Operators,
}

/// What the main document has after the update did not find the element in it.
enum Main {
    /// It has the element: another writer has just stored or moved it.
    Element,
    /// There may be overflow documents with the element.
    Flag,
    Neither,
}

impl Update<'_> {
    /// Updates the element. Returns whether that changed it.
    pub(crate) async fn update(self, conn: &mut Conn<'_>) -> Result<bool> {
        let mut attempts = self.shared.settings.retry.start();
        loop {
            if let Some(modified) = self.in_main(conn).await? {
                return Ok(modified);
            }
            let is_stored = match self.read_main(conn).await? {
                Main::Element => true,
                Main::Neither => false,
                Main::Flag => match self.in_overflow(conn).await? {
                    Some(modified) => return Ok(modified),
                    None => !conn.has_session() && self.is_in_snapshot(conn).await?,
                },
            };
            if !is_stored {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the list has no element with these fields, nothing was changed: push it",
                ));
            }
            if conn.has_session() {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "another writer moved the element concurrently, nothing was changed: run the operation again",
                ));
            }
            let cause = CommandError::custom("other writers moved the element each time");
            attempts.next(cause).await?;
        }
    }

    /// Updates the element in the main document. Returns whether that changed it; `None` if it is not there.
    async fn in_main(self, conn: &mut Conn<'_>) -> Result<Option<bool>> {
        let Shared { main, settings, .. } = self.shared;
        let filter = query::main_with(settings, self.id, self.fields);
        let update = query::update_in(&settings.array, self.operators.clone());
        let updated = conn.update_one(main, filter, update, None).await?;
        Ok((updated.matched_count > 0).then_some(updated.modified_count > 0))
    }

    /// Updates the element in the first overflow document that has it.
    async fn in_overflow(self, conn: &mut Conn<'_>) -> Result<Option<bool>> {
        let Shared { overflow, settings, .. } = self.shared;
        let filter = query::overflow_with_fields(settings, self.id, self.fields);
        let update = query::update_in(&settings.extras, self.operators.clone());
        // The index of the positions returns the documents in their order.
        let by_position = Hint::Name(settings.seq_index.clone());
        let options = UpdateOptions::builder().hint(by_position).build();
        let updated = conn.update_one(overflow, filter, update, options).await?;
        Ok((updated.matched_count > 0).then_some(updated.modified_count > 0))
    }

    async fn read_main(self, conn: &mut Conn<'_>) -> Result<Main> {
        let Shared { main, settings, .. } = self.shared;
        let options = FindOneOptions::builder()
            .projection(query::flag_and_element(settings, self.fields))
            .build();
        let found = conn.find_one(main, query::by_id(self.id), options).await?;
        let found = found.ok_or_else(not_found)?;
        Ok(if elements_of(&found, settings.array.as_str())?.next().is_some() {
            Main::Element
        } else if is_flagged(settings, &found) {
            Main::Flag
        } else {
            Main::Neither
        })
    }

    /// Returns whether a snapshot has the element. A refresh may have moved it between two reads of the call.
    async fn is_in_snapshot(self, conn: &mut Conn<'_>) -> Result<bool> {
        let is_stored = transaction::run(
            &self.shared.main,
            &self.shared.settings.retry,
            conn,
            self,
            |conn, update| Box::pin(update.is_stored(conn)),
        );
        is_stored.await
    }

    async fn is_stored(self, conn: &mut Conn<'_>) -> Result<bool> {
        let (main, overflow, settings) = (&self.shared.main, &self.shared.overflow, &self.shared.settings);
        let in_main = query::main_with(settings, self.id, self.fields);
        let in_overflow = query::overflow_with_fields(settings, self.id, self.fields);
        Ok(exists(conn, main, in_main).await? || exists(conn, overflow, in_overflow).await?)
    }
}
