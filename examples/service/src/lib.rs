//! A small web service over all four patterns, as pages for people and as JSON for programs: a customer's trades
//! (bucket), a book and who bought it (outlier), a product and its reviews (subset), a patron's addresses (embedded).
//!
//! ```text
//! cargo run -p service
//! curl http://127.0.0.1:8080/customers/123/trades.json
//! curl --json '{"id":"t-1","kind":"buy","ticker":"MDB","qty":5}' http://127.0.0.1:8080/customers/123/trades.json
//! ```
//!
//! `MONGODB_URI` names the server, and the database, if it has one; without it the example gets itself a MongoDB.
//! `ADDRESS` is where it listens. What to look at:
//!
//! - `store.rs`: the repositories, made once and shared by all requests, and what is done before the first one.
//! - `problem.rs`: what each kind of error is to a client, as problem details (RFC 9457).
//! - `trades.rs`, `books.rs`, `products.rs`, `patrons.rs`: a pattern each. Everything that is stored has an id, which the
//!   client chooses, so a request that was repeated is recognised, and done once.
//! - `health.rs`: whether it lives, and whether it can do its work.
//!
//! It knows no users: everyone who reaches it may read and write. That, limits of rates, and TLS are for what stands
//! before it.

mod books;
mod guard;
mod health;
mod input;
mod layout;
mod patrons;
mod problem;
mod products;
mod reply;
mod seed;
mod store;
mod trades;

use std::env;
use std::io::stderr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use mongo_patterns_testkit as testkit;
use mongodb::Client;
use mongodb::options::ClientOptions;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{Level, info, warn};

const LARGEST_BODY: usize = 64 * 1024;
/// How long requests that are under way may take when the service is told to stop.
const GRACE: Duration = Duration::from_secs(20);
/// How long a request waits for a server. The driver's own default is 30 seconds.
const SELECTION: Duration = Duration::from_secs(3);

/// Runs the service until the process is told to stop.
///
/// # Errors
/// When the server's options are invalid, or the address is in use.
pub async fn run() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_writer(stderr)
        .init();
    let client = Client::with_options(client_options().await?)?;
    let store = Store::new(&client)?;
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    println!("http://{}", listener.local_addr()?);

    // It answers from the start, and says that it is not ready until the collections are.
    let preparing = tokio::spawn(store.clone().prepare());
    let served = serve(listener, router(store)).await;
    preparing.abort();
    served
}

/// The options of `MONGODB_URI`, or of a server of our own. What the connection string does not say is said here.
async fn client_options() -> Result<ClientOptions> {
    let mut options = match env::var("MONGODB_URI") {
        Ok(uri) if !uri.is_empty() => ClientOptions::parse(uri).await.context("MONGODB_URI")?,
        _ => testkit::server().await?.client_options().await?,
    };
    options
        .app_name
        .get_or_insert_with(|| "mongo-patterns-service".to_owned());
    options.server_selection_timeout.get_or_insert(SELECTION);
    options.connect_timeout.get_or_insert(SELECTION);
    Ok(options)
}

fn router(store: Store) -> Router {
    let pages = Router::new()
        .merge(trades::routes())
        .merge(books::routes())
        .merge(products::routes())
        .merge(patrons::routes())
        // Only what needs the database waits for it.
        .route_layer(from_fn_with_state(store.clone(), guard::ready))
        .route_layer(from_fn(guard::in_time));
    let all = pages
        .merge(health::routes())
        .route("/", get(layout::home))
        .route("/style.css", get(layout::style))
        .route("/problems", get(problem::list))
        .fallback(problem::no_such_page)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn(problem::render))
        .layer(from_fn(guard::log))
        .with_state(store);
    // `.json` goes off the path before it is looked up.
    Router::new().fallback_service(all).layer(from_fn(reply::negotiate))
}

/// Serves until the process is told to stop, and then answers the requests that are under way.
async fn serve(listener: TcpListener, router: Router) -> Result<()> {
    let terminated = terminated()?;
    let (stopping, mut stopped) = watch::channel(false);
    let asked_to_stop = async move {
        tokio::select! {
            () = terminated => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        info!("stopping: requests under way are answered, no new ones are taken");
        stopping.send_replace(true);
    };
    let late = async {
        // An error would mean that serving has ended.
        if stopped.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = axum::serve(listener, router).with_graceful_shutdown(asked_to_stop) => {
            served?;
            info!("stopped");
        }
        () = late => warn!("stopped with requests under way, after {GRACE:?}"),
    }
    Ok(())
}

/// Ends at SIGTERM, from now on.
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
