//! A follower at work.

use std::collections::HashMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::poll_immediate;
use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns_core::{Error, ErrorKind, Result, document_id};
use mongodb::bson::{self, Bson, Timestamp, doc};
use mongodb::change_stream::event::ResumeToken;

use super::backoff::Patience;
use super::change::{self, Change};
use super::position;
use super::record::Record;
use super::setup;
use super::until::Until;
use super::{Followed, OnProgress};
use crate::action::rebuild_all;
use crate::repository::Shared;
use crate::write::refresh::{Refreshed, refresh};

/// How many parents are refreshed at the same time. A client has ten connections, if not told otherwise.
const PARENTS_AT_ONCE: usize = 4;
/// How often the place is noted when there is nothing to do. It must not be as old as the oplog.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// How long the server waits for changes before it answers that there are none.
const WAIT: Duration = Duration::from_secs(1);
/// The same, when there is an end to wait for.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// What the caller chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) enable_pre_images: bool,
    /// Whether all subsets are made anew where it is not known what has happened.
    pub(crate) rebuild: bool,
    pub(crate) run_until_current: bool,
    pub(crate) max_retry_time: Option<Duration>,
}

/// One call.
pub(crate) struct Follower<'a> {
    shared: Shared,
    options: Options,
    record: Record,
    until: Until<'a>,
    on_progress: Option<OnProgress<'a>>,
    patience: Patience,
    /// Whether server and collection were checked, and the record was read.
    is_prepared: bool,
    /// Up to when it must come, if it is to end then.
    target: Option<Timestamp>,
    /// The place after the last change that is done.
    position: Option<ResumeToken>,
    /// The place in the record, and when it was written.
    noted: Option<(ResumeToken, Instant)>,
    /// Whether anything was followed since all subsets were made anew. If not, doing it again would not help.
    has_followed: bool,
    done: Followed,
}

/// Changes that came together.
#[derive(Default)]
struct Batch {
    changes: u64,
    /// By their bytes: what the server takes for equal may differ in them, which costs a refresh more.
    parents: HashMap<Vec<u8>, Bson>,
    /// The place after the last one.
    end: Option<ResumeToken>,
}

impl Batch {
    fn add(&mut self, parents: Vec<Bson>, end: Option<ResumeToken>) -> Result<()> {
        for parent in parents {
            let bytes = bson::serialize_to_vec(&doc! { "": &parent }).map_err(mongodb::error::Error::from)?;
            self.parents.insert(bytes, parent);
        }
        self.changes += 1;
        self.end = end;
        Ok(())
    }
}

impl<'a> Follower<'a> {
    pub(crate) fn new(
        shared: &Shared,
        name: String,
        options: Options,
        until: Until<'a>,
        on_progress: Option<OnProgress<'a>>,
    ) -> Self {
        // What is taken back after its place is noted would never be mended.
        let shared = shared.with_majority();
        Self {
            record: Record::of(&shared, name),
            shared,
            options,
            until,
            on_progress,
            patience: Patience::new(options.max_retry_time),
            is_prepared: false,
            target: None,
            position: None,
            noted: None,
            has_followed: true,
            done: Followed::default(),
        }
    }

    /// Follows until it is told to stop, is caught up, or meets an error that waiting does not help.
    pub(crate) async fn run(mut self) -> Result<Followed> {
        loop {
            let error = match self.follow().await {
                Ok(()) => return Ok(self.done),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::HistoryLost && self.options.rebuild && self.has_followed {
                self.position = None;
                continue;
            }
            let delay = self.patience.after(error)?;
            if self.until.or(tokio::time::sleep(delay)).await.is_none() {
                return Ok(self.done);
            }
        }
    }

    /// Follows, by one change stream.
    async fn follow(&mut self) -> Result<()> {
        if !self.is_prepared {
            self.prepare().await?;
        }
        if self.position.is_none() {
            self.begin().await?;
        }
        let Some(position) = self.position.clone() else {
            return Ok(()); // told to stop
        };
        let wait = if self.target.is_some() { SHORT_WAIT } else { WAIT };
        let mut changes = change::watch(&self.shared, position, wait).await?;
        let mut batch = Batch::default();
        let mut asked = false;
        loop {
            let answer = {
                let mut next = pin!(changes.next_if_any());
                // What the server has sent already is there without a wait. When it must be asked for more, which this
                // begins, what there is is done meanwhile.
                match poll_immediate(next.as_mut()).await {
                    Some(answer) => Some(answer),
                    None => {
                        if let Some(end) = batch.end.take() {
                            self.apply(std::mem::take(&mut batch), end).await?;
                            if self.is_caught_up(false) {
                                return self.note().await;
                            }
                        }
                        self.until.or(next).await
                    }
                }
            };
            let Some(answer) = answer else {
                return self.note().await;
            };
            let place = changes.resume_token();
            if let Some(event) = answer.map_err(change::failed)? {
                match Change::of(&self.shared.settings, &event) {
                    Change::Parents(parents) => batch.add(parents, place)?,
                    Change::Unknown => {
                        if let Some(end) = batch.end.take() {
                            self.apply(batch, end).await?;
                        }
                        return Err(change::lost());
                    }
                    Change::Dropped => {
                        self.record.forget().await?;
                        return Err(change::dropped());
                    }
                }
                continue;
            }
            if !changes.is_alive() {
                return Err(Error::new(ErrorKind::Network, "the server closed the change stream"));
            }
            if let Some(end) = batch.end.take() {
                // The answer was there before it was waited for.
                self.apply(std::mem::take(&mut batch), end).await?;
            }
            self.rest(place, asked).await?;
            // The first answer is that to the opening of the stream.
            asked = true;
            if self.is_caught_up(true) {
                return self.note().await;
            }
        }
    }

    async fn prepare(&mut self) -> Result<()> {
        setup::check_server(&self.shared).await?;
        self.shared.check_indexes().await?;
        setup::check_pre_images(&self.shared, self.options.enable_pre_images).await?;
        self.position = self.record.read().await?;
        self.noted = self.position.clone().map(|position| (position, Instant::now()));
        if self.options.run_until_current {
            self.target = Some(position::last_write(&self.shared).await?);
        }
        self.is_prepared = true;
        Ok(())
    }

    /// Makes all subsets anew, and begins with what happens from then on.
    async fn begin(&mut self) -> Result<()> {
        self.has_followed = false;
        // They may have been switched off, which is how changes get lost.
        setup::check_pre_images(&self.shared, self.options.enable_pre_images).await?;
        let now = change::now(&self.shared).await?;
        if self.options.rebuild {
            match self.until.or(rebuild_all(&self.shared)).await {
                // What is not moved yet is right with its first write.
                Some(Err(error)) if error.kind() == ErrorKind::NotMigrated => {}
                Some(rebuilt) => drop(rebuilt?),
                None => return Ok(()),
            }
            self.done.rebuilt += 1;
        }
        self.done.up_to = position::time_of(&now).map(position::before);
        self.position = Some(now);
        self.note().await?;
        self.report();
        Ok(())
    }

    /// Refreshes the parents of a batch, and notes its end.
    async fn apply(&mut self, batch: Batch, end: ResumeToken) -> Result<()> {
        let shared = &self.shared;
        let refreshes = stream::iter(batch.parents.into_values()).map(|parent| async move {
            let _locked = shared.locks.exclusive(&document_id::text(&parent)).await;
            match refresh(shared, &parent, None, None, None).await {
                // Such as by the move that copies its children: its first write will see them.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                refreshed => Ok::<_, Error>(u64::from(matches!(refreshed?, Refreshed::Done { .. }))),
            }
        });
        let refreshes = refreshes.buffer_unordered(PARENTS_AT_ONCE);
        let refreshed = refreshes.try_fold(0, |sum, one| async move { Ok(sum + one) }).await?;
        self.done.changes += batch.changes;
        self.done.refreshed += refreshed;
        self.done.up_to = position::time_of(&end).map(position::before);
        self.position = Some(end);
        self.note().await?;
        self.succeeded();
        Ok(())
    }

    /// There was nothing to do up to this place. That a stream can be opened does not mean that it can be read.
    async fn rest(&mut self, place: Option<ResumeToken>, is_read: bool) -> Result<()> {
        let Some(place) = place else { return Ok(()) };
        if self.position.as_ref() != Some(&place) {
            // It was read through. A place that was begun at may be the very next to be written.
            self.done.up_to = position::time_of(&place);
            self.position = Some(place);
        }
        if self.noted.as_ref().is_none_or(|(_, when)| when.elapsed() >= NOTE_EVERY) {
            self.note().await?;
        }
        if is_read {
            self.succeeded();
        } else {
            self.report();
        }
        Ok(())
    }

    /// Writes the place to the record, unless it is there.
    async fn note(&mut self) -> Result<()> {
        let Some(position) = &self.position else { return Ok(()) };
        if self.noted.as_ref().is_none_or(|(noted, _)| noted != position) {
            self.record.write(position).await?;
        }
        self.noted = Some((position.clone(), Instant::now()));
        Ok(())
    }

    fn succeeded(&mut self) {
        self.has_followed = true;
        self.patience.restore();
        self.report();
    }

    fn report(&mut self) {
        if let Some(call) = &mut self.on_progress {
            call(self.done);
        }
    }

    /// Where the server's tokens cannot be read, it is when there is nothing more.
    fn is_caught_up(&self, is_at_rest: bool) -> bool {
        self.target.is_some_and(|target| match self.done.up_to {
            Some(up_to) => up_to >= target,
            None => is_at_rest,
        })
    }
}
