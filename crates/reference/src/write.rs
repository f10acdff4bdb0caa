//! Writes of references and of their sources.
//!
//! # Design
//!
//! ## Why does an insert read the source again?
//!
//! A rename can happen between the read of the source and the insert of its copy: its update of the copies does not find the
//! document that is not inserted yet. So the insert reads the source again afterwards. It sees an earlier rename, and a
//! later rename finds the inserted document. A transaction for both does not help: the rename and the insert write different
//! documents, so snapshot isolation lets both commit.
//!
//! ## Why does every copy have the version of its source?
//!
//! The updates of the copies by two renames can overtake each other. Each only updates copies with a lower version, so a
//! copy never goes back, and the last rename wins.
//!
//! ## Why does the index not have the version?
//!
//! It would show which copies are outdated, but after an update all of them are, and each would move its key: on two cores
//! that took the server half as much again. With the id alone no key moves, so a scan does not miss a copy that another
//! update changes at the same moment.
//!
//! ## Why is the update of the copies not in a transaction?
//!
//! One transaction over 100,000 documents conflicts with every other writer, and never commits under load. A plain
//! `updateMany` yields between documents, so another writer waits for one document. It is idempotent.
//!
//! ## Why does a deletion mark the source?
//!
//! The check for references does not find an insert that has read the source, and not stored its document yet. The deletion
//! marks the source, looks for references, and deletes the source only while it has this mark. An insert that sees the mark
//! in its second read removes it, and the deletion checks again. An insert that does not find the source withdraws its
//! document. So one of the two gives way. The mark of a deletion that died has no effect.
//!
//! ## Why does a transaction lock the sources?
//!
//! The second read of an insert would not see a rename after the snapshot of the transaction. So the transaction writes the
//! source, without a change: a concurrent rename or deletion conflicts with it.

pub(crate) mod delete;
pub(crate) mod insert;
pub(crate) mod reference;
mod restore;
pub(crate) mod settle;
pub(crate) mod source;
pub(crate) mod sweep;

use mongo_patterns_core::conn::Conn;

/// Returns whether a call runs in a transaction of the caller. Such a call has one attempt.
pub(crate) fn is_in_transaction(conn: &Conn<'_>) -> bool {
    conn.is_in_transaction()
}
