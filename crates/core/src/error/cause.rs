//! The driver's error without user values, and its classification.

use std::borrow::Cow;
use std::fmt;

use mongodb::bson::RawDocument;
use mongodb::error::{
    Error as DriverError, ErrorKind as DriverKind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR,
    TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure,
};

use super::ErrorKind;

/// The server's code for a duplicate key.
const DUPLICATE_KEY: i32 = 11000;
const BAD_VALUE: i32 = 2;
const ILLEGAL_OPERATION: i32 = 20;
/// The user lacks a privilege, or is not authenticated.
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;
/// An index or the collection was dropped while a query or a write used it. Or the server rolled back after a failover,
/// which only the message distinguishes.
const QUERY_PLAN_KILLED: i32 = 175;
/// A document over 16 MiB: as it is parsed, or as the result of an update.
const TOO_LARGE: [i32; 3] = [10334, 17419, 17420];
const TOO_LARGE_ADVICE: &str = "the document would exceed MongoDB's limit of 16 MiB and was not stored: store smaller items, or fewer per document";
/// The name of a field starts with a dollar, or has a dot.
const FIELD_NAMES: [i32; 2] = [52, 57];
const FIELD_NAME_ADVICE: &str = "the server refused the name of a field, and stored nothing of this command: rename the field; names that start with `$` need MongoDB 5.0, and are invalid in an `_id`";
/// An `_id` of an invalid type.
const INVALID_ID: i32 = 53;
const AUTHENTICATION_ADVICE: &str =
    "authentication failed, nothing was done: check user, password and authSource in the connection string";
const WRITE_CONCERN_ADVICE: &str =
    "the write took effect, but its write concern was not satisfied: retry it only if it is idempotent";
/// A write conflict.
const WRITE_CONFLICT: i32 = 112;
/// Ended by a time limit, an interruption or a step-down, perhaps after it took effect. Or the router lost its connection
/// to a shard.
const INTERRUPTED: [i32; 10] = [6, 50, 89, 91, 189, 262, 9001, 11600, 11601, 11602];
/// Not the primary, or not any more. Without a label the command is one that the driver does not retry, such as an update
/// of many documents, which may have changed some of them.
const NOT_PRIMARY: [i32; 2] = [10058, 10107];
/// Refused by a server that cannot serve the read at the moment.
const NOT_NOW: [i32; 4] = [133, 134, 13435, 13436];

/// The driver's error as the [`source`](std::error::Error::source) of ours. Its text has the code and its name, without
/// the server's messages and response, which quote keys and documents.
#[derive(Clone)]
pub struct DriverCause(DriverError);

impl DriverCause {
    pub(crate) fn new(error: DriverError) -> Self {
        Self(error)
    }

    /// Returns the driver's error. Its text can contain user values.
    pub fn error(&self) -> &DriverError {
        &self.0
    }

    /// Returns whether the command had no effect and can be retried.
    pub(crate) fn is_transient(&self) -> bool {
        let has = |label| self.0.contains_label(label);
        if has(TRANSIENT_TRANSACTION_ERROR) {
            return true;
        }
        // The driver has retried such a write. The first attempt may have taken effect, unless both replies exclude that.
        match has(RETRYABLE_WRITE_ERROR) {
            true => has(NO_WRITES_PERFORMED),
            false => code(&self.0).is_some_and(|code| NOT_NOW.contains(&code)),
        }
    }

    pub(crate) fn is_outcome_unknown(&self) -> bool {
        let has = |label| self.0.contains_label(label);
        let is_interrupted =
            code(&self.0).is_some_and(|code| INTERRUPTED.contains(&code) || NOT_PRIMARY.contains(&code));
        !self.is_transient() && (is_interrupted || has(UNKNOWN_TRANSACTION_COMMIT_RESULT) || has(RETRYABLE_WRITE_ERROR))
    }
}

impl fmt::Display for DriverCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.kind {
            DriverKind::Command(error) => {
                write!(f, "server error {} ({})", error.code, error.code_name)
            }
            DriverKind::Write(WriteFailure::WriteError(error)) => match &error.code_name {
                Some(name) => write!(f, "write error {} ({name})", error.code),
                None => write!(f, "write error {}", error.code),
            },
            DriverKind::Write(WriteFailure::WriteConcernError(error)) => {
                write!(f, "write concern error {} ({})", error.code, error.code_name)
            }
            DriverKind::InsertMany(_) => match code(&self.0) {
                Some(code) => write!(f, "write error {code} in a batch"),
                None => f.write_str("a batch failed"),
            },
            DriverKind::Io(error) => write!(f, "input/output error: {}", error.kind()),
            DriverKind::ServerSelection { message, .. } => f.write_str(message),
            DriverKind::Authentication { .. } => f.write_str("authentication failed"),
            DriverKind::DnsResolve { .. } => f.write_str("the host name could not be resolved"),
            DriverKind::ConnectionPoolCleared { .. } => f.write_str("the connection was closed"),
            DriverKind::InvalidArgument { message, .. }
            | DriverKind::Transaction { message, .. }
            | DriverKind::IncompatibleServer { message, .. } => f.write_str(message),
            DriverKind::SessionsNotSupported => f.write_str("the deployment does not support sessions"),
            _ => f.write_str("driver error; see as_driver_error()"),
        }
    }
}

impl fmt::Debug for DriverCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverCause({:?}, labels {:?})", self.to_string(), self.0.labels())
    }
}

impl std::error::Error for DriverCause {}

/// Returns the kind and the text of a driver error for which the operation has none of its own.
pub(super) fn classify(error: &DriverError) -> (ErrorKind, Cow<'static, str>) {
    let (kind, text) = match &*error.kind {
        DriverKind::ServerSelection { .. } | DriverKind::DnsResolve { .. } => (
            ErrorKind::ServerSelection,
            "no MongoDB server was found: check that it runs, and check the address and the TLS settings in the connection string",
        ),
        DriverKind::Io(_) | DriverKind::ConnectionPoolCleared { .. } => (
            ErrorKind::Network,
            "the connection broke: a write may or may not have taken effect",
        ),
        DriverKind::Authentication { .. } => (ErrorKind::Unauthorized, AUTHENTICATION_ADVICE),
        // The driver limits a message to 48 MB and an inserted document to 16 MiB, without an error kind for either.
        DriverKind::InvalidArgument { message, .. }
            if message.starts_with("Message length") || message.starts_with("insert document must be within") =>
        {
            (ErrorKind::TooLarge, TOO_LARGE_ADVICE)
        }
        DriverKind::Write(WriteFailure::WriteConcernError(_)) => (ErrorKind::WriteConcern, WRITE_CONCERN_ADVICE),
        DriverKind::InsertMany(batch) if batch.write_errors.is_none() => {
            (ErrorKind::WriteConcern, WRITE_CONCERN_ADVICE)
        }
        _ => match code(error) {
            Some(DUPLICATE_KEY | WRITE_CONFLICT) => (
                ErrorKind::Contention,
                "a concurrent writer conflicted, nothing was changed: retry the operation, or the whole transaction",
            ),
            Some(UNAUTHORIZED) => (
                ErrorKind::Unauthorized,
                "the user lacks a privilege for this command, which had no effect: grant the role `read` for reads and verify, and `readWrite` for everything else",
            ),
            Some(AUTHENTICATION_FAILED) => (ErrorKind::Unauthorized, AUTHENTICATION_ADVICE),
            Some(code) if FIELD_NAMES.contains(&code) || is_field_name(error) => {
                (ErrorKind::InvalidArgument, FIELD_NAME_ADVICE)
            }
            Some(INVALID_ID) => (
                ErrorKind::InvalidArgument,
                "the server refused an `_id`, and stored nothing of this document: it must not be an array, a regular expression, or undefined",
            ),
            Some(code) if TOO_LARGE.contains(&code) => (ErrorKind::TooLarge, TOO_LARGE_ADVICE),
            Some(_) => (ErrorKind::Driver, "the server refused the command"),
            None => (ErrorKind::Driver, "the driver reported an error"),
        },
    };
    (kind, Cow::Borrowed(text))
}

/// Before MongoDB 5.0, inserts have no error code for an invalid field name.
fn is_field_name(error: &DriverError) -> bool {
    const TEXT: &str = "prefixed field names";
    server_error(error).is_some_and(|(code, message)| code == BAD_VALUE && message.contains(TEXT))
}

/// Returns the server's error code, if the server reported the error.
pub fn code(error: &DriverError) -> Option<i32> {
    server_error(error).map(|(code, _)| code)
}

/// Returns the server's error code and message: for a batch, those of the first failed write.
fn server_error(error: &DriverError) -> Option<(i32, &str)> {
    match &*error.kind {
        DriverKind::Command(error) => Some((error.code, &error.message)),
        DriverKind::Write(WriteFailure::WriteError(error)) => Some((error.code, &error.message)),
        DriverKind::Write(WriteFailure::WriteConcernError(error)) => Some((error.code, &error.message)),
        DriverKind::InsertMany(batch) => match (&batch.write_errors, &batch.write_concern_error) {
            (Some(errors), _) => errors.first().map(|error| (error.code, error.message.as_str())),
            (None, Some(error)) => Some((error.code, &error.message)),
            (None, None) => None,
        },
        _ => None,
    }
}

/// Returns the index of the refused document in an ordered batch. The documents before it are stored.
pub fn refused_document(error: &DriverError) -> Option<usize> {
    match &*error.kind {
        DriverKind::InsertMany(batch) => batch.write_errors.as_ref()?.first().map(|error| error.index),
        _ => None,
    }
}

/// Returns whether the server refused a write because the index of its hint does not exist, or was dropped concurrently.
pub fn is_bad_hint(error: &DriverError) -> bool {
    const DROPPED: &str = "dropped";
    const TEXT: &str = "hint provided does not correspond to an existing index";
    server_error(error).is_some_and(|(code, message)| {
        code == QUERY_PLAN_KILLED && message.contains(DROPPED) || code == BAD_VALUE && message.contains(TEXT)
    })
}

/// The unique index that a duplicate-key error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicateKey {
    /// Its fields, in order. Empty for a batch, whose error does not have them.
    pub fields: Vec<String>,
    /// Its name, if the server reported it.
    pub index: Option<String>,
}

/// Returns whether the deployment has no transactions: a standalone, or a server without sessions.
pub fn is_transaction_unsupported(error: &DriverError) -> bool {
    let by_server = code(error) == Some(ILLEGAL_OPERATION);
    by_server || matches!(&*error.kind, DriverKind::Transaction { message, .. } if message.contains("not supported"))
}

/// Returns the unique index that refused a write. `None` for any other error.
pub fn duplicate_key(error: &DriverError) -> Option<DuplicateKey> {
    let (_, message) = server_error(error).filter(|(code, _)| *code == DUPLICATE_KEY)?;
    // Only the message has the name: "E11000 duplicate key error collection: a.b index: NAME dup key: { .. }".
    let index = message
        .split_once(" index: ")
        .and_then(|(_, rest)| rest.split_once(" dup key"))
        .map(|(name, _)| name.to_owned());
    Some(DuplicateKey {
        fields: key_pattern(error).unwrap_or_default(),
        index,
    })
}

fn key_pattern(error: &DriverError) -> Option<Vec<String>> {
    let response: &RawDocument = error.server_response()?;
    let errors = response.get_array("writeErrors").ok();
    let of_write = errors.and_then(|errors| errors.get_document(0).ok());
    let pattern = of_write.unwrap_or(response).get_document("keyPattern").ok()?;
    let fields = pattern.iter().flatten().map(|(field, _)| field.as_str().to_owned());
    Some(fields.collect())
}
