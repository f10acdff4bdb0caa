//! Validates the input of clients. An error names the field, never the value.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, FormRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::{Form, RequestExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::problem::{self, Problem, Wrong};
use crate::section::Section;
use crate::serve::ReadTimeout;

/// The variable parts of a path. An invalid part is reported as not found.
pub(crate) struct Ids<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Ids<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(ids) = Path::from_request_parts(parts, state)
            .await
            .map_err(|rejection| unknown(&rejection, parts.uri.path()))?;
        Ok(Self(ids))
    }
}

/// Reports a part that is not an id of its type. Only the first part has another type than text.
fn unknown(rejection: &PathRejection, path: &str) -> Problem {
    let is_text = match rejection {
        PathRejection::FailedToDeserializePathParams(error) => {
            !matches!(error.kind(), ErrorKind::InvalidUtf8InPathParam { .. })
        }
        _ => false,
    };
    let section = Section::of(path).filter(|_| is_text);
    section.map_or_else(|| Problem::of(&problem::NOT_FOUND), Problem::unknown)
}

/// The query of a path: the position of a page, from a link of this service.
pub(crate) struct PageQuery<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for PageQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(query) = Query::from_request_parts(parts, state).await.map_err(|_| {
            Problem::invalid(vec![Wrong {
                field: "query",
                problem: "is not from a link of this service".to_owned(),
            }])
        })?;
        Ok(Self(query))
    }
}

const ID_RULE: &str = "must be 1 to 64 letters, digits, - and _";

fn is_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(is_plain)
}

/// Checks the id in the path of something to store.
pub(crate) fn check_id(field: &'static str, id: &str) -> Result<(), Problem> {
    if is_id(id) {
        return Ok(());
    }
    Err(Problem::invalid(vec![Wrong {
        field,
        problem: ID_RULE.to_owned(),
    }]))
}

/// The fields of a form, or of a JSON object. Each field is read once, and [`done`](Self::done) returns the errors.
pub(crate) struct Fields {
    values: HashMap<String, String>,
    wrong: Vec<Wrong>,
}

impl Fields {
    /// Reads an id: letters, digits, `-` and `_`, so that it can be a part of a path.
    pub(crate) fn id(&mut self, field: &'static str) -> String {
        self.checked(field, ID_RULE, is_id)
    }

    /// Reads a text of one or more lines, without surrounding white space.
    pub(crate) fn text(&mut self, field: &'static str, longest: usize) -> String {
        let problem = format!("must be a text of 1 to {longest} characters");
        self.checked(field, &problem, |value| {
            let is_invalid = |c: char| c.is_control() && !"\r\n\t".contains(c);
            (1..=longest).contains(&value.chars().count()) && !value.contains(is_invalid)
        })
    }

    pub(crate) fn one_of(&mut self, field: &'static str, choices: &[&str]) -> String {
        let problem = format!("must be one of: {}", choices.join(", "));
        self.checked(field, &problem, |value| choices.contains(&value))
    }

    /// Reads an integer from 1.
    pub(crate) fn number(&mut self, field: &'static str, largest: i32) -> i32 {
        let parse = |value: &str| value.parse().ok().filter(|number| (1..=largest).contains(number));
        let problem = format!("must be an integer from 1 to {largest}");
        let value = self.checked(field, &problem, |value| parse(value).is_some());
        parse(&value).unwrap_or_default()
    }

    pub(crate) fn done(self) -> Result<(), Problem> {
        if self.wrong.is_empty() {
            Ok(())
        } else {
            Err(Problem::invalid(self.wrong))
        }
    }

    fn checked(&mut self, field: &'static str, problem: &str, is_valid: impl Fn(&str) -> bool) -> String {
        let value = self.values.remove(field).unwrap_or_default();
        let value = value.trim();
        if !is_valid(value) {
            self.wrong.push(Wrong {
                field,
                problem: problem.to_owned(),
            });
        }
        value.to_owned()
    }
}

/// The longest time to read a body. It is shorter than the longest time for a request.
const LONGEST_BODY: Duration = Duration::from_secs(10);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let media_type = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default();
        let is_json = match media_type.trim().to_ascii_lowercase().as_str() {
            "application/json" => true,
            "application/x-www-form-urlencoded" => false,
            _ => return Err(Problem::of(&problem::MEDIA_TYPE)),
        };
        let ReadTimeout(time) = request.extensions().get().copied().unwrap_or_default();
        let read = async {
            if is_json {
                of_json(request).await
            } else {
                of_form(request).await
            }
        };
        let read = timeout(time.min(LONGEST_BODY), read).await;
        let values = read.map_err(|_| Problem::of(&problem::SLOW))??;
        Ok(Self { values, wrong: vec![] })
    }
}

async fn of_json(request: Request) -> Result<HashMap<String, String>, Problem> {
    let body: Bytes = request.extract().await.map_err(|rejection| unread(&rejection))?;
    let object: HashMap<String, Value> = serde_json::from_slice(&body).map_err(|_| no_fields())?;
    let scalar = |(field, value)| match value {
        Value::String(text) => Some((field, text)),
        Value::Number(number) => Some((field, number.to_string())),
        // Other types are ignored as if the field were missing, because no field has one.
        _ => None,
    };
    Ok(object.into_iter().filter_map(scalar).collect())
}

async fn of_form(request: Request) -> Result<HashMap<String, String>, Problem> {
    let Form(values) = request.extract().await.map_err(|rejection| match rejection {
        FormRejection::BytesRejection(rejection) => unread(&rejection),
        _ => no_fields(),
    })?;
    Ok(values)
}

fn no_fields() -> Problem {
    Problem::invalid(vec![Wrong {
        field: "body",
        problem: "must be a JSON object or form data".to_owned(),
    }])
}

fn unread(rejection: &BytesRejection) -> Problem {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => Problem::of(&problem::TOO_LARGE),
        _ => no_fields(),
    }
}
