//! Middleware for every request.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::Response;
use tracing::info;

use crate::problem::{self, Problem};
use crate::serve::RequestTimeout;
use crate::store::Store;

pub(crate) async fn ready(State(store): State<Store>, request: Request, next: Next) -> Result<Response, Problem> {
    if store.is_prepared() {
        Ok(next.run(request).await)
    } else {
        Err(Problem::of(&problem::UNAVAILABLE))
    }
}

/// Drops a request that takes too long. The calls of the repositories are cancel-safe, and each request can be repeated.
pub(crate) async fn in_time(request: Request, next: Next) -> Result<Response, Problem> {
    let RequestTimeout(time) = request.extensions().get().copied().unwrap_or_default();
    let answered = tokio::time::timeout(time, next.run(request)).await;
    answered.map_err(|_| Problem::of(&problem::UNKNOWN))
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests that a page of another site makes a browser send, unless they only read. Else such a page could
/// change data in the name of its visitor, from inside the visitor's network.
///
/// Browsers send `Sec-Fetch-Site`, old ones only `Origin`. Other clients send neither, and pass.
pub(crate) async fn same_origin(request: Request, next: Next) -> Result<Response, Problem> {
    if request.method().is_safe() || is_same_origin(&request) {
        Ok(next.run(request).await)
    } else {
        Err(Problem::of(&problem::CROSS_ORIGIN))
    }
}

fn is_same_origin(request: &Request) -> bool {
    let headers = request.headers();
    if headers.contains_key(SEC_FETCH_SITE) {
        // A visitor causes `none`, for example with a bookmark.
        let is_same = |site| site == "same-origin" || site == "none";
        return headers.get_all(SEC_FETCH_SITE).iter().all(is_same);
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(Authority::as_str).or(host);
    headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        // The scheme is unknown behind a reverse proxy that ends TLS.
        origin.is_some_and(|(_, authority)| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
    })
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
