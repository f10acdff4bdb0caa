//! Connections: time limits for clients, and the graceful shutdown.
//!
//! Every connection ends: a client has limited time for each request's headers, an idle connection is closed after the
//! same time, and an old one after the request in flight. So a client that sends or reads slowly holds a connection
//! only for a limited time. `axum::serve` has no such limits.

use std::env;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// The longest time for requests in flight after a stop signal.
const GRACE: Duration = Duration::from_secs(20);
/// The age after which a connection is closed. Without it, a client that reads its responses slowly would never lose
/// its connection.
const OLD: Duration = Duration::from_secs(5 * 60);
/// The longest time for the last request of an old connection.
const LAST_REQUEST: Duration = Duration::from_secs(30);

/// The longest time to read the headers of a request, or its body, and the longest time between two requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTimeout(pub(crate) Duration);

impl Default for ReadTimeout {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

impl ReadTimeout {
    const VARIABLE: &str = "READ_TIMEOUT";
    const LONGEST: u64 = 60;

    /// Reads the environment variable `READ_TIMEOUT`, in seconds.
    pub(crate) fn from_env() -> Result<Self> {
        let seconds = match env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().unwrap_or(0),
            Err(env::VarError::NotUnicode(_)) => 0,
            _ => return Ok(Self::default()),
        };
        ensure!(
            (1..=Self::LONGEST).contains(&seconds),
            "{} is invalid: set it to a whole number of seconds from 1 to {}",
            Self::VARIABLE,
            Self::LONGEST
        );
        Ok(Self(Duration::from_secs(seconds)))
    }
}

/// Serves until a stop signal, and then finishes the requests in flight.
pub(crate) async fn until_stopped(mut listener: TcpListener, router: Router, read_timeout: ReadTimeout) -> Result<()> {
    let mut asked_to_stop = pin!(asked_to_stop()?);
    let (stopping, stopped) = watch::channel(false);
    loop {
        let (stream, _) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut asked_to_stop => break,
        };
        tokio::spawn(connection(stream, router.clone(), read_timeout, stopped.clone()));
    }
    info!("stopping: requests in flight are answered, new ones are refused");
    drop(listener);
    drop(stopped);
    stopping.send_replace(true);
    // Each connection has a receiver.
    match timeout(GRACE, stopping.closed()).await {
        Ok(()) => info!("stopped"),
        Err(_) => warn!("stopped with requests in flight, after {GRACE:?}"),
    }
    Ok(())
}

/// Serves the requests of one connection.
async fn connection(
    stream: TcpStream,
    router: Router,
    ReadTimeout(read_timeout): ReadTimeout,
    mut stopped: watch::Receiver<bool>,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper also applies it to the time between two requests.
        .header_read_timeout(read_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => return log(ended),
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(OLD) => {}
    }
    served.as_mut().graceful_shutdown();
    match timeout(LAST_REQUEST, served).await {
        Ok(ended) => log(ended),
        Err(_) => debug!("a connection was closed with a request in flight, after {LAST_REQUEST:?}"),
    }
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        // For example, a client that sent no request in time. The text contains no values of the request.
        debug!(%error, "a connection ended early");
    }
}

/// Returns a future that completes at SIGTERM or Ctrl-C. SIGTERM is received from this call on.
fn asked_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    let terminated = terminated()?;
    Ok(async move {
        tokio::select! {
            () = terminated => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    })
}

#[cfg(unix)]
fn terminated() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut signals = signal(SignalKind::terminate())?;
    Ok(async move {
        signals.recv().await;
    })
}

#[cfg(not(unix))]
fn terminated() -> std::io::Result<impl Future<Output = ()>> {
    Ok(std::future::pending())
}
