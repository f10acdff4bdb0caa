//! Drops calls for a document which another client holds. Its arguments are the connection string, the database, the name
//! of an operation, the held document, a free one, and what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::FutureExt;
use futures::future::{Either, select};
use mongo_patterns::mongodb::Client;
use mongo_patterns::mongodb::options::ClientOptions;

use super::arguments::argument;
use support::lanes::operations::{FIRST, Operation, Repositories, ending_app_name, operation};

/// The time-out of a request for the held document.
const TIME_OUT: Duration = Duration::from_millis(400);
/// How many requests for the held document are concurrent.
const REQUESTS: usize = 25;
/// The time-out of a request for the free document.
const STUCK: Duration = Duration::from_secs(10);

/// A service.
#[derive(Clone)]
struct Service {
    operation: &'static Operation,
    repositories: Repositories,
    held: i32,
    free: i32,
    /// The number of the next call.
    next: Arc<AtomicI32>,
}

impl Service {
    fn number(&self) -> i32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn request_held(&self) {
        let call = self.operation.run(&self.repositories, self.held, self.number());
        match tokio::time::timeout(TIME_OUT, call).await {
            Err(_) => println!("dropped"),
            Ok(Ok(())) => println!("stored"),
            Ok(Err(error)) => println!("failed: {error:?}"),
        }
    }

    async fn request_free(&self) {
        let call = self.operation.run(&self.repositories, self.free, self.number());
        match tokio::time::timeout(STUCK, call).await {
            Ok(Ok(())) => println!("free"),
            failed => println!("failed: {failed:?}"),
        }
    }

    /// Handles requests until the process is killed.
    async fn serve(&self) {
        for _ in 0..REQUESTS {
            let service = self.clone();
            tokio::spawn(async move {
                loop {
                    service.request_held().await;
                }
            });
        }
        loop {
            self.request_free().await;
        }
    }

    /// Drops requests, and then shuts down.
    async fn shut_down(&self) {
        self.request_free().await;
        match mongo_patterns::drain().now_or_never() {
            Some(()) => println!("drained at once"),
            None => println!("failed: nothing is in flight"),
        }
        for _ in 0..4 {
            self.request_held().await;
        }
        let others = async {
            for _ in 0..20 {
                self.request_free().await;
            }
        };
        match select(Box::pin(mongo_patterns::drain()), Box::pin(others)).await {
            Either::Left(_) => println!("failed: a command is in flight"),
            Either::Right(((), drained)) => {
                println!("waits");
                drained.await;
                println!("drained");
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
    let (uri, database) = (argument()?, argument()?);
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some(ending_app_name(&database));
    let client = Client::with_options(options)?;
    let service = Service {
        operation: operation(&argument()?),
        repositories: Repositories::new(&client.database(&database)),
        held: argument()?.parse()?,
        free: argument()?.parse()?,
        next: Arc::new(AtomicI32::new(FIRST + 1)),
    };
    match argument()?.as_str() {
        "serve" => service.serve().await,
        "shut down" => service.shut_down().await,
        other => bail!("it does not {other}"),
    }
    Ok(())
}
