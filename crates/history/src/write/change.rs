//! The change of one document, and its revision.

use std::sync::Arc;

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::duplicate_key;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::topology::Topology;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf};

use crate::form::document::{Head, add_kept, no_head};
use crate::query::change::{Change, Clock, changeable};
use crate::query::options;
use crate::read::find_matching;
use crate::repository::Shared;
use crate::results::{Recorded, not_found};
use crate::settings::Settings;
use crate::write::record::Changed;

/// A change that a call asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) change: Change,
    /// The revision that the document must have.
    pub(crate) expected: Option<u64>,
    /// The filter that the document must match, besides its id.
    pub(crate) filter: Document,
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

/// How often an attempt sends the change: by the server's clock, again in the same millisecond, and then by the previous
/// time.
const MAX_SENT: u32 = 3;

/// One change, in a transaction.
pub(super) struct Attempt<'a> {
    shared: &'a Shared,
    id: &'a Bson,
    request: &'a Request,
    /// What other repositories own in the document.
    others: Arc<Others>,
    /// Whether `$$NOW` is the time of the router, and `$currentDate` the time of the shard.
    has_two_clocks: bool,
}

impl<'a> Attempt<'a> {
    pub(super) async fn new(shared: &'a Shared, id: &'a Bson, request: &'a Request) -> Result<Self> {
        let has_two_clocks = request.change.is_by_operators() && shared.topology().await? == Topology::Router;
        Ok(Self {
            shared,
            id,
            request,
            others: shared.known_others(),
            has_two_clocks,
        })
    }

    /// Changes the current document. `after` is the head that an earlier change of the transaction has left.
    pub(super) async fn send(&self, after: Option<Head>, conn: &mut Conn<'_>) -> Result<Changed> {
        if let Some(after) = after {
            self.check_expected(after)?;
            let clock = Clock::After(after, after.next_time());
            return self.change(clock, conn).await?.ok_or_else(no_match);
        }
        let mut head = match self.has_two_clocks {
            true => Some(self.read(conn).await?),
            false => None,
        };
        for misses in 0..MAX_SENT {
            let clock = self.clock(head, misses);
            if let Some(changed) = self.change(clock, conn).await? {
                return Ok(changed);
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
            Some(head) if misses > 1 && self.request.change.is_by_operators() => Clock::After(head, head.next_time()),
            _ => Clock::Server,
        }
    }

    /// Changes the current document. `None` if none matched.
    async fn change(&self, clock: Clock, conn: &mut Conn<'_>) -> Result<Option<Changed>> {
        let Self {
            shared, id, request, ..
        } = self;
        let Request {
            change,
            expected,
            filter,
            with,
        } = request;
        let settings = &shared.settings;
        let filter = and(changeable(settings, id, *expected, change, clock), filter.clone());
        let update = change.update(settings, clock, with, &self.others);
        let mut options = options::change(settings, false);
        options.projection = change.projection(settings, &self.others);
        let changed = conn.find_one_and_update(&shared.current, filter, update, options);
        let changed = changed.await.map_err(|error| match duplicate_key(&error) {
            Some(_) => refused().caused_by(error),
            None => error.into(),
        })?;
        let Some(mut document) = changed else { return Ok(None) };
        if let Change::Delete = change {
            add_kept(&mut document, &self.others);
        }
        with_head(settings, document).map(Some)
    }

    /// Reads the revision of the document, or why no document matches.
    async fn read(&self, conn: &mut Conn<'_>) -> Result<Head> {
        let Self {
            shared, id, request, ..
        } = self;
        let Some(document) = find_matching(shared, id, &request.filter, conn).await? else {
            return Err(not_found());
        };
        if document.get(shared.settings.revision.as_str()).ok().flatten().is_none() {
            return Err(not_managed());
        }
        let head = with_head(&shared.settings, document)?.head;
        if head.is_deleted {
            return Err(not_found());
        }
        self.check_expected(head)?;
        Ok(head)
    }

    fn check_expected(&self, head: Head) -> Result<()> {
        match self.request.expected {
            Some(expected) if expected != head.revision => Err(mismatch()),
            _ => Ok(()),
        }
    }
}

/// Returns a changed document with what names its revision.
pub(crate) fn with_head(settings: &Settings, document: RawDocumentBuf) -> Result<Changed> {
    let head = Head::read(settings, &document).ok_or_else(|| no_head(settings, &document))?;
    Ok(Changed { document, head })
}

/// The error of a document that a read of the transaction finds, and the filter of the change does not match.
pub(super) fn no_match() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the number, the time or the mark of a deletion in the document is not that of a repository, nothing was changed: call verify()",
    )
}

fn mismatch() -> Error {
    Error::new(
        ErrorKind::RevisionMismatch,
        "the document is at another revision than the expected one, nothing was changed: read it again, and decide by its new content",
    )
}

/// The error of a unique index other than the index of the id.
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
