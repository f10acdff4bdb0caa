//! Liveness and readiness.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::store::Store;

pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/health", get(ready))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
}

#[derive(Serialize)]
struct Health {
    live: bool,
    ready: bool,
}

/// Succeeds without reading the database, because a restart of the service would not repair the database.
async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Returns 200 if requests can be served, else 503.
async fn ready(State(store): State<Store>) -> Response {
    let ready = store.is_ready().await;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(Health { live: true, ready })).into_response()
}
