//! What runs beside the requests: the preparation, and then a follower.
//!
//! A change of a buyer by this service reaches their orders before its response. The follower does the same for a change by
//! another program, and for one whose process was killed before it reached all orders.

use std::time::Duration;

use tokio::sync::watch;
use tracing::error;

use crate::store::Store;

/// The name under which the follower stores its position. All processes of the service share it.
const FOLLOWER: &str = "orders";
/// How long the follower pauses after an error, which only an operator can correct.
const PAUSE: Duration = Duration::from_secs(10);

/// Prepares the collections, and then follows the buyers until the service is asked to stop.
pub(crate) async fn run(store: Store, mut stopped: watch::Receiver<bool>) {
    tokio::select! {
        () = store.prepare() => {}
        () = asked(stopped.clone()) => return,
    }
    while !*stopped.borrow() {
        let followed = store.orders.follow(FOLLOWER).until(asked(stopped.clone())).await;
        let Err(error) = followed else { return };
        // It is reported when it happens, and not at the shutdown. The next one resumes at the stored position.
        error!(%error, code = error.kind().code(), "the orders do not follow their buyers");
        let pause = stopped.wait_for(|stopped| *stopped);
        let _ = tokio::time::timeout(PAUSE, pause).await;
    }
}

/// Completes when the service is asked to stop.
async fn asked(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone: the service has ended.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
