//! The loop of a follower.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, poll_immediate};
use mongodb::bson::Timestamp;
use mongodb::change_stream::event::ResumeToken;

use super::backoff::Backoff;
use super::record::Record;
use super::until::Until;
use super::{Effect, Target, position, setup, stream};
use crate::error::{CommandError, Error, ErrorKind, Result};
use crate::measure;
use crate::topology::Topology;

/// How often the position is stored without changes. It must not become older than the oplog.
const STORE_EVERY: Duration = Duration::from_secs(10);
/// How long the server waits for changes before it replies with none.
const WAIT: Duration = Duration::from_secs(1);
/// The same, for a follower that runs until it is current.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// The default retry time of a follower that runs until it is current. A transaction of a process that was killed locks
/// its documents until the server ends it, by default after 60 to 90 seconds.
const RETRY_TIME_UNTIL_CURRENT: Duration = Duration::from_secs(120);

/// A progress callback.
pub type OnFollowed<'a> = Box<dyn FnMut(Followed) + Send + 'a>;

/// What a follower has done since its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The number of changes that it has processed.
    pub changes: u64,
    /// The number of documents that it has written for them.
    pub applied: u64,
    /// The number of times that it has rebuilt everything.
    pub rebuilt: u64,
    /// The cluster time up to which all changes are processed.
    pub up_to: Option<Timestamp>,
}

/// The options of a follower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether it enables pre-images.
    pub enable_pre_images: bool,
    /// Whether it rebuilds everything if changes may be missing.
    pub rebuild: bool,
    /// Whether it ends when it is current.
    pub run_until_current: bool,
    /// How long it retries.
    pub max_retry_time: Option<Duration>,
}

/// A follower.
pub struct Follower<'a> {
    target: Box<dyn Target + 'a>,
    options: Options,
    record: Record,
    until: Until<'a>,
    on_progress: Option<OnFollowed<'a>>,
    backoff: Backoff,
    /// Whether the requirements were checked and the record was read.
    is_prepared: bool,
    /// The cluster time at which it ends.
    end: Option<Timestamp>,
    /// The position after the last processed change.
    position: Option<ResumeToken>,
    /// The stored position, and when it was stored.
    stored: Option<(ResumeToken, Instant)>,
    /// Whether it has followed any change since the last rebuild. If not, another rebuild would not help.
    has_followed: bool,
    done: Followed,
}

/// The changes that the target has collected.
#[derive(Default)]
struct Batch {
    changes: u64,
    end: Option<ResumeToken>,
}

impl std::fmt::Debug for Follower<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> Follower<'a> {
    /// Creates a follower of this name. The target writes with the write concern `majority`.
    pub fn new(
        target: impl Target + 'a,
        name: String,
        mut options: Options,
        until: Until<'a>,
        on_progress: Option<OnFollowed<'a>>,
    ) -> Self {
        let default = options.run_until_current.then_some(RETRY_TIME_UNTIL_CURRENT);
        options.max_retry_time = options.max_retry_time.or(default);
        Self {
            record: Record::of(&target, name),
            target: Box::new(target),
            options,
            until,
            on_progress,
            backoff: Backoff::new(options.max_retry_time),
            is_prepared: false,
            end: None,
            position: None,
            stored: None,
            has_followed: true,
            done: Followed::default(),
        }
    }

    /// Follows until the caller ends it, until it is current, or until a permanent error.
    ///
    /// # Errors
    /// Those of the target, of its [texts](super::Texts), and of the driver.
    pub fn run(self) -> BoxFuture<'a, Result<Followed>> {
        Box::pin(self.run_to_its_end())
    }

    async fn run_to_its_end(mut self) -> Result<Followed> {
        loop {
            let error = match self.follow().await {
                Ok(()) => return Ok(self.done),
                Err(error) => error,
            };
            self.target.clear();
            if error.kind() == ErrorKind::HistoryLost && self.options.rebuild && self.has_followed {
                self.position = None;
                continue;
            }
            let delay = self.backoff.delay_after(error)?;
            self.measure_lag();
            if self.until.or(tokio::time::sleep(delay)).await.is_none() {
                return Ok(self.done);
            }
        }
    }

    async fn follow(&mut self) -> Result<()> {
        if !self.is_prepared {
            self.prepare().await?;
        }
        if self.position.is_none() {
            self.begin().await?;
        }
        let Some(position) = self.position.clone() else {
            return Ok(()); // the caller has ended it
        };
        let wait = if self.end.is_some() { SHORT_WAIT } else { WAIT };
        let mut changes = stream::watch(&*self.target, position, wait).await?;
        let mut batch = Batch::default();
        let mut has_polled = false;
        loop {
            let reply = {
                let mut next = pin!(changes.next_if_any());
                // Changes that the server has sent already need no wait. Otherwise this poll requests more from the
                // server, which are on their way while the batch is applied.
                match poll_immediate(next.as_mut()).await {
                    Some(reply) => Some(reply),
                    None => {
                        if let Some(end) = batch.end.take() {
                            self.apply(std::mem::take(&mut batch.changes), end).await?;
                            if self.is_current(false) {
                                return self.store_position().await;
                            }
                        }
                        self.until.or(next).await
                    }
                }
            };
            let Some(reply) = reply else {
                return self.store_position().await;
            };
            let position = changes.resume_token();
            let failed = |error| stream::failed(CommandError::of_read(error), self.target.texts());
            if let Some(event) = reply.map_err(failed)? {
                match self.target.add(&event)? {
                    Effect::Added => {
                        batch.changes += 1;
                        batch.end = position;
                    }
                    Effect::Unknown => {
                        if let Some(end) = batch.end.take() {
                            self.apply(batch.changes, end).await?;
                        }
                        return Err(stream::lost(self.target.texts()));
                    }
                    Effect::Dropped => {
                        self.record.delete().await?;
                        return Err(stream::dropped(self.target.texts()));
                    }
                }
                continue;
            }
            if !changes.is_alive() {
                return Err(Error::new(ErrorKind::Network, "the server closed the change stream"));
            }
            if let Some(end) = batch.end.take() {
                // The reply had arrived before the first poll.
                self.apply(std::mem::take(&mut batch.changes), end).await?;
            }
            self.idle(position, has_polled).await?;
            // The first reply belongs to the opening of the stream.
            has_polled = true;
            if self.is_current(true) {
                return self.store_position().await;
            }
        }
    }

    async fn prepare(&mut self) -> Result<()> {
        Topology::read(self.target.watched()).await?.check_transactions()?;
        self.target.check().await?;
        setup::check_pre_images(&*self.target, self.options.enable_pre_images).await?;
        self.position = self.record.read().await?;
        self.stored = self.position.clone().map(|position| (position, Instant::now()));
        if self.options.run_until_current {
            self.end = Some(position::last_write(&*self.target).await?);
        }
        self.is_prepared = true;
        Ok(())
    }

    /// Rebuilds everything, and starts after all changes so far.
    async fn begin(&mut self) -> Result<()> {
        self.has_followed = false;
        // Changes are lost if somebody has disabled them.
        setup::check_pre_images(&*self.target, self.options.enable_pre_images).await?;
        let now = stream::now(&*self.target).await?;
        if self.options.rebuild {
            match self.until.or(self.target.rebuild()).await {
                Some(rebuilt) => self.done.applied += rebuilt?,
                None => return Ok(()),
            }
            self.done.rebuilt += 1;
        }
        self.done.up_to = position::time_of(&now).map(position::before);
        self.position = Some(now);
        self.store_position().await?;
        self.report();
        Ok(())
    }

    /// Applies a batch, and stores its end.
    async fn apply(&mut self, changes: u64, end: ResumeToken) -> Result<()> {
        let applied = self.target.apply().await?;
        self.done.changes += changes;
        measure::followed(self.record.name(), changes);
        self.done.applied += applied;
        self.done.up_to = position::time_of(&end).map(position::before);
        self.position = Some(end);
        self.store_position().await?;
        self.succeeded();
        Ok(())
    }

    /// Records that there were no changes up to this position. A stream that was opened is not known to be readable
    /// before it has been polled.
    async fn idle(&mut self, position: Option<ResumeToken>, has_polled: bool) -> Result<()> {
        let Some(position) = position else { return Ok(()) };
        if self.position.as_ref() != Some(&position) {
            // The time of the initial position is not final: the next change may have it too.
            self.done.up_to = position::time_of(&position);
            self.position = Some(position);
        }
        if self
            .stored
            .as_ref()
            .is_none_or(|(_, when)| when.elapsed() >= STORE_EVERY)
        {
            self.store_position().await?;
        }
        if has_polled {
            self.succeeded();
        } else {
            self.report();
        }
        Ok(())
    }

    /// Stores the position, unless it is stored already.
    async fn store_position(&mut self) -> Result<()> {
        let Some(position) = &self.position else { return Ok(()) };
        if self.stored.as_ref().is_none_or(|(stored, _)| stored != position) {
            self.record.write(position).await?;
        }
        self.stored = Some((position.clone(), Instant::now()));
        Ok(())
    }

    fn succeeded(&mut self) {
        self.has_followed = true;
        self.backoff.reset();
        self.report();
    }

    fn measure_lag(&self) {
        if let Some(up_to) = self.done.up_to {
            measure::follower_lag(self.record.name(), up_to.time);
        }
    }

    fn report(&mut self) {
        self.measure_lag();
        if let Some(call) = &mut self.on_progress {
            call(self.done);
        }
    }

    /// Returns whether the end time is reached. If the server's tokens have no readable time, it is reached when
    /// there are no more changes.
    fn is_current(&self, is_idle: bool) -> bool {
        self.end.is_some_and(|end| match self.done.up_to {
            Some(up_to) => up_to >= end,
            None => is_idle,
        })
    }
}
