//! The driver's error, reduced to what holds no user value.

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
/// The user lacks a privilege, or is nobody.
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;
/// An index or the collection was dropped under a query, or a write before it wrote. Or the server has taken back what
/// it had alone after a failover, which its message tells apart.
const QUERY_PLAN_KILLED: i32 = 175;
/// A document over 16 MiB: as it is parsed, or as the result of an update.
const TOO_LARGE: [i32; 3] = [10334, 17419, 17420];
const TOO_LARGE_ADVICE: &str =
    "the document would pass MongoDB's limit of 16 MiB and was not stored: store smaller items, or fewer a document";
/// A name of a field that starts with a dollar, or has a dot.
const FIELD_NAMES: [i32; 2] = [52, 57];
const FIELD_NAME_ADVICE: &str = "the server refused the name of a field, and stored nothing of this command: names that start with `$` need MongoDB 5.0, and cannot be in an `_id`; rename the field";
/// An `_id` of a type that none can have.
const INVALID_ID: i32 = 53;
const AUTHENTICATION_ADVICE: &str = "the server does not know the user by this password, nothing was done: check user, password and authSource in the connection string";
const WRITE_CONCERN_ADVICE: &str =
    "the write is done, but was not confirmed as its write concern asks: do not repeat it blindly";
/// A lost race that is over: a write conflict, or a snapshot that is too old.
const WRITE_CONFLICT: i32 = 112;
/// Ended by a time limit, an interruption or a step-down, perhaps after it was done. Or the router lost its connection
/// to a shard.
const INTERRUPTED: [i32; 10] = [6, 50, 89, 91, 189, 262, 9001, 11600, 11601, 11602];
/// Not the primary, or not any more. Without a label it is of a command that the driver sends once, such as an update of
/// many documents, which may have changed some of them by then.
const NOT_PRIMARY: [i32; 2] = [10058, 10107];
/// Refused by a server that cannot serve the read, or not yet.
const NOT_NOW: [i32; 4] = [133, 134, 13435, 13436];

/// The driver's error as the [`source`](std::error::Error::source) of ours: its text has the code and its name, and
/// leaves out the server's messages and response, which quote keys and documents.
#[derive(Clone)]
pub struct DriverCause(DriverError);

impl DriverCause {
    pub(crate) fn new(error: DriverError) -> Self {
        Self(error)
    }

    /// The driver's own error. Its text can hold user values.
    pub fn error(&self) -> &DriverError {
        &self.0
    }

    /// Whether nothing was done, and can be done later.
    pub(crate) fn is_transient(&self) -> bool {
        let has = |label| self.0.contains_label(label);
        if has(TRANSIENT_TRANSACTION_ERROR) {
            return true;
        }
        // The driver tried such a write before. That may have been done where this one was refused, unless a server
        // says for both that they were not.
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

/// The kind and the advice for a driver error that the operation itself has no better word for.
pub(super) fn classify(error: &DriverError) -> (ErrorKind, Cow<'static, str>) {
    let (kind, text) = match &*error.kind {
        DriverKind::ServerSelection { .. } | DriverKind::DnsResolve { .. } => (
            ErrorKind::ServerSelection,
            "no MongoDB server could be reached: check that it runs, and the address and the TLS settings in the connection string",
        ),
        DriverKind::Io(_) | DriverKind::ConnectionPoolCleared { .. } => (
            ErrorKind::Network,
            "the connection broke: a write may or may not have been done",
        ),
        DriverKind::Authentication { .. } => (ErrorKind::Unauthorized, AUTHENTICATION_ADVICE),
        // The driver's own limits are those of a message, 48 MB, and of a document to insert. It has no error of its own
        // for them.
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
                "another writer was faster: run the operation, or the whole transaction, again",
            ),
            Some(UNAUTHORIZED) => (
                ErrorKind::Unauthorized,
                "the user lacks a privilege for this command, which did nothing: reads and verify need the role `read` on the database, all else needs `readWrite`",
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

/// Inserts before MongoDB 5.0 have no code of their own for the name of a field.
fn is_field_name(error: &DriverError) -> bool {
    const TEXT: &str = "prefixed field names";
    server_error(error).is_some_and(|(code, message)| code == BAD_VALUE && message.contains(TEXT))
}

/// The server's error code, if the server reported the error.
pub fn code(error: &DriverError) -> Option<i32> {
    server_error(error).map(|(code, _)| code)
}

/// The server's error code and message. Of a batch, those of the first write that failed.
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

/// Which document of an ordered batch was refused, from 0; those before it are stored.
pub fn refused_document(error: &DriverError) -> Option<usize> {
    match &*error.kind {
        DriverKind::InsertMany(batch) => batch.write_errors.as_ref()?.first().map(|error| error.index),
        _ => None,
    }
}

/// Whether the server refused a write because the index that its hint names does not exist, or was dropped at that
/// moment.
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
    /// Its fields, in order. Empty for a batch, whose error does not tell them.
    pub fields: Vec<String>,
    /// Its name, where the server tells it.
    pub index: Option<String>,
}

/// The unique index that refused a write; `None` for any other error.
pub fn duplicate_key(error: &DriverError) -> Option<DuplicateKey> {
    let (_, message) = server_error(error).filter(|(code, _)| *code == DUPLICATE_KEY)?;
    // The name is in the text alone: "E11000 duplicate key error collection: a.b index: NAME dup key: { .. }".
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
    let of_write = response
        .get_array("writeErrors")
        .ok()
        .and_then(|errors| errors.get_document(0).ok());
    let pattern = of_write.unwrap_or(response).get_document("keyPattern").ok()?;
    let fields = pattern.iter().flatten().map(|(field, _)| field.as_str().to_owned());
    Some(fields.collect())
}
