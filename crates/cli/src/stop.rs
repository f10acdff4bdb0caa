//! Stopping: signals, and the end of the command's operations on the server.

use std::time::Duration;

use futures::TryStreamExt;
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use tokio::time::{sleep, timeout};

use crate::failure::Exit;

/// The longest time that a stopped command waits for its operations, transactions and cursors to end on the server.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The comment of the operations of this module, which they do not end.
const COMMENT: &str = "mongo-patterns stop";

/// Completes on Ctrl-C and on SIGTERM, with the exit code. Never completes where these signals do not exist.
pub(crate) async fn signalled() -> Exit {
    tokio::select! {
        () = interrupted() => Exit::Stopped,
        () = terminated() => Exit::Terminated,
    }
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}

/// Ends the operations of a client on the server, which run on after their command was dropped, and waits until the
/// driver has aborted the transactions and closed the cursors. Returns whether the server still runs an operation, or
/// is unreachable. A second signal ends the wait.
pub(crate) async fn shut_down(client: Client, id: &str) -> bool {
    let ended = async {
        let has_ended = end_operations(&client, id).await.is_ok();
        client.shutdown().await;
        has_ended
    };
    tokio::select! {
        ended = timeout(SHUTDOWN_TIMEOUT, ended) => ended.unwrap_or(false),
        _ = signalled() => false,
    }
}

/// Kills the operations of the client until there are none. A user may list and kill their own operations without a
/// privilege.
async fn end_operations(client: &Client, id: &str) -> mongodb::error::Result<()> {
    let admin = client.database("admin");
    let stages = [
        doc! { "$currentOp": {} },
        doc! { "$match": {
            "clientMetadata.driver.version": { "$regex": format!("{id}$") },
            "active": true,
            "command.comment": { "$ne": COMMENT },
            "command.hello": { "$exists": false },
            "command.isMaster": { "$exists": false },
            "command.ismaster": { "$exists": false },
        } },
        doc! { "$project": { "opid": 1 } },
    ];
    loop {
        let running = admin.aggregate(stages.clone()).comment(Bson::from(COMMENT)).await?;
        let running: Vec<Document> = running.try_collect().await?;
        if running.is_empty() {
            return Ok(());
        }
        for operation in running {
            let operation = operation.get("opid").cloned().unwrap_or(Bson::Null);
            let kill = doc! { "killOp": 1, "op": operation, "comment": COMMENT };
            admin.run_command(kill).await?;
        }
        // A killed operation ends at its next yield.
        sleep(Duration::from_millis(20)).await;
    }
}
