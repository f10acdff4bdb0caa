//! The flushes of a service.

use std::future::{Future, IntoFuture};
use std::pin::pin;

use futures::future::{Either, select};
use mongo_patterns_core::Result;
use mongo_patterns_core::action::ActionFuture;
use mongo_patterns_core::follow::Until;

use crate::counters::{Counters, Shared};

impl Counters {
    /// Flushes by [interval](crate::CountersBuilder::interval), and earlier when the counts of 1000 documents wait. Run one
    /// for each process, in a task that restarts it after an error.
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
    /// # Cancel safety
    /// As of [`flush`](Self::flush). What was not flushed is in memory.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush). Another call continues.
    pub fn run(&self) -> Run<'_> {
        Run {
            counters: self,
            until: Until::never(),
        }
    }
}

/// Flushes by interval; returned by [`Counters::run`].
#[must_use = "it does nothing until it is awaited"]
pub struct Run<'a> {
    counters: &'a Counters,
    until: Until<'a>,
}

mongo_patterns_core::redacted_debug!(Run<'_>);

impl<'a> Run<'a> {
    /// Ends it when the future is ready, after a last flush. For the shutdown of a service, after its last request.
    pub fn until(mut self, shutdown: impl Future<Output = ()> + Send + 'a) -> Self {
        self.until = Until::new(shutdown);
        self
    }
}

impl<'a> IntoFuture for Run<'a> {
    type Output = Result<()>;
    type IntoFuture = ActionFuture<'a, ()>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            loop {
                let is_due = self.until.or(due(self.counters.shared())).await;
                self.counters.flush().await?;
                if is_due.is_none() {
                    return Ok(());
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
