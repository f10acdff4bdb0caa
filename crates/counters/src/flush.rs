//! The flush of the counts.

use std::time::Instant;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::send::UpdatesReply;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::{Error, ErrorKind, ErrorKind::*, Result};
use mongodb::bson::Document;

use crate::counters::{Counters, Shared};
use crate::pending::{Batch, FULL, Outcome};
use crate::query;
use crate::results::Flushed;

const REFUSED: &str = "the server refused the count of a document, which stays in memory, and the other counts were added: see as_driver_error() for the reason, and correct the document, whose field must be a number";

impl Counters {
    /// Adds all counts that were added before the call to their documents. Call it when the service ends, if
    /// [`run`](Self::run) does not.
    ///
    /// ```no_run
    /// # async fn f(views: mongo_patterns::counters::Counters) -> mongo_patterns::Result<()> {
    /// let flushed = views.flush().await?;
    /// println!("{} documents", flushed.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// Each count is added once, to the collection's write concern, also if a flush is repeated after an error or a drop: a
    /// document ignores a batch that it has. Flushes of one process wait for one another.
    ///
    /// # Cost
    /// One round trip for each 1000 documents. None without counts.
    ///
    /// # Cancel safety
    /// Each count is added or not. The next flush retries.
    ///
    /// # Errors
    /// Counts that were not added stay in memory, for the next flush.
    /// [`stored_count`](mongo_patterns_core::Error::stored_count) is the number of documents whose counts were added.
    ///
    /// - The errors of the driver, after the [retries](crate::CountersBuilder::retry).
    /// - [`Driver`], [`ValidationFailed`]: a document refuses its count, for example because the field is not a number.
    ///   [`document_id`](mongo_patterns_core::Error::document_id) names it. Correct the document: each flush fails until
    ///   then. All other documents get their counts.
    /// - An error [of unknown outcome](mongo_patterns_core::Error::is_outcome_unknown), whose text says that a count was
    ///   dropped: its outcome was unknown for 45 minutes, or the server refused it after an attempt of unknown outcome.
    ///   Other counts stay.
    pub fn flush(&self) -> Flush<'_> {
        Flush::create(self.shared())
    }
}

mongo_patterns_core::action! {
    /// Adds the counts to their documents; returned by [`Counters::flush`].
    pub struct Flush<'a> {
        shared: &'a Shared,
    }
    "flush" => Flushed
}

impl Flush<'_> {
    async fn execute(self) -> Result<Flushed> {
        match flush(self.shared).await? {
            (flushed, None) => Ok(flushed),
            (flushed, Some(error)) => Err(error.with_stored(flushed.documents)),
        }
    }
}

/// Adds all counts. Returns the error of a document that refused its count.
pub(crate) async fn flush(shared: &Shared) -> Result<(Flushed, Option<Error>)> {
    // Until the reply of its command, also when it is dropped: the server has one command of a flush at most.
    let conn = Conn::in_lane(shared.lanes.enter("").await);
    let mut batch = shared.batch.lock().await;
    let mut flushing = Flushing {
        shared,
        conn,
        flushed: Flushed::default(),
        dropped: None,
        refused: None,
    };
    // First what an earlier flush has left.
    let mut sent = flushing.send(&mut batch).await;
    if sent.is_ok() {
        batch.next(&mut shared.pending());
        sent = flushing.send(&mut batch).await;
    }
    let Flushing {
        flushed,
        dropped,
        refused,
        ..
    } = flushing;
    match dropped.or(sent.err()) {
        None => Ok((flushed, refused)),
        Some(error) => Err(error.with_stored(flushed.documents)),
    }
}

struct Flushing<'a> {
    shared: &'a Shared,
    conn: Conn<'a>,
    flushed: Flushed,
    /// The error of counts that were dropped.
    dropped: Option<Error>,
    /// The error of a document that refused its count.
    refused: Option<Error>,
}

impl Flushing<'_> {
    /// Sends a batch, until the outcome of each of its counts is known.
    async fn send(&mut self, batch: &mut Batch) -> Result<()> {
        let mut attempts = self.shared.settings.retry.start();
        while !batch.counts.is_empty() {
            let dropped = batch.give_up(Instant::now());
            if dropped > 0 {
                let text = format!(
                    "the outcome of the counts of {dropped} documents was unknown for 45 minutes, they are dropped, because they could be added twice, and all others stay: keep run() running"
                );
                self.dropped = Some(Error::new(ErrorKind::Network, text));
            }
            let Err(error) = self.send_last(batch).await else {
                continue;
            };
            let may_succeed = error.is_transient() || error.is_outcome_unknown();
            if !may_succeed || !attempts.wait().await {
                return Err(attempts.tried(error));
            }
        }
        Ok(())
    }

    /// Sends the last counts of a batch, which an earlier attempt may have added, by one command. With an error, it leaves those
    /// to retry.
    async fn send_last(&mut self, batch: &mut Batch) -> Result<()> {
        let (collection, settings, writer) = (&self.shared.collection, &self.shared.settings, &self.shared.writer);
        let from = batch.counts.len().saturating_sub(FULL);
        let counts = batch.counts[from..].iter();
        let statements = counts.map(|count| query::increment(settings, *writer, batch.number, count));
        let statements: Vec<Document> = statements.collect();
        let before = batch.begin(from, Instant::now());
        let reply = self.conn.update_each(collection, statements).await.map_err(Error::from);
        if reply.as_ref().is_err_and(|error| !error.is_outcome_unknown()) {
            batch.undo(from, &before);
        }
        let UpdatesReply {
            matched,
            failed,
            unconfirmed,
        } = reply?;
        if let Some(error) = unconfirmed {
            return Err(error.into());
        }
        let sent = batch.counts.len() - from;
        self.flushed.documents += matched;
        self.flushed.missing += (sent - failed.len()).saturating_sub(usize::try_from(matched).unwrap_or(sent)) as u64;
        let (mut outcomes, mut unknown) = (vec![Outcome::Added; sent], None);
        for (index, error) in failed {
            let error: Error = Error::from(error);
            let Some(outcome) = outcomes.get_mut(index) else {
                continue;
            };
            if error.is_outcome_unknown() || error.is_transient() {
                *outcome = match error.is_outcome_unknown() {
                    true => Outcome::Unknown,
                    false => Outcome::Failed,
                };
                unknown = Some(error);
            } else {
                *outcome = Outcome::Refused;
                self.flushed.refused += 1;
                let (id, field) = (batch.counts[from + index].id.clone(), settings.field.as_str());
                let error = error.with_text(REFUSED);
                self.refused = Some(error.of_document(id, field).of_collection(collection));
            }
        }
        batch.settle(from, &before, &mut self.shared.pending(), |index| outcomes[index]);
        unknown.map_or(Ok(()), Err)
    }
}
