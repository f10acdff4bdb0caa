//! The change of one document, and its revision.

use mongo_patterns_core::topology::Topology;
use mongodb::ClientSession;

use crate::form::document::{Head, no_head};
use crate::query::change::{Change, Clock, changeable};
use crate::query::options::Reader;
use crate::read::{find_current, hinted};
use crate::repository::prelude::*;
use crate::results::{Recorded, not_found};
use crate::write::record::{Changed, finish};

/// A change of one document.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: Bson,
    pub(crate) change: Change,
    /// The revision that the document must have.
    pub(crate) expected: Option<u64>,
    /// The values of the fields that describe the change.
    pub(crate) with: Document,
}

impl From<Head> for Recorded {
    fn from(head: Head) -> Self {
        Self {
            revision: head.revision,
            time: head.time,
        }
    }
}

/// Changes a document, and stores its revision.
pub(crate) async fn run(write: &Write<'_>, session: Option<&mut ClientSession>) -> Result<Recorded> {
    write.shared.check_write().await?;
    let mut conn = write.shared.enter(&write.id, session).await?;
    run_in(write, &mut conn).await
}

/// Does what [`run`] does, in the lane of the document.
pub(crate) async fn run_in(write: &Write<'_>, conn: &mut Conn<'_>) -> Result<Recorded> {
    let shared = write.shared;
    let is_by_operators = write.change.is_by_operators();
    // `$$NOW` is the time of the router, and `$currentDate` sets that of the shard.
    let has_two_clocks = is_by_operators && shared.topology().await? == Topology::Router;
    let attempt = Attempt { write, has_two_clocks };
    let (current, retry) = (&shared.current, &shared.settings.retry);
    let done = transaction::run(current, retry, conn, &attempt, |conn, attempt| {
        Box::pin(attempt.run(conn))
    });
    done.await
}

/// How often an attempt sends the change: by the server's clock, again if that was within the millisecond of the
/// previous time, and then by the previous time.
const MAX_SENT: u32 = 3;

struct Attempt<'w, 'a> {
    write: &'w Write<'a>,
    has_two_clocks: bool,
}

impl Attempt<'_, '_> {
    async fn run(&self, conn: &mut Conn<'_>) -> Result<Recorded> {
        let mut head = match self.has_two_clocks {
            true => Some(self.read(conn).await?),
            false => None,
        };
        for misses in 0..MAX_SENT {
            let clock = self.clock(head, misses);
            if let Some(changed) = self.change(clock, conn).await? {
                finish(self.write.shared, &changed, conn).await?;
                return Ok(changed.head.into());
            }
            head = Some(self.read(conn).await?);
        }
        Err(no_match())
    }

    /// Returns how the next command sets the time.
    fn clock(&self, head: Option<Head>, misses: u32) -> Clock {
        match head {
            Some(head) if self.has_two_clocks => Clock::After(head, head.next_time().max(DateTime::now())),
            // The clock of the server is behind the time of the document, and not only within one millisecond.
            Some(head) if misses > 1 && self.write.change.is_by_operators() => Clock::After(head, head.next_time()),
            _ => Clock::Server,
        }
    }

    /// Changes the current document. `None` if none matched.
    async fn change(&self, clock: Clock, conn: &mut Conn<'_>) -> Result<Option<Changed>> {
        let Write {
            shared,
            id,
            change,
            expected,
            with,
        } = self.write;
        let settings = &shared.settings;
        let filter = changeable(settings, id, *expected, change, clock);
        let update = change.update(settings, clock, with);
        let changed =
            send::find_one_and_update(conn, &shared.current, filter, update, options::change(settings, false));
        let changed = changed.await.map_err(|error| match duplicate_key(&error) {
            Some(_) => refused(),
            None => hinted(error, &settings.current_index),
        })?;
        changed.map(|document| with_head(settings, document)).transpose()
    }

    /// Reads the revision of the document, or why no document matches.
    async fn read(&self, conn: &mut Conn<'_>) -> Result<Head> {
        let Write {
            shared, id, expected, ..
        } = self.write;
        let Some(document) = find_current(shared, id, Reader::Configured, conn).await? else {
            return Err(not_found());
        };
        if document.get(shared.settings.revision.as_str()).ok().flatten().is_none() {
            return Err(not_managed());
        }
        let head = with_head(&shared.settings, document)?.head;
        if head.is_deleted {
            return Err(not_found());
        }
        match expected {
            Some(expected) if *expected != head.revision => Err(mismatch()),
            _ => Ok(head),
        }
    }
}

/// Returns a changed document with what names its revision.
pub(crate) fn with_head(settings: &Settings, document: RawDocumentBuf) -> Result<Changed> {
    let head = Head::of(settings, &document).ok_or_else(|| no_head(settings, &document))?;
    Ok(Changed { document, head })
}

/// The error of a document that a read of the transaction finds, and the filter of the change does not match.
fn no_match() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the number, the time or the mark of a deletion in the document has an invalid type, nothing was changed: call verify()",
    )
}

fn mismatch() -> Error {
    Error::new(
        ErrorKind::RevisionMismatch,
        "the document is at another revision than the expected one, nothing was changed: read it again, and decide by its new content",
    )
}

/// The error of a unique index, which is not that of the id. Without the driver's error: its labels would retry a
/// transaction.
fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "a unique index of the application refused the change, nothing was changed: use other values",
    )
}

fn not_managed() -> Error {
    Error::new(
        ErrorKind::NotMigrated,
        "the document has no revision, because another program inserted it, nothing was changed: call migrate_existing()",
    )
}
