//! Responses: an HTML page or JSON, as the client asks.

use std::convert::Infallible;

use axum::Json;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::Markup;
use serde::Serialize;

use crate::layout;

/// Allows only the service's own style sheet and forms.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The format that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Html,
    Json,
}

impl Wants {
    /// Returns the end of a path that leads to the same format.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Html => "",
            Self::Json => ".json",
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Wants {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or(Self::Html))
    }
}

/// Determines the format that the client wants: JSON if the path ends with `.json`, which is removed, else by the
/// header `Accept`.
pub(crate) async fn negotiate(mut request: Request, next: Next) -> Response {
    let wants = match without_suffix(request.uri()) {
        Some(uri) => {
            *request.uri_mut() = uri;
            Wants::Json
        }
        None => accepted(request.headers()),
    };
    request.extensions_mut().insert(wants);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

fn without_suffix(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix(".json")?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the format with the greater weight, and HTML if both are equal, as with `*/*`.
fn accepted(headers: &HeaderMap) -> Wants {
    let accept = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or("*/*");
    let weight = |wanted: [&str; 3]| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next()?.to_ascii_lowercase();
            let exactness = wanted.iter().position(|wanted| *wanted == media_type)?;
            let q = parts.find_map(|part| part.strip_prefix("q="));
            Some((exactness, q.and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0)))
        });
        // The most specific range applies.
        ranges.min_by_key(|(exactness, _)| *exactness).map_or(0.0, |(_, q)| q)
    };
    if weight(["application/json", "application/*", "*/*"]) > weight(["text/html", "text/*", "*/*"]) {
        Wants::Json
    } else {
        Wants::Html
    }
}

/// Responds with the requested data.
pub(crate) fn found<T: Serialize>(wants: Wants, data: &T, title: &str, page: impl FnOnce() -> Markup) -> Response {
    match wants {
        Wants::Json => Json(data).into_response(),
        Wants::Html => layout::document(title, &page()).into_response(),
    }
}

/// Responds to a write: 201 if this request stored the data, 200 if it was stored already. A form is redirected to the
/// page.
pub(crate) fn stored<T: Serialize>(wants: Wants, is_new: bool, data: &T, path: &str, page: &str) -> Response {
    match wants {
        Wants::Json if is_new => (StatusCode::CREATED, [(LOCATION, path)], Json(data)).into_response(),
        Wants::Json => Json(data).into_response(),
        Wants::Html => Redirect::to(page).into_response(),
    }
}

/// Responds to a removal, by this request or an earlier one.
pub(crate) fn removed(wants: Wants, page: &str) -> Response {
    match wants {
        Wants::Json => StatusCode::NO_CONTENT.into_response(),
        Wants::Html => Redirect::to(page).into_response(),
    }
}
