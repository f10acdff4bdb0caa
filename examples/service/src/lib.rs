//! A small web service over the patterns, with HTML pages and JSON: a customer's trades (bucket), a book and its
//! buyers (outlier), a product and its reviews (subset), a patron's addresses (embedded), a
//! policy and its revisions (history), an order with its buyer (reference). Deleted patrons are in a trash (archive).
//!
//! ```text
//! cargo run -p service
//! curl http://127.0.0.1:8080/customers/123/trades.json
//! curl --json '{"id":"t-1","kind":"buy","ticker":"MDB","qty":5}' http://127.0.0.1:8080/customers/123/trades.json
//! ```
//!
//! `MONGODB_URI` is the connection string, with the database if it names one. Without it, the example starts a MongoDB.
//! `ADDRESS` is the address to listen on. `READ_TIMEOUT` is the number of seconds that a client has to send the headers
//! of a request, or its body, and between two requests, `REQUEST_TIMEOUT` that of the seconds for the whole request.
//! README.md lists the pages. The modules:
//!
//! - `model.rs`: the documents, as they are stored.
//! - `store.rs`: the repositories, created once and shared by all requests. `seed.rs` prepares them before the first one.
//! - `problem.rs`: the response for each kind of error, as problem details (RFC 9457).
//! - `trades.rs`, `books.rs`, `products.rs`, `patrons.rs`, `policies.rs`: one pattern each. `orders.rs` and `buyers.rs`: the
//!   two sides of a reference. Everything that is stored has an id that the client chooses, so all requests are idempotent.
//! - `deleted.rs`: the trash of deleted patrons.
//! - `section.rs`: the titles and the paths of these pages.
//! - `choose.rs`: the lists from which a visitor chooses, for example, a customer or a book.
//! - `guard.rs`: the checks of every request, among them that no other site sends a write.
//! - `background.rs`: what runs beside the requests, among them a follower, which restarts after an error.
//! - `serve.rs`: connections, with time limits for slow clients and a graceful shutdown.
//! - `health.rs`: liveness and readiness.
//! - `metrics.rs`: the metrics for Prometheus.
//!
//! There are no users: every client may read and write. Authentication, rate limits and TLS belong to a reverse proxy.

mod background;
mod books;
mod buyers;
mod choose;
mod deleted;
mod guard;
mod health;
mod input;
mod layout;
mod metrics;
mod model;
mod orders;
mod patrons;
mod policies;
mod problem;
mod products;
mod reply;
mod section;
mod seed;
mod serve;
mod store;
mod trades;

use std::env;
use std::io::stderr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Extension, Router};
use mongo_patterns_testkit as testkit;
use mongodb::Client;
use mongodb::options::ClientOptions;
use serve::{ReadTimeout, RequestTimeout};
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::Level;

const LARGEST_BODY: usize = 64 * 1024;
/// The longest time that a request waits for a server. The driver's default is 30 seconds.
const SELECTION: Duration = Duration::from_secs(3);

/// Runs the service until the process gets a signal to stop.
///
/// # Errors
/// When an environment variable is invalid, or the address is in use.
pub async fn run() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_writer(stderr)
        .init();
    let metrics = metrics::install()?;
    let (read_timeout, request_timeout) = (ReadTimeout::from_env()?, RequestTimeout::from_env()?);
    let client = Client::with_options(client_options().await?)?;
    let store = Store::new(&client)?;
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    println!("http://{}", listener.local_addr()?);

    // It serves from the start, and reports that it is not ready until the collections are prepared.
    let (stopping, stopped) = watch::channel(false);
    tokio::spawn(background::run(store.clone(), stopped));
    let upkeep = tokio::spawn(metrics::upkeep(metrics.clone()));
    let router = router(store)
        .layer(Extension(request_timeout))
        .layer(Extension(read_timeout))
        .layer(Extension(metrics));
    let served = serve::until_stopped(listener, router, read_timeout, stopping).await;
    upkeep.abort();
    served
}

/// Returns the options of `MONGODB_URI`, or of a server that the example starts. Sets the options that the connection
/// string does not.
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
        .merge(deleted::routes())
        .merge(policies::routes())
        .merge(orders::routes())
        .merge(buyers::routes())
        // Only the routes that need the database wait for the preparation.
        .route_layer(from_fn_with_state(store.clone(), guard::ready))
        .route_layer(from_fn(guard::in_time));
    let all = pages
        .merge(health::routes())
        .route("/metrics", get(metrics::metrics))
        .route("/", get(layout::home))
        .route("/style.css", get(layout::style))
        .route("/problems", get(problem::list))
        .fallback(problem::no_such_page)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn(guard::same_origin))
        .layer(from_fn(problem::render))
        .layer(from_fn(guard::log))
        .with_state(store);
    // `.json` is removed from the path before routing.
    Router::new().fallback_service(all).layer(from_fn(reply::negotiate))
}
