//! Pushes to outliers that the process knows.
//!
//! # Design
//!
//! ## Why may a push skip the main document?
//!
//! Overflow documents exist only while the main document exists and has the flag: transactions change both. So a push that
//! stores its element in an overflow document stores it where readers look. If there is none, the process was wrong, nothing
//! is stored, and the push begins with the main document.
//!
//! ## Why does it search for the newest overflow document, although the process knows its position?
//!
//! Another process may have opened the next one, and a removal may have made room in this one. Then an update by position
//! would store the element before older ones. Only a sort finds out whether the document is the newest one.
//!
//! ## When does a unique push check the array again?
//!
//! A refresh may move an equal element from an overflow document to the array, after the push has read the array and before
//! it writes. A rewrite that moves unique elements to the array gives new `_id`s to all overflow documents that it leaves.
//! So the array is unchanged if the element joined the overflow document that was the newest before the array was read.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongodb::bson::Bson;
use mongodb::options::FindOneOptions;

use super::PushWrite;
use crate::form::document::is_true;
use crate::query;
use crate::repository::Shared;

impl PushWrite<'_> {
    /// Stores the elements in overflow documents, if the process knows an outlier. Returns false, and stores nothing, if it
    /// does not, or was wrong.
    pub(super) async fn push_to_known(&mut self, conn: &mut Conn<'_>) -> Result<bool> {
        if self.elements.is_empty() {
            return Ok(false);
        }
        self.known = self.shared.known_outlier(self.id);
        if self.known.is_none() {
            return Ok(false);
        }
        if let Some(element) = self.rest().once()? {
            match self.array_has(&element, conn).await? {
                Some(false) => {}
                Some(true) => {
                    self.is_present = true;
                    return Ok(true);
                }
                None => {
                    self.forget();
                    return Ok(false);
                }
            }
        }
        self.push_to_overflow(conn).await?;
        let is_done = self.is_present || self.rest().elements.is_empty();
        if !is_done {
            self.forget();
        }
        Ok(is_done)
    }

    /// Returns whether the array of an outlier has an element. `None` if the document is no outlier.
    async fn array_has(&self, element: &Bson, conn: &mut Conn<'_>) -> Result<Option<bool>> {
        let Shared { main, settings, .. } = self.shared;
        let options = FindOneOptions::builder()
            .projection(query::has_element(settings, element))
            .build();
        let main = conn.find_one(main, query::by_id(self.id), options).await?;
        let main = main.filter(|main| is_true(main, "flagged"));
        Ok(main.map(|main| is_true(&main, "has")))
    }

    /// Returns whether no rewrite has moved elements to the array since the process remembered the outlier.
    pub(super) fn is_unmoved(&self) -> bool {
        self.known.is_some() && self.known == self.newest
    }

    /// Remembers an outlier after a push, or forgets it after an error.
    pub(super) fn remember(&mut self, is_stored: bool) {
        if !is_stored {
            self.forget();
        } else if let Some(newest) = self.newest.take()
            && self.known.as_ref() != Some(&newest)
        {
            self.shared.remember_outlier(self.id, newest);
        }
    }

    fn forget(&mut self) {
        if self.known.take().is_some() {
            self.shared.forget_outlier(self.id);
        }
    }
}
