//! Stores what other programs wrote to one document as its next revisions.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{Result, transaction};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};

use super::event::{Before, Foreign, number_in};
use super::states::{Recorded, State, States, after, states};
use crate::form::document::{Head, copy, is_copy};
use crate::query;
use crate::query::{follow as commands, options};
use crate::read::{find_current, find_newest, find_revision};
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::behind::store_next;
use crate::write::change::with_head;
use crate::write::record::insert_new;

/// The result for one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) revisions: u64,
    pub(crate) recorded: Option<Recorded>,
}

/// Stores writes as revisions. Without writes that follow the newest revision, compares the current document with it.
pub(crate) async fn record(
    shared: &Shared,
    id: &Bson,
    writes: &[Foreign],
    recorded: Option<&Recorded>,
) -> Result<Done> {
    if is_insert_of_repository(shared, id, writes).await? {
        return Ok(Done::default());
    }
    let mut recording = Recording {
        shared,
        id,
        writes,
        recorded,
    };
    let (done, is_complete) = recording.record().await?;
    if is_complete {
        return Ok(done);
    }
    recording.writes = &[];
    let (compared, _) = recording.record().await?;
    Ok(Done {
        revisions: done.revisions + compared.revisions,
        recorded: None,
    })
}

/// Returns whether the only write is an insert whose copy is the newest revision.
async fn is_insert_of_repository(shared: &Shared, id: &Bson, writes: &[Foreign]) -> Result<bool> {
    let [
        Foreign {
            before: Before::Absent,
            after: Some(inserted),
            ..
        },
    ] = writes
    else {
        return Ok(false);
    };
    let Some(number) = number_in(&shared.settings, inserted) else {
        return Ok(false);
    };
    let settings = &shared.settings;
    let mut options = options::find_newest(settings);
    options.projection = None;
    let filter = query::revisions(settings, id);
    match Conn::new().find_one(&shared.revisions, filter, options).await? {
        Some(newest) if number_in(settings, &newest) == Some(number) => {
            is_copy(settings, &shared.known_others(), inserted, &newest)
        }
        _ => Ok(false),
    }
}

struct Recording<'a> {
    shared: &'a Shared,
    id: &'a Bson,
    writes: &'a [Foreign],
    recorded: Option<&'a Recorded>,
}

impl Recording<'_> {
    /// Returns what it has stored, and whether this includes the last write.
    async fn record(&self) -> Result<(Done, bool)> {
        let shared = self.shared;
        let mut conn = shared.enter(self.id, None).await?;
        let (current, retry) = (&shared.current, &shared.settings.retry);
        let done = transaction::run(current, retry, &mut conn, self, |conn, recording| {
            Box::pin(recording.attempt(conn))
        });
        done.await
    }

    async fn attempt(&self, conn: &mut Conn<'_>) -> Result<(Done, bool)> {
        let (shared, settings) = (self.shared, &self.shared.settings);
        let newest = find_newest(shared, self.id, conn).await?;
        let newest = newest.map(|newest| with_head(settings, newest)).transpose()?;
        let newest = newest.map(|newest| newest.head);
        let current = find_current(shared, self.id, conn).await?;
        let States {
            states,
            recorded,
            is_last,
        } = states(settings, newest, self.writes, self.recorded);
        let Some(last) = states.last() else {
            let revisions = match is_last && !self.writes.is_empty() {
                true => 0,
                false => self.compare(newest, current, conn).await?,
            };
            return Ok((Done { revisions, recorded }, true));
        };
        self.store(&states, last, newest, current, conn).await?;
        let revisions = states.len() as u64;
        Ok((Done { revisions, recorded }, is_last))
    }

    /// Stores revisions, and gives the current document the number of the last one.
    async fn store(
        &self,
        states: &[State<'_>],
        last: &State<'_>,
        newest: Option<Head>,
        current: Option<RawDocumentBuf>,
        conn: &mut Conn<'_>,
    ) -> Result<()> {
        let (shared, settings) = (self.shared, &self.shared.settings);
        for state in states {
            let copy = match state.document {
                Some(document) => revised(settings, document, state.head)?,
                None => self.tombstone(state.head)?,
            };
            insert_new(shared, copy, conn).await?;
        }
        let Some(document) = last.document else {
            return Ok(());
        };
        let number = current.as_ref().map(|current| number_in(settings, current));
        let is_at = |of: Option<u64>| number.is_some_and(|number| number == of);
        // Otherwise it was deleted or written again, and its change is still to come.
        if is_at(number_in(settings, document)) || newest.is_some_and(|newest| is_at(Some(newest.revision))) {
            let (filter, options) = (query::current(settings, self.id), options::change(settings, false));
            let update = commands::set_head(settings, last.head);
            conn.find_one_and_update(&shared.current, filter, update, options)
                .await?;
        }
        Ok(())
    }

    /// Stores the current document as the next revision, if it is not the newest one. Returns how many it has stored.
    async fn compare(&self, newest: Option<Head>, current: Option<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<u64> {
        let (shared, settings) = (self.shared, &self.shared.settings);
        let Some(current) = current else {
            let Some(newest) = newest.filter(|newest| !newest.is_deleted) else {
                return Ok(0);
            };
            let last = self.writes.last().filter(|last| last.after.is_none());
            let time = last.map_or_else(DateTime::now, |last| last.time);
            insert_new(shared, self.tombstone(after(Some(newest), time, true))?, conn).await?;
            return Ok(1);
        };
        if let Some(newest) = newest
            && number_in(settings, &current) == Some(newest.revision)
        {
            let copy = find_revision(shared, self.id, newest.revision, conn).await?;
            if let Some(copy) = copy
                && is_copy(settings, &shared.known_others(), &current, &copy)?
            {
                return Ok(0);
            }
        }
        Ok(u64::from(store_next(shared, self.id, newest, conn).await?))
    }

    fn tombstone(&self, head: Head) -> Result<RawDocumentBuf> {
        let mut tombstone = doc! { "_id": ObjectId::new() };
        tombstone.extend(commands::tombstone(&self.shared.settings, self.id, head));
        Ok(RawDocumentBuf::try_from(&tombstone).map_err(CommandError::from)?)
    }
}

/// Returns the copy of a document that another program wrote, with the number and the time of its revision.
fn revised(settings: &Settings, document: &RawDocument, head: Head) -> Result<RawDocumentBuf> {
    let copy = copy(settings, document, ObjectId::new())?;
    let mut copy = Document::try_from(&copy).map_err(CommandError::from)?;
    copy.insert(settings.revision.as_str(), query::number(head.revision));
    copy.insert(settings.time.as_str(), head.time);
    Ok(RawDocumentBuf::try_from(&copy).map_err(CommandError::from)?)
}
