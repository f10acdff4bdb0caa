//! The loop of a follower.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::poll_immediate;
use mongodb::bson::Timestamp;
use mongodb::change_stream::event::ResumeToken;

use super::backoff::Backoff;
use super::options::{FollowOptions, Followed};
use super::record::Record;
use super::{Effect, Target, position, setup, stream};
use crate::action::ActionFuture;
use crate::conn::Conn;
use crate::error::{CommandError, Error, ErrorKind, Result};
use crate::measure;
use crate::topology::Topology;

/// How often the position is stored without changes. It must not become older than the oplog.
const STORE_EVERY: Duration = Duration::from_secs(10);
/// How long the server waits for changes before it replies with none.
const WAIT: Duration = Duration::from_secs(1);
/// The same, for a follower that runs until it is current.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// The default retry time of a follower that runs until it is current: longer than the server keeps a transaction of a
/// killed process.
const RETRY_TIME_UNTIL_CURRENT: Duration = Duration::from_secs(120);

struct Follower<'a> {
    target: Box<dyn Target + 'a>,
    options: FollowOptions<'a>,
    record: Record,
    backoff: Backoff,
    /// Whether the requirements were checked and the record was read.
    is_prepared: bool,
    /// The cluster time at which it ends.
    end: Option<Timestamp>,
    /// The position after the last processed change.
    position: Option<ResumeToken>,
    /// The stored position, and when it was stored.
    stored: Option<(ResumeToken, Instant)>,
    /// Whether it has followed any change since the last rebuild. Otherwise another rebuild would not help.
    has_followed: bool,
    done: Followed,
}

/// The changes that the target has collected.
#[derive(Default)]
struct Batch {
    changes: u64,
    end: Option<ResumeToken>,
}

impl<'a> FollowOptions<'a> {
    /// Follows until the caller ends it, until it is current, or until a permanent error. The target writes with the write
    /// concern `majority`.
    pub fn run(mut self, target: Box<dyn Target + 'a>) -> ActionFuture<'a, Followed> {
        let default = self.run_until_current.then_some(RETRY_TIME_UNTIL_CURRENT);
        self.max_retry_time = self.max_retry_time.or(default);
        let follower = Follower {
            record: Record::of(&*target, std::mem::take(&mut self.name)),
            backoff: Backoff::new(self.max_retry_time),
            target,
            options: self,
            is_prepared: false,
            end: None,
            position: None,
            stored: None,
            has_followed: true,
            done: Followed::default(),
        };
        Box::pin(follower.run_to_its_end())
    }
}

impl Follower<'_> {
    async fn run_to_its_end(mut self) -> Result<Followed> {
        loop {
            let error = match self.follow().await {
                Ok(()) => return Ok(self.done),
                Err(error) => error,
            };
            self.target.clear();
            if error.kind() == ErrorKind::HistoryLost && self.options.repair && self.has_followed {
                self.position = None;
                continue;
            }
            let delay = self.backoff.delay_after(error)?;
            self.measure_lag();
            if self.options.until.or(tokio::time::sleep(delay)).await.is_none() {
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
                        self.options.until.or(next).await
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
        Topology::read(self.target.watched(), &mut Conn::new())
            .await?
            .check_transactions()?;
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
        if self.options.repair {
            match self.options.until.or(self.target.rebuild()).await {
                Some(rebuilt) => self.done.written += rebuilt?,
                None => return Ok(()),
            }
            self.done.repaired += 1;
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
        self.done.written += applied;
        self.done.up_to = position::time_of(&end).map(position::before);
        self.position = Some(end);
        self.store_position().await?;
        self.succeeded();
        Ok(())
    }

    /// Records that there were no changes up to this position. A new stream is not known to be readable before it has been
    /// polled.
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
        if let Some(call) = &mut self.options.on_progress {
            call(self.done);
        }
    }

    /// Returns whether the end time is reached. Without a readable time in the server's tokens, it is reached when there are
    /// no more changes.
    fn is_current(&self, is_idle: bool) -> bool {
        self.end.is_some_and(|end| match self.done.up_to {
            Some(up_to) => up_to >= end,
            None => is_idle,
        })
    }
}
