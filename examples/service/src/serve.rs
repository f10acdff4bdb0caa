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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

/// The longest time for requests and commands in flight after a stop signal.
const GRACE: Duration = Duration::from_secs(20);

/// The longest time to read the headers of a request, or its body, and the longest time between two requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTimeout(pub(crate) Duration);

impl Default for ReadTimeout {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

impl ReadTimeout {
    /// Reads the environment variable `READ_TIMEOUT`, in seconds.
    pub(crate) fn from_env() -> Result<Self> {
        Ok(seconds("READ_TIMEOUT")?.map_or_else(Self::default, Self))
    }
}

/// The time that a request has, from its headers to its response. Without it, a frozen server would block the request and
/// its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimeout(pub(crate) Duration);

impl Default for RequestTimeout {
    fn default() -> Self {
        Self(Duration::from_secs(15))
    }
}

impl RequestTimeout {
    /// Reads the environment variable `REQUEST_TIMEOUT`, in seconds.
    pub(crate) fn from_env() -> Result<Self> {
        Ok(seconds("REQUEST_TIMEOUT")?.map_or_else(Self::default, Self))
    }
}

/// Reads an environment variable in seconds, if it is set.
fn seconds(variable: &str) -> Result<Option<Duration>> {
    const LONGEST: u64 = 60;
    let seconds = match env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().unwrap_or(0),
        Err(env::VarError::NotUnicode(_)) => 0,
        _ => return Ok(None),
    };
    ensure!(
        (1..=LONGEST).contains(&seconds),
        "{variable} is invalid: set it to a whole number of seconds from 1 to {LONGEST}"
    );
    Ok(Some(Duration::from_secs(seconds)))
}

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The longest time to read the headers of a request, and between two requests.
    read: Duration,
    /// The age after which a connection is closed. Without it, a client that reads its responses slowly would never
    /// lose its connection.
    age: Duration,
    /// The longest time for the last request of an old connection.
    last_request: Duration,
}

impl Limits {
    fn new(ReadTimeout(read): ReadTimeout) -> Self {
        Self {
            read,
            age: Duration::from_secs(5 * 60),
            last_request: Duration::from_secs(30),
        }
    }
}

/// Serves until a stop signal. Then it sends `true`, finishes the requests in flight, and waits until no receiver is left.
pub(crate) async fn until_stopped(
    mut listener: TcpListener,
    router: Router,
    read_timeout: ReadTimeout,
    stopping: watch::Sender<bool>,
) -> Result<()> {
    let mut asked_to_stop = pin!(asked_to_stop()?);
    let limits = Limits::new(read_timeout);
    loop {
        let (stream, _) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut asked_to_stop => break,
        };
        tokio::spawn(connection(stream, router.clone(), limits, stopping.subscribe()));
    }
    info!("stopping: requests in flight are answered, new ones are refused");
    drop(listener);
    stopping.send_replace(true);
    let end = Instant::now() + GRACE;
    // Each connection has a receiver, and so has what runs in the background.
    match timeout_at(end, stopping.closed()).await {
        Ok(()) => info!("stopped"),
        Err(_) => warn!("stopped with requests in flight, after {GRACE:?}"),
    }
    // The commands of requests that were dropped by their time limit.
    if timeout_at(end, mongo_patterns::drain()).await.is_err() {
        warn!("stopped with commands in flight, which the server ends");
    }
    Ok(())
}

/// Serves the requests of one connection.
async fn connection<S>(stream: S, router: Router, limits: Limits, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper also applies it to the time between two requests.
        .header_read_timeout(limits.read)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => return log(ended),
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(limits.age) => {}
    }
    served.as_mut().graceful_shutdown();
    match timeout(limits.last_request, served).await {
        Ok(ended) => log(ended),
        Err(_) => debug!("an old connection was closed with a request in flight"),
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(50);
    const ALL: Limits = Limits {
        read: NEVER,
        age: NEVER,
        last_request: NEVER,
    };
    /// Far more than the buffer of the connection.
    const RESPONSE: usize = 100_000;

    fn router() -> Router {
        Router::new().route("/", get(|| async { "x".repeat(RESPONSE) }))
    }

    async fn ends<F: Future>(connection: F) -> F::Output {
        let ended = timeout(Duration::from_secs(60), connection).await;
        ended.expect("the connection does not end")
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_its_response_loses_an_old_connection() {
        let (mut client, server) = duplex(1024);
        let (_stopping, stopped) = watch::channel(false);
        let limits = Limits {
            age: SOON,
            last_request: SOON,
            ..ALL
        };
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        ends(connection(server, router(), limits, stopped)).await;
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 200 OK\r\n") && received.len() < RESPONSE);
    }

    #[tokio::test]
    async fn an_old_connection_ends_after_the_response_in_flight() {
        let (mut client, server) = duplex(1024);
        let (_stopping, stopped) = watch::channel(false);
        // The response takes as long as the connection gets old.
        let answer = || async {
            sleep(2 * SOON).await;
            "late"
        };
        let limits = Limits { age: SOON, ..ALL };
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let router = Router::new().route("/", get(answer));
        ends(connection(server, router, limits, stopped)).await;
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert!(received.ends_with("\r\n\r\nlate"), "{received}");
    }

    #[tokio::test]
    async fn a_stop_closes_idle_connections_at_once() {
        let (mut client, server) = duplex(1024);
        let (stopping, stopped) = watch::channel(false);
        let served = tokio::spawn(connection(server, router(), ALL, stopped));
        client.write_all(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut first = [0; 15];
        client.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        stopping.send_replace(true);
        ends(served).await.unwrap();
    }
}
