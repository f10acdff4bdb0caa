//! Writes: the change of an interval with a copy of its previous content, the insert, and the end.
//!
//! # Design
//!
//! ## Why does a change take the time of the client?
//!
//! It returns the document as it was, for the copy, so it cannot also return a time that the server chose. The server only
//! accepts a time near its own clock and after the start of the interval. Otherwise the change reads the server's clock,
//! with one more command.
//!
//! ## Why does the copy have the new `_id`?
//!
//! References to the current document stay right, and an update changes it in place. A change that begins in the future, or
//! in an earlier interval, does the opposite: the document stays, with an earlier end, and the copy is changed.
//!
//! ## Why is no gap or overlap possible beside other writers?
//!
//! A change writes the one document whose interval it divides, so of two such changes, one starts again. Inserts into one
//! gap divide no document. All of them write the entry of the id in the unique index of valid documents, so the server
//! refuses the later one, which starts again.
//!
//! ## Why is the mark of a valid document only a hint?
//!
//! Nothing changes it at the time when a scheduled interval begins. The next write moves it first, in its transaction, and
//! reads decide by the times.

pub(crate) mod change;
pub(crate) mod end;
pub(crate) mod insert;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime};

use crate::form::END;
use crate::query;
use crate::read::Known;
use crate::repository::Shared;

/// Checks a start that the caller has chosen.
pub(crate) fn check_start(from: Option<DateTime>) -> Result<()> {
    match from {
        Some(from) if from >= END => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the start is not before the end of time, 9999-01-01, nothing was sent: use an earlier one",
        )),
        _ => Ok(()),
    }
}

/// Marks the current document as valid, unless it is: a scheduled interval has begun since the last write.
async fn mark(shared: &Shared, id: &Bson, current: &Known, conn: &mut Conn<'_>) -> Result<()> {
    if !current.times.is_valid {
        let statements = query::mark(&shared.settings, id, &current.document_id);
        conn.update_in_order(&shared.collection, statements).await?;
    }
    Ok(())
}

fn check_expected(expected: Option<DateTime>, from: DateTime) -> Result<()> {
    match expected {
        Some(expected) if expected != from => Err(Error::new(
            ErrorKind::RevisionMismatch,
            "the interval does not begin at the expected time, nothing was changed: read it again, and decide by its new content",
        )),
        _ => Ok(()),
    }
}

/// Converts the error of a write whose duplicate key can be another client's.
pub(crate) fn not_written(shared: &Shared, error: CommandError) -> Error {
    match duplicate_key(&error) {
        Some(duplicate) if shared.settings.is_of_intervals(duplicate.index.as_deref()) => lost_race(error),
        Some(_) => refused().caused_by(error),
        None => error.into(),
    }
}

/// The error of a unique index of the application.
fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "the `_id` of the document, or a unique index of the application, refused it, nothing was stored: use other values",
    )
}
