//! Errors as problem details (RFC 9457), or as an HTML page.
//!
//! No text here contains user values: neither the texts of this service nor those of an [`Error`].

use std::error::Error as _;

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use mongo_patterns::{Error, ErrorKind};
use serde::Serialize;
use tracing::{debug, error, warn};

use crate::layout;
use crate::reply::Wants;
use crate::section::Section;

/// A kind of problem, with the name in its `type`.
#[derive(Debug)]
pub(crate) struct Kind {
    name: &'static str,
    status: StatusCode,
    title: &'static str,
    advice: &'static str,
}

pub(crate) static INVALID: Kind = Kind {
    name: "invalid",
    status: StatusCode::BAD_REQUEST,
    title: "The request is invalid",
    advice: "Nothing was stored. Correct the listed fields, and send the request again.",
};
pub(crate) static NOT_FOUND: Kind = Kind {
    name: "not-found",
    status: StatusCode::NOT_FOUND,
    title: "Not found",
    advice: "It does not exist, or it was removed.",
};
pub(crate) static CROSS_ORIGIN: Kind = Kind {
    name: "cross-origin",
    status: StatusCode::FORBIDDEN,
    title: "The request is from another site",
    advice: "Nothing was changed. Open the page on this site, and send the form from there.",
};
static NOT_ALLOWED: Kind = Kind {
    name: "not-allowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    title: "The method is not allowed",
    advice: "The header Allow lists the allowed methods.",
};
pub(crate) static TAKEN: Kind = Kind {
    name: "taken",
    status: StatusCode::CONFLICT,
    title: "The id is taken",
    advice: "Other data is stored with this id. Nothing was changed. Choose another id.",
};
pub(crate) static CHANGED: Kind = Kind {
    name: "changed",
    status: StatusCode::CONFLICT,
    title: "It was changed since",
    advice: "Somebody else has changed it. Nothing was stored. Read it again, and decide by its new content.",
};
pub(crate) static FULL: Kind = Kind {
    name: "full",
    status: StatusCode::CONFLICT,
    title: "The limit is reached",
    advice: "Nothing was stored. Remove one first.",
};
static REFERENCED: Kind = Kind {
    name: "referenced",
    status: StatusCode::CONFLICT,
    title: "Something refers to it",
    advice: "Nothing was removed. Say what happens to what refers to it, or remove that first.",
};
pub(crate) static TOO_LARGE: Kind = Kind {
    name: "too-large",
    status: StatusCode::PAYLOAD_TOO_LARGE,
    title: "The data is too large",
    advice: "Nothing was stored. Send less.",
};
pub(crate) static SLOW: Kind = Kind {
    name: "slow",
    status: StatusCode::REQUEST_TIMEOUT,
    title: "The request was received too slowly",
    advice: "Nothing was stored. Send the whole request at once.",
};
pub(crate) static MEDIA_TYPE: Kind = Kind {
    name: "media-type",
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    title: "The media type is not supported",
    advice: "Nothing was stored. Send a JSON object or form data.",
};
static BUSY: Kind = Kind {
    name: "busy",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "Too many concurrent writers",
    advice: "Nothing was stored. Send the request again in a moment.",
};
pub(crate) static UNAVAILABLE: Kind = Kind {
    name: "unavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "The database is unreachable",
    advice: "Nothing was stored. Send the request again in a moment.",
};
pub(crate) static UNKNOWN: Kind = Kind {
    name: "unknown",
    status: StatusCode::SERVICE_UNAVAILABLE,
    title: "The outcome is unknown",
    advice: "The data may have been stored. Send the request again with the same id: it is not stored twice.",
};
static BROKEN: Kind = Kind {
    name: "broken",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    title: "Internal error",
    advice: "The operator finds the cause in the log. Sending the request again does not help.",
};

static KINDS: [&Kind; 15] = [
    &INVALID,
    &NOT_FOUND,
    &CROSS_ORIGIN,
    &NOT_ALLOWED,
    &TAKEN,
    &CHANGED,
    &FULL,
    &REFERENCED,
    &TOO_LARGE,
    &SLOW,
    &MEDIA_TYPE,
    &BUSY,
    &UNAVAILABLE,
    &UNKNOWN,
    &BROKEN,
];

/// An invalid field of a request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Wrong {
    pub(crate) field: &'static str,
    pub(crate) problem: String,
}

/// A problem to report to the client.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: &'static Kind,
    wrong: Vec<Wrong>,
    /// The section in which an id is unknown.
    section: Option<&'static Section>,
}

impl Problem {
    pub(crate) fn of(kind: &'static Kind) -> Self {
        Self {
            kind,
            wrong: vec![],
            section: None,
        }
    }

    pub(crate) fn invalid(wrong: Vec<Wrong>) -> Self {
        Self {
            wrong,
            ..Self::of(&INVALID)
        }
    }

    /// Reports an id that is unknown in a section.
    pub(crate) fn unknown(section: &'static Section) -> Self {
        Self {
            section: Some(section),
            ..Self::of(&NOT_FOUND)
        }
    }

    fn advice(&self) -> &'static str {
        self.section.map_or(self.kind.advice, |section| section.unknown)
    }
}

/// Maps the errors of a repository to problems, in this one function for all patterns.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            _ if error.is_outcome_unknown() => &UNKNOWN,
            // For example, a stored review of which only the copy in its product is missing: a retry adds that.
            _ if error.stored_count().is_some_and(|stored| stored > 0) => &UNKNOWN,
            ErrorKind::InvalidArgument
            | ErrorKind::InvalidKey
            | ErrorKind::InvalidTime
            | ErrorKind::InvalidItemId
            | ErrorKind::Encode => &INVALID,
            ErrorKind::TooLarge => &TOO_LARGE,
            ErrorKind::NotFound | ErrorKind::ChildNotFound => &NOT_FOUND,
            ErrorKind::AlreadyExists | ErrorKind::DuplicateKey => &TAKEN,
            ErrorKind::RevisionMismatch => &CHANGED,
            ErrorKind::LimitReached => &FULL,
            ErrorKind::Referenced => &REFERENCED,
            ErrorKind::Contention | ErrorKind::ChildSetMismatch => &BUSY,
            // For example, a server that just started, or is no longer primary.
            _ if error.is_transient() => &UNAVAILABLE,
            _ => &BROKEN,
        };
        // Neither the text of an error nor its sources contain user values.
        let cause = error.source().map(ToString::to_string);
        match kind.status {
            StatusCode::INTERNAL_SERVER_ERROR => error!(%error, cause, problem = kind.name),
            StatusCode::SERVICE_UNAVAILABLE => warn!(%error, cause, problem = kind.name),
            _ => debug!(%error, problem = kind.name),
        }
        Self::of(kind)
    }
}

/// Passes the problem to [`render`], which knows the format that the client accepts.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Renders the body of a problem, if the response has one.
pub(crate) async fn render(wants: Wants, request: Request, next: Next) -> Response {
    let is_read = request.method().is_safe();
    let section = Section::of(request.uri().path());
    let mut response = next.run(request).await;
    let Some(mut problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    if is_read && problem.kind.name == UNKNOWN.name {
        problem.kind = &UNAVAILABLE;
    }
    let kind = problem.kind;
    let (mut head, _) = response.into_parts();
    let (media_type, body) = match wants {
        Wants::Json => (
            "application/problem+json",
            Json(details(&problem)).into_response().into_body(),
        ),
        Wants::Html => (
            "text/html; charset=utf-8",
            Body::from(page(&problem, section).into_string()),
        ),
    };
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if kind.status == StatusCode::SERVICE_UNAVAILABLE {
        head.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Response::from_parts(head, body)
}

/// The fields of RFC 9457, with the invalid fields of the request.
#[derive(Serialize)]
struct Details<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Wrong],
}

fn details(problem: &Problem) -> Details<'_> {
    let Problem { kind, wrong, .. } = problem;
    Details {
        r#type: format!("/problems#{}", kind.name),
        title: kind.title,
        status: kind.status.as_u16(),
        detail: problem.advice(),
        errors: wrong,
    }
}

/// Returns the page of a problem, with a link to the list of the section.
fn page(problem: &Problem, section: Option<&Section>) -> Markup {
    let Problem { kind, wrong, .. } = problem;
    layout::document(
        kind.title,
        &html! {
            p { (problem.advice()) }
            @if !wrong.is_empty() {
                ul {
                    @for Wrong { field, problem } in wrong {
                        li { code { (field) } " " (problem) }
                    }
                }
            }
            @if let Some(section) = section {
                (section.link())
            }
            p { a href="/" { "Back to the start page" } }
        },
    )
}

pub(crate) async fn no_such_page() -> Problem {
    Problem::of(&NOT_FOUND)
}

pub(crate) async fn no_such_method() -> Problem {
    Problem::of(&NOT_ALLOWED)
}

/// Lists the types of problems.
pub(crate) async fn list(wants: Wants) -> Response {
    if wants == Wants::Json {
        return Json(KINDS.map(Problem::of).each_ref().map(details)).into_response();
    }
    let all = html! {
        dl {
            @for kind in KINDS {
                dt id=(kind.name) { (kind.title) " " small { (kind.status.as_str()) } }
                dd { (kind.advice) }
            }
        }
    };
    layout::document("Problems", &all).into_response()
}
