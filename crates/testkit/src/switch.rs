//! Enables and disables the server's fail point from code that cannot await: a callback of the driver, or a drop.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::fail_point::{InUse, entered, lock};
use crate::server;

/// The use of the fail point, if it was acquired, and how often it was entered before.
type Taken = (Option<InUse>, i64);

struct Job {
    command: Document,
    takes: bool,
    reply: Sender<Result<Taken, String>>,
}

/// Acquires the fail point for the caller, and sends this command.
pub(crate) fn take(command: Document) -> Result<Taken, String> {
    send(command, true)
}

/// Disables the fail point.
pub(crate) fn off() -> Result<(), String> {
    send(doc! { "configureFailPoint": "failCommand", "mode": "off" }, false).map(drop)
}

/// Blocks the calling thread only: a separate thread does the work.
fn send(command: Document, takes: bool) -> Result<Taken, String> {
    static JOBS: OnceLock<Mutex<UnboundedSender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (jobs, received) = unbounded_channel();
        std::thread::spawn(move || work(received));
        Mutex::new(jobs)
    });
    let (reply, answer) = channel();
    let job = Job { command, takes, reply };
    let sent = jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    sent.map_err(|_| "the thread of the fail point has ended".to_owned())?;
    answer.recv().map_err(|error| error.to_string())?
}

fn work(mut jobs: UnboundedReceiver<Job>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let client = client().await;
        while let Some(job) = jobs.recv().await {
            let client = client.clone();
            // A job that waits to acquire the fail point must not block the job that releases it.
            tokio::spawn(async move {
                let in_use = match job.takes {
                    true => Some(lock().await),
                    false => None,
                };
                let done = match client {
                    Ok(client) => client.database("admin").run_command(job.command).await,
                    Err(error) => Err(error),
                };
                let done = done.map(|reply| (in_use, entered(&reply)));
                let _ = job.reply.send(done.map_err(|error| error.to_string()));
            });
        }
    });
}

async fn client() -> mongodb::error::Result<Client> {
    let server = server().await.map_err(mongodb::error::Error::custom)?;
    Client::with_options(server.client_options().await?)
}
