//! The classification of the driver's errors.

use std::borrow::Cow;

use mongodb::error::{
    Error as DriverError, ErrorKind as DriverKind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR,
    TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure,
};

use super::command::{Command, CommandError};
use super::driver::{
    DUPLICATE_KEY, QUERY_PLAN_KILLED, code, code_name, is_authentication, is_without_result, server_error,
};
use super::kind::ErrorKind;

/// The user lacks a privilege, or is not authenticated.
const UNAUTHORIZED: i32 = 13;
/// A document over 16 MiB: as it is parsed, or as the result of an update.
const TOO_LARGE: [i32; 3] = [10334, 17419, 17420];
const TOO_LARGE_ADVICE: &str = "the document would exceed MongoDB's limit of 16 MiB and was not stored: store smaller items, or fewer per document";
/// The name of a field starts with a dollar, or has a dot.
const FIELD_NAMES: [i32; 2] = [52, 57];
const FIELD_NAME_ADVICE: &str = "the server refused the name of a field, and did not write the document: rename the field; in an `_id`, no name can start with `$`";
/// An `_id` of an invalid type.
const INVALID_ID: i32 = 53;
const WRITE_CONCERN_ADVICE: &str =
    "the write took effect, but its write concern was not satisfied: retry it only if it is idempotent";
/// A write conflict.
const WRITE_CONFLICT: i32 = 112;
pub(super) const CONFLICT_ADVICE: &str =
    "a concurrent writer conflicted, nothing was changed: retry the operation, or the whole transaction";
/// The server, since MongoDB 9.0, has as many open transactions as it may have. By name, because its code is not
/// documented.
const TOO_MANY_TRANSACTIONS: &str = "TooManyOpenTransactions";
/// The validator of a collection refused a document.
const VALIDATION_FAILED: i32 = 121;
/// A transaction needs more space in the oplog, or in the cache, than the server has.
const TRANSACTION_TOO_LARGE: [i32; 2] = [257, 388];
/// A query needs more memory than the server allows, without or with files.
const MEMORY_EXCEEDED: [i32; 2] = [146, 292];
/// A view has no such command.
const ON_VIEW: i32 = 166;
/// Ended by the time limit of the command.
const MAX_TIME_EXPIRED: i32 = 50;
/// Ended by a time limit, an interruption, a step-down, a full cache, or with its plan, perhaps after it took effect. Or the
/// router lost its connection to a shard.
const INTERRUPTED: [i32; 15] = [
    6, 7, 50, 89, 91, 175, 189, 202, 262, 365, 407, 9001, 11600, 11601, 11602,
];
/// Not the primary, or not any more. Without a label, the driver does not retry the command, such as an update of many
/// documents, which may have changed some of them.
const NOT_PRIMARY: [i32; 2] = [10058, 10107];
/// Refused by a server that cannot execute the command at the moment: it has no suitable node, an outdated routing table or
/// snapshot, or too much load. A router may have sent a write before.
const UNAVAILABLE: [i32; 15] = [
    133, 134, 13435, 13436, // no suitable node
    239, 249, 267, 272, 304, 343, 13388, // chunks are moving
    433, 449, 450, 462, // overloaded, since MongoDB 8.0
];
/// The transaction of a write needs more of the server's cache than there is. The write of a single document has no effect.
const TEMPORARILY_UNAVAILABLE: i32 = 365;
/// How the driver refuses a session of another client. It sends nothing.
const OTHER_CLIENT: &str = "the session provided to an operation must be created from the same client";
const UNKNOWN_OUTCOME: &str = "the command was interrupted: a write may or may not have taken effect";
/// A command that a router sends to one shard does not have the shard key.
const SHARD_KEY_NOT_FOUND: i32 = 61;
const SHARD_KEY_ADVICE: &str = "the router needs the shard key in a command of the call: shard the collection by the key that the documentation of the pattern names, or upgrade the server to MongoDB 7.1";
const LOOKUP_OF_SHARDED: i32 = 28769;
const LOOKUP_ADVICE: &str = "the call joins a sharded collection in a transaction, which needs MongoDB 8.0: upgrade the server, or do not shard the collection";
/// A field of a command is not in the strict Stable API.
const API_STRICT: i32 = 323;
const CANNOT_CREATE_INDEX: i32 = 67;
const INVALID_OPTIONS: i32 = 72;
const INDEX_ADVICE: &str = "the shard key of the collection and an index of the pattern exclude each other, so the command was refused: call ensure_sharded(), which names a shard key or an index that is unsuitable, and the shard keys that work";

impl CommandError {
    /// Returns whether the command had no effect and can be retried.
    pub(super) fn is_transient(&self) -> bool {
        let has = |label| self.contains_label(label);
        if has(TRANSIENT_TRANSACTION_ERROR) {
            return true;
        }
        if is_without_result(self) {
            return false;
        }
        // A write that was sent twice: by the driver, or by the router of a sharded cluster, which adds no label. The
        // first attempt may have taken effect, unless both replies exclude that.
        let is_retried = has(RETRYABLE_WRITE_ERROR);
        if code(self) == Some(TEMPORARILY_UNAVAILABLE) {
            return self.command != Command::WriteMany && !is_retried;
        }
        let is_unavailable = has(SYSTEM_OVERLOADED_ERROR) || is_one_of(self, &UNAVAILABLE);
        match self.command {
            Command::Read => is_unavailable || code(self) == Some(QUERY_PLAN_KILLED),
            Command::WriteOne | Command::WriteMany => (is_unavailable || is_retried) && has(NO_WRITES_PERFORMED),
        }
    }

    pub(super) fn is_outcome_unknown(&self) -> bool {
        let has = |label| self.contains_label(label);
        let is_interrupted =
            is_one_of(self, &INTERRUPTED) || is_one_of(self, &NOT_PRIMARY) || is_one_of(self, &UNAVAILABLE);
        let is_labelled = [
            UNKNOWN_TRANSACTION_COMMIT_RESULT,
            RETRYABLE_WRITE_ERROR,
            SYSTEM_OVERLOADED_ERROR,
        ];
        let is_labelled = is_labelled.into_iter().any(has);
        let is_slow_read = self.command == Command::Read && code(self) == Some(MAX_TIME_EXPIRED);
        !self.is_transient() && !is_slow_read && (is_interrupted || is_labelled || is_without_result(self))
    }
}

fn is_one_of(error: &DriverError, codes: &[i32]) -> bool {
    code(error).is_some_and(|code| codes.contains(&code))
}

/// Returns the kind and the text of a driver error for which the operation has none of its own.
pub(super) fn classify(error: &CommandError) -> (ErrorKind, Cow<'static, str>) {
    let (kind, text) = match &*error.kind {
        _ if is_without_result(error) => (ErrorKind::Driver, UNKNOWN_OUTCOME),
        _ if is_authentication(error) => (
            ErrorKind::Unauthorized,
            "authentication failed, nothing was done: check user, password and authSource in the connection string",
        ),
        DriverKind::ServerSelection { .. } | DriverKind::DnsResolve { .. } => (
            ErrorKind::ServerSelection,
            "no MongoDB server was found: check that it runs, and check the address, the TLS settings and `replicaSet` in the connection string",
        ),
        DriverKind::Io(_) | DriverKind::ConnectionPoolCleared { .. } => (
            ErrorKind::Network,
            "the connection broke: a write may or may not have taken effect",
        ),
        DriverKind::InvalidArgument { message, .. } if message.starts_with(OTHER_CLIENT) => (
            ErrorKind::InvalidArgument,
            "the session belongs to another client, or a call in it was dropped before its reply, nothing was sent: start another session of the repository's client",
        ),
        DriverKind::InvalidResponse { .. } => (
            ErrorKind::Driver,
            "the driver cannot decode the reply of the server, which may report an error of the command: see as_driver_error()",
        ),
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
            Some(DUPLICATE_KEY) => (
                ErrorKind::DuplicateKey,
                "a unique index refused a document, which was not written: use other values, or drop an index that is not of the pattern",
            ),
            Some(WRITE_CONFLICT) => (ErrorKind::Contention, CONFLICT_ADVICE),
            Some(_) if code_name(error) == Some(TOO_MANY_TRANSACTIONS) => (
                ErrorKind::Contention,
                "the server has as many open transactions as it allows, nothing was changed: retry the operation, or the whole transaction",
            ),
            Some(VALIDATION_FAILED) => (
                ErrorKind::ValidationFailed,
                "the validator of the collection refused a document, which was not written: change the document or the validator; see as_driver_error() for the rule",
            ),
            Some(code) if TRANSACTION_TOO_LARGE.contains(&code) => (
                ErrorKind::Driver,
                "the transaction is too large for the server, nothing was changed: store less in one call, or give the server a larger cache",
            ),
            Some(code) if MEMORY_EXCEEDED.contains(&code) => (
                ErrorKind::Driver,
                "the command needs more memory than the server allows for a query: read less at a time, use an index, or raise the limit of the server",
            ),
            Some(ON_VIEW) => (
                ErrorKind::Configuration,
                "the collection is a view, for which the server has no such command, nothing was changed: use the collection that the view reads",
            ),
            Some(UNAUTHORIZED) => (
                ErrorKind::Unauthorized,
                "the user lacks a privilege for this command, which had no effect: grant the role `read` for reads and verify, and `readWrite` for everything else",
            ),
            Some(code) if FIELD_NAMES.contains(&code) => (ErrorKind::InvalidArgument, FIELD_NAME_ADVICE),
            Some(INVALID_ID) => (
                ErrorKind::InvalidArgument,
                "the server refused an `_id`, and stored nothing of this document: it must not be an array, a regular expression, or undefined",
            ),
            Some(code) if TOO_LARGE.contains(&code) => (ErrorKind::TooLarge, TOO_LARGE_ADVICE),
            Some(TEMPORARILY_UNAVAILABLE) if error.is_transient() => (
                ErrorKind::Contention,
                "the server ended the command because its cache is full, nothing was changed: retry the operation later",
            ),
            Some(MAX_TIME_EXPIRED) if error.command == Command::Read => (
                ErrorKind::Driver,
                "the server ended the read, because a command took longer than its max_time: use an index, read less at a time, or set a longer max_time",
            ),
            Some(SHARD_KEY_NOT_FOUND) => (ErrorKind::Unsupported, SHARD_KEY_ADVICE),
            Some(API_STRICT) => (
                ErrorKind::Unsupported,
                "the strict Stable API does not have a part of the command, which had no effect: use a client without `strict`",
            ),
            Some(LOOKUP_OF_SHARDED) => (ErrorKind::Unsupported, LOOKUP_ADVICE),
            Some(CANNOT_CREATE_INDEX | INVALID_OPTIONS) if is_of_shard_key(error) => {
                (ErrorKind::UnsuitableShardKey, INDEX_ADVICE)
            }
            Some(_) if error.is_transient() => (
                ErrorKind::Driver,
                "the server could not execute the command at the moment, which had no effect: retry it later",
            ),
            Some(_) if error.is_outcome_unknown() && error.command == Command::Read => (
                ErrorKind::Driver,
                "the server interrupted the read, or lost its connection to a shard: read it again",
            ),
            Some(_) if error.is_outcome_unknown() => (ErrorKind::Driver, UNKNOWN_OUTCOME),
            Some(code) => return (ErrorKind::Driver, Cow::Owned(refused(code, code_name(error)))),
            None => (ErrorKind::Driver, "the driver reported an error: see as_driver_error()"),
        },
    };
    (kind, Cow::Borrowed(text))
}

fn refused(code: i32, name: Option<&str>) -> String {
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("the server refused the command with the error {code}{name}: see as_driver_error() for the reason")
}

/// Returns whether the server refused an index or a shard key because one does not suit the other.
fn is_of_shard_key(error: &DriverError) -> bool {
    server_error(error).is_some_and(|(_, message)| message.contains("shard key"))
}
