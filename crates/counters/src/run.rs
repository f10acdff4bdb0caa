//! The flushes of a service.

use std::future::{Future, IntoFuture};
use std::pin::pin;

use futures::future::{Either, select};
use mongo_patterns_core::action::{self, ActionFuture};
use mongo_patterns_core::follow::Until;
use mongo_patterns_core::{Error, Result};

use crate::counters::{Counters, Shared};
use crate::flush::flush;
use crate::results::Flushed;

impl Counters {
    /// Flushes by [interval](crate::CountersBuilder::interval), and earlier when the counts of 1000 documents wait.
    ///
    /// Run one for each process, in a task that restarts it after an error. A document that refuses its count does not end
    /// it: it logs a warning by `tracing`, and [`on_flush`](Run::on_flush) reports each.
    ///
    /// ```no_run
    /// # async fn f(views: mongo_patterns::counters::Counters, shutdown: tokio::sync::watch::Receiver<bool>) {
    /// loop {
    ///     let mut asked = shutdown.clone();
    ///     let until = async move { drop(asked.wait_for(|asked| *asked).await) };
    ///     let Err(error) = views.run().until(until).await else { break };
    ///     eprintln!("{error}"); // the counts are in memory still
    ///     if *shutdown.borrow() {
    ///         break; // the last flush failed
    ///     }
    ///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// }
    /// # }
    /// ```
    ///
    /// # Cost
    /// As a [`flush`](Self::flush) for each interval with counts.
    ///
    /// # Cancel safety
    /// As of [`flush`](Self::flush). Counts that were not flushed are in memory.
    ///
    /// # Errors
    /// - The errors of [`flush`](Self::flush). A document that refuses its count is one only after the last flush. Another
    ///   call continues.
    pub fn run(&self) -> Run<'_> {
        Run {
            counters: self,
            until: Until::never(),
            on_flush: None,
        }
    }
}

/// Flushes by interval; returned by [`Counters::run`].
#[must_use = "it does nothing until it is awaited"]
pub struct Run<'a> {
    counters: &'a Counters,
    until: Until<'a>,
    on_flush: Option<OnFlush<'a>>,
}

type OnFlush<'a> = Box<dyn FnMut(Flushed, Option<&Error>) + Send + 'a>;

mongo_patterns_core::redacted_debug!(Run<'_>);

impl<'a> Run<'a> {
    /// Ends it when the future is ready, after a last flush. For the shutdown of a service, after its last request.
    pub fn until(mut self, shutdown: impl Future<Output = ()> + Send + 'a) -> Self {
        self.until = Until::new(shutdown);
        self
    }

    /// Sets a callback, which is called after each flush with its result, and with the error of a document that
    /// [refused](Flushed::refused) its count.
    pub fn on_flush(mut self, call: impl FnMut(Flushed, Option<&Error>) + Send + 'a) -> Self {
        self.on_flush = Some(Box::new(call));
        self
    }
}

impl<'a> IntoFuture for Run<'a> {
    type Output = Result<()>;
    type IntoFuture = ActionFuture<'a, ()>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let (shared, mut is_refused) = (self.counters.shared(), false);
            loop {
                let is_due = self.until.or(due(shared)).await;
                let (flushed, refused) = action::run(shared.operation("flush"), flush(shared)).await?;
                if let Some(call) = &mut self.on_flush {
                    call(flushed, refused.as_ref());
                }
                if let Some(error) = refused.as_ref().filter(|_| !is_refused) {
                    tracing::warn!(%error, documents = flushed.refused, "documents refuse their counts");
                }
                is_refused = refused.is_some();
                match (is_due, refused) {
                    (Some(()), _) => {}
                    (None, None) => return Ok(()),
                    (None, Some(error)) => return Err(error.with_stored(flushed.documents)),
                }
            }
        })
    }
}

/// Waits for the end of the interval, or for the counts of a whole command.
async fn due(shared: &Shared) {
    let interval = pin!(tokio::time::sleep(shared.settings.interval));
    match select(interval, pin!(shared.full.notified())).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}
