//! Commands in flight, which run to their end even if the caller's future is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use mongodb::ClientSession;
use tokio::runtime::Handle;

use crate::lanes::Lane;
use crate::tasks::take_over;

/// Ends the transaction of a session, and then frees its lanes.
pub(super) async fn abort(mut session: ClientSession, lane: Lane) {
    // The driver ignores an error of the abort. Without a started transaction it sends nothing.
    let _ = session.abort_transaction().await;
    drop(session);
    drop(lane);
}

/// Polls a command without a session to its end.
pub(crate) async fn in_flight<T: Send + 'static>(work: BoxFuture<'static, T>) -> T {
    InFlight::single(work, Lane::default()).await.1
}

/// A future that runs to its end even if it is dropped.
pub(super) struct InFlight<T: Send + 'static> {
    work: Option<Work<T>>,
    lane: Lane,
    runtime: Handle,
}

enum Work<T> {
    Single(BoxFuture<'static, T>),
    InSession(BoxFuture<'static, (ClientSession, T)>),
}

impl<T: Send + 'static> InFlight<T> {
    pub(super) fn single(work: BoxFuture<'static, T>, lane: Lane) -> Self {
        Self::of(Work::Single(work), lane)
    }

    /// The transaction of the session is aborted if the future is dropped.
    pub(super) fn in_session(work: BoxFuture<'static, (ClientSession, T)>, lane: Lane) -> Self {
        Self::of(Work::InSession(work), lane)
    }

    fn of(work: Work<T>, lane: Lane) -> Self {
        Self {
            work: Some(work),
            lane,
            runtime: Handle::current(),
        }
    }
}

impl<T: Send + 'static> Future for InFlight<T> {
    type Output = (Option<ClientSession>, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let done = match &mut self.work {
            None => return Poll::Pending,
            Some(Work::Single(work)) => (None, ready!(work.poll_unpin(context))),
            Some(Work::InSession(work)) => {
                let (session, done) = ready!(work.poll_unpin(context));
                (Some(session), done)
            }
        };
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for InFlight<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let lane = std::mem::take(&mut self.lane);
        take_over(&self.runtime, async move {
            match work {
                Work::Single(work) => {
                    work.await;
                    drop(lane);
                }
                Work::InSession(work) => abort(work.await.0, lane).await,
            }
        });
    }
}
