//! Commands in flight, which run to their end even if the caller's future is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use mongodb::ClientSession;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::lanes::Lane;
use crate::measure;

/// The number of tasks of this library.
static TASKS: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// Waits until no command of a dropped call is in flight, for the shutdown of a service: call it after the last request,
/// and before the tokio runtime ends.
///
/// The library polls each command that it has sent to the server's reply, also when the future of the call is dropped. A
/// command that waits for a document that another client has locked takes as long as that client.
///
/// Calls that are not dropped are not waited for, except for those that share a command with others, and followers are
/// not either.
///
/// ```no_run
/// # async fn serve() {}
/// # async fn f() {
/// serve().await; // until the service is asked to stop
/// // Not longer than the orchestrator waits.
/// let drained = tokio::time::timeout(std::time::Duration::from_secs(20), mongo_patterns_core::drain()).await;
/// if drained.is_err() {
///     println!("some commands are still in flight, the server ends them");
/// }
/// # }
/// ```
///
/// # Cancel safety
/// It changes nothing.
pub async fn drain() {
    let mut tasks = TASKS.subscribe();
    // An error means that the sender was dropped, and a static is not.
    let _ = tasks.wait_for(|tasks| *tasks == 0).await;
}

/// One of the tasks.
struct Task;

impl Task {
    fn begin() -> Self {
        TASKS.send_modify(|tasks| *tasks += 1);
        Self
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        TASKS.send_modify(|tasks| *tasks -= 1);
    }
}

/// Runs a future in a task that [`drain`] waits for.
pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let task = Task::begin();
    runtime.spawn(async move {
        let _task = task;
        work.await;
    });
}

/// Runs what a dropped call has sent to its end.
pub(crate) fn take_over(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let taken_over = measure::TakenOver::begin();
    spawn(runtime, async move {
        let _taken_over = taken_over;
        work.await;
    });
}

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
