//! Writes of current documents and of the copies of their revisions.
//!
//! # Design
//!
//! ## Why is the current revision also in the revisions?
//!
//! MongoDB's manual stores it: its recipe copies the document after the update. So a copy never changes, the newest copy
//! can be compared with the current document, and a deleted document keeps its last revision.
//!
//! ## Why does the update come before the copy?
//!
//! Only the server knows the result of update operators. A copy is only ever a copy of what the current document was, so no
//! revision is stored that never took effect.
//!
//! ## Why is a document marked by a change without a transaction?
//!
//! The process can die between the change and the copy. A marked document gets no further change before its copy is stored,
//! by whoever comes next. A transaction does not change a marked document either, so clients with both forms can write
//! concurrently. The mark has the `_id` of the copy: a duplicate is recognized without a comparison.
//!
//! ## Why does an error of the copy not fail the call?
//!
//! The change took effect, and its revision has a number and a time. The caller would retry it, and change the document
//! twice.
//!
//! ## Why can a mark of an insert be removed with its document?
//!
//! An insert first reads the newest revision, whose number it continues. Without a transaction, another client can insert
//! and delete the document in between, so the number can be that of another revision. Then the inserted document is
//! removed, and the insert starts again. Nothing can change the document until then, because it is marked, and the call
//! has not returned. An update starts from an unmarked document, whose number is certain.

pub(crate) mod change;
pub(crate) mod insert;
pub(crate) mod prune;
pub(crate) mod record;
pub(crate) mod restore;

use crate::form::document::Mark;
use crate::prelude::*;
use crate::settings::WriteForm;

/// How the commands of one attempt depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomicity {
    /// They are in one transaction.
    Transaction,
    /// A mark connects them.
    Mark,
}

impl Atomicity {
    pub(crate) fn of(form: WriteForm) -> Self {
        match form {
            WriteForm::Transaction => Self::Transaction,
            WriteForm::CompareAndSet => Self::Mark,
        }
    }

    /// Returns a new mark for a change that needs one.
    pub(crate) fn mark(self, inserted: bool) -> Option<Mark> {
        (self == Self::Mark).then(|| Mark::new(inserted))
    }
}

/// Returns whether a call runs in a transaction of the caller. Such a call has one attempt, and locks no keys: another
/// task may hold them and wait on the server for what the transaction has locked.
pub(crate) fn is_in_transaction(session: Option<&Session<'_>>) -> bool {
    session.is_some_and(Session::is_in_transaction)
}
