//! The tasks of the library, which a shutdown waits for.

use std::future::Future;
use std::sync::LazyLock;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::measure;

/// The number of tasks of this library.
static TASKS: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// Waits until no command of a dropped call is in flight, for the shutdown of a service: call it after the last request, and
/// before the tokio runtime ends.
///
/// A command that waits for a document that another client has locked takes as long as that client. Calls that are not
/// dropped, and followers, are not waited for, except calls that share a command.
///
/// ```no_run
/// # async fn serve() {}
/// # async fn f() {
/// serve().await; // until the service is asked to stop
/// // Not longer than the orchestrator waits.
/// let drained = tokio::time::timeout(std::time::Duration::from_secs(20), mongo_patterns::drain()).await;
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
