//! Stopping: signals, and the end of the command's operations on the server.

use std::time::{Duration, Instant};

use futures::TryStreamExt;
use mongo_patterns_core::{Error, ErrorKind};
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use tokio::time::{sleep, timeout};

use crate::failure::Exit;

/// The longest time that a stopped command waits for its operations, transactions and cursors to end on the server.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server must refuse to end an operation until that counts as a lack of the privilege. It also refuses one that
/// has ended, and lists it until its thread has cleared it away, which takes a while on a busy machine.
const REFUSED_FOR: Duration = Duration::from_secs(2);
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

/// What is known about the operations of a client that was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server runs none.
    All,
    /// The server refused to list or to end them.
    Refused,
    /// The server is unreachable, or did not end them in time.
    Unknown,
}

impl Ended {
    /// Returns what to do about operations that may still run.
    pub(crate) fn advice(self, id: &str) -> Option<String> {
        let reason = match self {
            Self::All => return None,
            Self::Refused => "the user lacks the privilege to end it (`inprog` and `killop`)",
            Self::Unknown => "the server did not confirm its end",
        };
        Some(format!(
            "the server may still run the last operation, because {reason}; in mongosh, as a user with the role `clusterAdmin`, see it with db.getSiblingDB(\"admin\").aggregate([{{ $currentOp: {{ allUsers: true }} }}, {{ $match: {{ active: true, \"clientMetadata.driver.version\": /{id}$/ }} }}]), and end it with db.killOp(OPID), where OPID is its `opid`"
        ))
    }
}

/// Ends the operations of a client on the server, which run on after their command was dropped, and waits until the
/// driver has aborted the transactions and closed the cursors. A second signal ends the wait.
pub(crate) async fn shut_down(client: Client, id: &str) -> Ended {
    let ended = async {
        let ended = match end_operations(&client, id)
            .await
            .map_err(|error| Error::from(error).kind())
        {
            Ok(()) => Ended::All,
            Err(ErrorKind::Unauthorized) => Ended::Refused,
            Err(_) => Ended::Unknown,
        };
        match ended {
            // The driver would wait for the operation that continues.
            Ended::Refused => drop(timeout(REFUSED_FOR, client.shutdown()).await),
            Ended::All | Ended::Unknown => client.shutdown().await,
        }
        ended
    };
    tokio::select! {
        ended = timeout(SHUTDOWN_TIMEOUT, ended) => ended.unwrap_or(Ended::Unknown),
        _ = signalled() => Ended::Unknown,
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
    let mut refused: Vec<(Bson, Instant)> = Vec::new();
    loop {
        let running = admin.aggregate(stages.clone()).comment(Bson::from(COMMENT)).await?;
        let running: Vec<Document> = running.try_collect().await?;
        if running.is_empty() {
            return Ok(());
        }
        for operation in running {
            let operation = operation.get("opid").cloned().unwrap_or(Bson::Null);
            let kill = doc! { "killOp": 1, "op": &operation, "comment": COMMENT };
            match admin.run_command(kill).await {
                Ok(_) => {}
                Err(error) => match refused.iter().find(|(refused, _)| *refused == operation) {
                    Some((_, since)) if since.elapsed() > REFUSED_FOR => return Err(error),
                    Some(_) => {}
                    None => refused.push((operation, Instant::now())),
                },
            }
        }
        // A killed operation ends at its next yield.
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_may_run_can_be_seen_and_ended() {
        assert_eq!(Ended::All.advice("id7"), None);
        for (ended, reason) in [(Ended::Refused, "`killop`"), (Ended::Unknown, "did not confirm")] {
            let advice = ended.advice("id7").unwrap_or_default();
            for text in [
                reason,
                "may still run",
                "$currentOp: { allUsers: true }",
                "/id7$/",
                "db.killOp(OPID)",
            ] {
                assert!(advice.contains(text), "{text}: {advice}");
            }
        }
    }
}
