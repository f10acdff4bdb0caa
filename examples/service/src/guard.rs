//! Middleware for every request.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tracing::info;

use crate::problem::{self, Problem};
use crate::store::Store;

/// The longest time for a request. Without it, a frozen server would block the request and its connection.
const TIME: Duration = Duration::from_secs(15);

pub(crate) async fn ready(State(store): State<Store>, request: Request, next: Next) -> Result<Response, Problem> {
    if store.is_prepared() {
        Ok(next.run(request).await)
    } else {
        Err(Problem::of(&problem::UNAVAILABLE))
    }
}

pub(crate) async fn in_time(request: Request, next: Next) -> Result<Response, Problem> {
    let answered = tokio::time::timeout(TIME, next.run(request)).await;
    answered.map_err(|_| Problem::of(&problem::UNKNOWN))
}

/// Logs one line per request. It contains the route and not the path, because a path contains user values.
pub(crate) async fn log(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let started = Instant::now();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    info!(%method, route, status = response.status().as_u16(), took = ?started.elapsed());
    response
}
