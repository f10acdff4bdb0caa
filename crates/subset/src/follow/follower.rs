//! The loop of a follower.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Instant;

use futures::future::poll_immediate;
use futures::stream;
use mongodb::change_stream::event::ResumeToken;

use super::backoff::Backoff;
use super::change::{self, Effect};
use super::record::Record;
use super::until::Until;
use super::{position, setup};
use crate::repair::check_settings::check_settings;
use crate::repair::rebuild::rebuild_all;
use crate::repository::prelude::*;
use crate::repository::refreshes::Refreshed;
use crate::results::Followed;
use crate::write::refresh::refresh_parent;

/// The number of parents that are refreshed concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;
/// How often the position is stored without changes. It must not become older than the oplog.
const STORE_EVERY: Duration = Duration::from_secs(10);
/// How long the server waits for changes before it replies with none.
const WAIT: Duration = Duration::from_secs(1);
/// The same, for a follower that runs until it is current.
const SHORT_WAIT: Duration = Duration::from_millis(50);

pub(crate) type OnFollowed<'a> = Box<dyn FnMut(Followed) + Send + 'a>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) enable_pre_images: bool,
    /// Whether it rebuilds all subsets if changes may be missing.
    pub(crate) rebuild: bool,
    pub(crate) run_until_current: bool,
    pub(crate) max_retry_time: Option<Duration>,
}

pub(crate) struct Follower<'a> {
    shared: Shared,
    options: Options,
    record: Record,
    until: Until<'a>,
    on_progress: Option<OnFollowed<'a>>,
    backoff: Backoff,
    /// Whether the requirements were checked and the record was read.
    is_prepared: bool,
    /// The cluster time at which it ends.
    target: Option<Timestamp>,
    /// The position after the last processed change.
    position: Option<ResumeToken>,
    /// The stored position, and when it was stored.
    stored: Option<(ResumeToken, Instant)>,
    /// Whether it has followed any change since the last rebuild. If not, another rebuild would not help.
    has_followed: bool,
    done: Followed,
}

/// Changes that arrived together.
#[derive(Default)]
struct Batch {
    changes: u64,
    /// By their bytes. Ids that are equal for the server can differ in their bytes, which costs one more refresh.
    parents: HashMap<Vec<u8>, Bson>,
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
        on_progress: Option<OnFollowed<'a>>,
    ) -> Self {
        // A refresh that is rolled back after its position was stored would never be repaired.
        let shared = shared.with_majority();
        Self {
            record: Record::of(&shared, name),
            shared,
            options,
            until,
            on_progress,
            backoff: Backoff::new(options.max_retry_time),
            is_prepared: false,
            target: None,
            position: None,
            stored: None,
            has_followed: true,
            done: Followed::default(),
        }
    }

    /// Follows until the caller ends it, until it is current, or until a permanent error.
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
        let wait = if self.target.is_some() { SHORT_WAIT } else { WAIT };
        let mut changes = change::watch(&self.shared, position, wait).await?;
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
                            self.apply(std::mem::take(&mut batch), end).await?;
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
            if let Some(event) = reply.map_err(CommandError::of_read).map_err(change::failed)? {
                match Effect::of(&self.shared.settings, &event) {
                    Effect::Stale(parents) => batch.add(parents, position)?,
                    Effect::Unknown => {
                        if let Some(end) = batch.end.take() {
                            self.apply(batch, end).await?;
                        }
                        return Err(change::lost());
                    }
                    Effect::Dropped => {
                        self.record.delete().await?;
                        return Err(change::dropped());
                    }
                }
                continue;
            }
            if !changes.is_alive() {
                return Err(Error::new(ErrorKind::Network, "the server closed the change stream"));
            }
            if let Some(end) = batch.end.take() {
                // The reply had arrived before the first poll.
                self.apply(std::mem::take(&mut batch), end).await?;
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
        setup::check_server(&self.shared).await?;
        check_settings(&self.shared).await?;
        self.shared.check_indexes().await?;
        setup::check_pre_images(&self.shared, self.options.enable_pre_images).await?;
        self.position = self.record.read().await?;
        self.stored = self.position.clone().map(|position| (position, Instant::now()));
        if self.options.run_until_current {
            self.target = Some(position::last_write(&self.shared).await?);
        }
        self.is_prepared = true;
        Ok(())
    }

    /// Rebuilds all subsets, and starts after all changes so far.
    async fn begin(&mut self) -> Result<()> {
        self.has_followed = false;
        // Changes are lost if somebody has disabled them.
        setup::check_pre_images(&self.shared, self.options.enable_pre_images).await?;
        let now = change::now(&self.shared).await?;
        if self.options.rebuild {
            match self.until.or(rebuild_all(&self.shared)).await {
                // The first write to a parent that is not migrated yet corrects it.
                Some(Err(error)) if error.kind() == ErrorKind::NotMigrated => {}
                Some(rebuilt) => drop(rebuilt?),
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

    /// Refreshes the parents of a batch, and stores its end.
    async fn apply(&mut self, batch: Batch, end: ResumeToken) -> Result<()> {
        let shared = &self.shared;
        let refreshes = stream::iter(batch.parents.into_values()).map(|parent| async move {
            match refresh_parent(shared, &parent).await {
                // For example during the migration of its children. The first write to the parent reads them.
                Err(error) if error.kind() == ErrorKind::NotMigrated => Ok(0),
                refreshed => Ok::<_, Error>(u64::from(matches!(refreshed?, Refreshed::Done { .. }))),
            }
        });
        let refreshes = refreshes.buffer_unordered(CONCURRENCY);
        let refreshed = refreshes.try_fold(0, |sum, one| async move { Ok(sum + one) }).await?;
        self.done.changes += batch.changes;
        measure::followed(self.record.name(), batch.changes);
        self.done.refreshed += refreshed;
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

    /// Returns whether the target time is reached. If the server's tokens have no readable time, it is reached when
    /// there are no more changes.
    fn is_current(&self, is_idle: bool) -> bool {
        self.target.is_some_and(|target| match self.done.up_to {
            Some(up_to) => up_to >= target,
            None => is_idle,
        })
    }
}
