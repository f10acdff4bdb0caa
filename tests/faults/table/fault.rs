//! The faults that can hit a command.

use std::time::Duration;

use mongo_patterns_testkit::FailPoint;
use mongodb::bson::doc;

/// A fault at one command of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The server closes the connection before it runs the command.
    Closed,
    /// The same at every attempt.
    AlwaysClosed,
    /// The command runs, and its write concern is reported as failed.
    Unconfirmed,
    /// The command runs, and the server reports that it shuts down, so the driver retries it.
    ShutDown,
    /// A write conflict with another writer.
    Conflict,
    /// The same at every attempt.
    AlwaysConflict,
    /// A unique index refuses it.
    DuplicateKey,
    /// The server is no longer the primary.
    NotPrimary,
    /// An operator kills it on the server.
    Interrupted,
    /// It exceeds the server's time limit.
    TimedOut,
    /// The server refuses it for another reason.
    Refused,
    /// It takes longer than the timeout of the caller.
    Blocked,
    /// The caller drops the future as soon as the command is sent.
    Dropped,
}

#[rustfmt::skip] // several in a line
pub(super) const FAULTS: [Fault; 13] = [
    Fault::Unconfirmed, Fault::Conflict, Fault::Dropped, Fault::Interrupted, Fault::Closed, Fault::DuplicateKey,
    Fault::Blocked, Fault::Refused, Fault::NotPrimary, Fault::TimedOut, Fault::AlwaysConflict, Fault::ShutDown,
    Fault::AlwaysClosed,
];

/// How long a blocked command takes, and the timeout of its caller.
const BLOCKED: Duration = Duration::from_millis(60);
pub(super) const CALLER_TIMEOUT: Duration = Duration::from_millis(20);

impl Fault {
    pub(super) fn fail_point(self) -> FailPoint {
        let once = FailPoint::on(&[]).times(1);
        match self {
            Self::Closed => once.close_connection(),
            Self::AlwaysClosed => FailPoint::on(&COMMANDS).close_connection(),
            Self::Unconfirmed => once.write_concern_error(64),
            Self::ShutDown => once.write_concern_error(91),
            Self::Conflict => once.error_code(112),
            Self::AlwaysConflict => FailPoint::on(&COMMANDS).error_code(112),
            Self::DuplicateKey => once.error_code(11000).with(
                "errorExtraInfo",
                doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": 1 } },
            ),
            Self::NotPrimary => once.error_code(10107),
            Self::Interrupted => once.error_code(11601),
            Self::TimedOut => once.error_code(50),
            Self::Refused => once.error_code(96),
            Self::Blocked => once.block(BLOCKED),
            Self::Dropped => once.block(Duration::from_millis(1)),
        }
    }

    /// Returns the timeout of the caller after the command is sent; `None` if there is none.
    pub(super) fn caller_timeout(self) -> Option<Duration> {
        match self {
            Self::Blocked => Some(CALLER_TIMEOUT),
            Self::Dropped => Some(Duration::ZERO),
            _ => None,
        }
    }

    /// Returns whether the driver selects a server again after it, which takes half a second.
    pub(super) fn is_slow(self) -> bool {
        matches!(
            self,
            Self::Closed | Self::AlwaysClosed | Self::ShutDown | Self::NotPrimary
        )
    }

    /// Returns its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "connection closed before the command runs",
            Self::AlwaysClosed => "connection closed at every attempt",
            Self::Unconfirmed => "executed, write concern not satisfied",
            Self::ShutDown => "executed, then the server shuts down",
            Self::Conflict => "write conflict",
            Self::AlwaysConflict => "write conflict at every attempt",
            Self::DuplicateKey => "duplicate key",
            Self::NotPrimary => "not primary",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "time limit exceeded",
            Self::Refused => "refused",
            Self::Blocked => "timeout of the caller",
            Self::Dropped => "future dropped",
        }
    }
}

/// The commands that the repositories send.
#[rustfmt::skip] // several in a line
const COMMANDS: [&str; 14] = [
    "aggregate", "collMod", "commitTransaction", "count", "create", "createIndexes", "delete", "dropIndexes", "find",
    "findAndModify", "getMore", "insert", "listIndexes", "update",
];
