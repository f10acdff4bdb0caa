//! The change of one document, and its revision.

use mongo_patterns_core::retry::Attempts;
use mongodb::ClientSession;

use crate::form::document::{Head, no_head};
use crate::query::change::{Change, Clock, changeable};
use crate::query::options::Reader;
use crate::read::{find_current, hinted};
use crate::repository::Deployment;
use crate::repository::prelude::*;
use crate::results::{Recorded, not_found};
use crate::write::record::{Changed, complete, finish};
use crate::write::{Atomicity, is_in_transaction};

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
    let mut session = Session::of_caller(session).await?;
    write.shared.check_indexes().await?;
    run_in(write, session.as_mut()).await
}

/// Does what [`run`] does, after the check of the indexes.
pub(crate) async fn run_in(write: &Write<'_>, session: Option<&mut Session<'_>>) -> Result<Recorded> {
    let shared = write.shared;
    let is_by_operators = write.change.is_by_operators();
    // `$$NOW` is the time of the router, and `$currentDate` sets that of the shard.
    let has_two_clocks = is_by_operators && shared.deployment().await? == Deployment::Router;
    let attempt = Attempt { write, has_two_clocks };
    if is_in_transaction(session.as_deref()) {
        return attempt.run(session, Atomicity::Transaction).await;
    }
    let atomicity = Atomicity::of(shared.write_form().await?);
    let locked = shared.lock(&write.id).await;
    if atomicity == Atomicity::Mark {
        let changed = attempt.run(session, atomicity).await;
        drop(locked);
        return changed;
    }
    let (current, retry) = (&shared.current, &shared.settings.retry);
    let done = transaction::run(current, retry, session, locked, &attempt, |session, attempt| {
        Box::pin(attempt.run(Some(session), Atomicity::Transaction))
    });
    done.await
}

struct Attempt<'w, 'a> {
    write: &'w Write<'a>,
    has_two_clocks: bool,
}

/// What the attempts of a change know.
struct Known {
    /// The revision that the document had at the last read.
    head: Option<Head>,
    /// How many times no document matched.
    misses: u32,
    attempts: Attempts,
}

impl Attempt<'_, '_> {
    async fn run(&self, mut session: Option<&mut Session<'_>>, atomicity: Atomicity) -> Result<Recorded> {
        let shared = self.write.shared;
        let mut known = Known {
            head: None,
            misses: 0,
            attempts: shared.settings.retry.start(),
        };
        loop {
            if !self.has_two_clocks || known.head.is_some() {
                let clock = self.clock(&known);
                if let Some(changed) = self.change(clock, atomicity, session.as_deref_mut()).await? {
                    finish(shared, &changed, atomicity, session).await?;
                    return Ok(changed.head.into());
                }
                known.misses += 1;
                if known.misses > 2 {
                    known
                        .attempts
                        .next(CommandError::custom("the document was changed concurrently"))
                        .await?;
                }
            }
            known.head = self.read(session.as_deref_mut()).await?;
        }
    }

    /// Returns how the next command sets the time.
    fn clock(&self, known: &Known) -> Clock {
        match known.head {
            Some(head) if self.has_two_clocks => Clock::After(head, head.next_time().max(DateTime::now())),
            // The clock of the server is behind the time of the document, and not only within one millisecond.
            Some(head) if known.misses > 1 && self.write.change.is_by_operators() => {
                Clock::After(head, head.next_time())
            }
            _ => Clock::Server,
        }
    }

    /// Changes the current document. `None` if none matched.
    async fn change(
        &self,
        clock: Clock,
        atomicity: Atomicity,
        session: Option<&mut Session<'_>>,
    ) -> Result<Option<Changed>> {
        let Write {
            shared,
            id,
            change,
            expected,
            with,
        } = self.write;
        let settings = &shared.settings;
        let filter = changeable(settings, id, *expected, change, clock);
        let update = change.update(settings, clock, atomicity.mark(false), with);
        let changed = send::find_one_and_update(
            session,
            &shared.current,
            filter,
            update,
            options::change(settings, false),
        );
        let changed = changed.await.map_err(|error| match duplicate_key(&error) {
            Some(_) => refused(),
            None => hinted(error, &settings.current_index),
        })?;
        changed.map(|document| with_head(settings, document)).transpose()
    }

    /// Reads why no document matched. Completes a marked one, which the next command can change.
    async fn read(&self, mut session: Option<&mut Session<'_>>) -> Result<Option<Head>> {
        let Write {
            shared, id, expected, ..
        } = self.write;
        let reader = Reader::of_write(session.as_deref());
        let Some(document) = find_current(shared, id, reader, session.as_deref_mut()).await? else {
            return Err(not_found());
        };
        if document.get(shared.settings.revision.as_str()).ok().flatten().is_none() {
            return Err(not_managed());
        }
        let changed = with_head(&shared.settings, document)?;
        let head = changed.head;
        if let Some(mark) = head.mark {
            complete(shared, &changed, mark, session).await?;
            // The completed document can be deleted, or removed.
            return Ok(None);
        }
        if head.is_deleted {
            return Err(not_found());
        }
        match expected {
            Some(expected) if *expected != head.revision => Err(mismatch()),
            _ => Ok(Some(head)),
        }
    }
}

/// Returns a changed document with what names its revision.
pub(crate) fn with_head(settings: &Settings, document: RawDocumentBuf) -> Result<Changed> {
    let head = Head::of(settings, &document).ok_or_else(|| no_head(settings, &document))?;
    Ok(Changed { document, head })
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
