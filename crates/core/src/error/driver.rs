//! What the server reports in an error of the driver.

use mongodb::bson::RawDocument;
use mongodb::error::{Error as DriverError, ErrorKind as DriverKind, WriteFailure};

/// The server's code for a duplicate key.
pub(super) const DUPLICATE_KEY: i32 = 11000;
const BAD_VALUE: i32 = 2;
const ILLEGAL_OPERATION: i32 = 20;
const AUTHENTICATION_FAILED: i32 = 18;
/// An index or the collection was dropped while a query or a write used it, or the server rolled back after a failover. A
/// write of one document can be stored: its plan ends when it looks for the next one.
pub(super) const QUERY_PLAN_KILLED: i32 = 175;
/// In the message of a router that has no reply of a shard, with or without the initial letter.
const RESULTS_UNAVAILABLE: &str = "rite results unavailable";

/// Returns whether user or password are wrong.
pub(super) fn is_authentication(error: &DriverError) -> bool {
    matches!(&*error.kind, DriverKind::Authentication { .. }) || code(error) == Some(AUTHENTICATION_FAILED)
}

/// Returns whether a router knows nothing of a write that it sent: "Write results unavailable from ..".
pub(super) fn is_without_result(error: &DriverError) -> bool {
    server_error(error).is_some_and(|(_, message)| message.contains(RESULTS_UNAVAILABLE))
}

/// Returns the server's error code, if the server reported the error.
pub fn code(error: &DriverError) -> Option<i32> {
    server_error(error).map(|(code, _)| code)
}

/// Returns the name of the server's error code, which a write error often lacks.
pub(super) fn code_name(error: &DriverError) -> Option<&str> {
    let name = match &*error.kind {
        DriverKind::Command(error) => Some(error.code_name.as_str()),
        DriverKind::Write(WriteFailure::WriteError(error)) => error.code_name.as_deref(),
        _ => None,
    };
    name.filter(|name| !name.is_empty())
}

/// Returns the server's error code and message, in a batch of the first failed write.
pub(super) fn server_error(error: &DriverError) -> Option<(i32, &str)> {
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

/// Returns whether the server refused a command because the index of its hint does not exist. Nothing was written.
pub fn is_bad_hint(error: &DriverError) -> bool {
    const TEXT: &str = "hint provided does not correspond to an existing index";
    server_error(error).is_some_and(|(code, message)| code == BAD_VALUE && message.contains(TEXT))
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

impl DuplicateKey {
    /// Returns whether it is the index of `_id`.
    pub fn is_of_id(&self) -> bool {
        self.fields == ["_id"] || self.index.as_deref() == Some("_id_")
    }
}

/// Returns whether the deployment has no transactions: a standalone, or a server without sessions.
pub fn is_transaction_unsupported(error: &DriverError) -> bool {
    let by_server = code(error) == Some(ILLEGAL_OPERATION);
    by_server || matches!(&*error.kind, DriverKind::Transaction { message, .. } if message.contains("not supported"))
}

/// Returns the unique index that refused a write. `None` for any other error.
pub fn duplicate_key(error: &DriverError) -> Option<DuplicateKey> {
    let (_, message) = server_error(error).filter(|(code, _)| *code == DUPLICATE_KEY && !is_without_result(error))?;
    // Only the message has the name: "E11000 duplicate key error collection: a.b index: NAME dup key: { .. }". MongoDB
    // 9.0 adds the collation of the index: "index: NAME collation: { .. } dup key: { .. }".
    let index = message
        .split_once(" index: ")
        .and_then(|(_, rest)| rest.split_once(" dup key"))
        .map(|(name, _)| {
            name.split_once(" collation: ")
                .map_or(name, |(name, _)| name)
                .to_owned()
        });
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
