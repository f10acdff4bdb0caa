//! What can happen to a command.

use std::time::Duration;

use mongo_patterns_testkit::FailPoint;
use mongodb::bson::doc;

/// A fault at one command of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The connection is closed before the server does anything.
    Closed,
    /// The same, and again at every further attempt.
    ClosedForGood,
    /// It is done, and its write concern is reported as not met.
    Unconfirmed,
    /// It is done, and the server reports that it shuts down, by which the driver sends it again.
    DoneThenGone,
    /// Another writer was faster.
    Conflict,
    /// The same, and again at every further attempt.
    ConflictForGood,
    /// A unique index refuses it.
    DuplicateKey,
    /// The server is the primary no more.
    NotPrimary,
    /// Somebody ended it on the server.
    Interrupted,
    /// It ran into the server's time limit.
    TimedOut,
    /// The server refuses it for another reason.
    Refused,
    /// It takes longer than the caller waits.
    Blocked,
    /// The caller goes away as soon as it is sent.
    Dropped,
}

pub(super) const FAULTS: [Fault; 13] = [
    Fault::Unconfirmed,
    Fault::Conflict,
    Fault::Dropped,
    Fault::Interrupted,
    Fault::Closed,
    Fault::DuplicateKey,
    Fault::Blocked,
    Fault::Refused,
    Fault::NotPrimary,
    Fault::TimedOut,
    Fault::ConflictForGood,
    Fault::DoneThenGone,
    Fault::ClosedForGood,
];

/// How long a blocked command takes, and how long its caller waits.
const BLOCKED: Duration = Duration::from_millis(60);
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

impl Fault {
    pub(super) fn fail_point(self) -> FailPoint {
        let once = FailPoint::on(&[]).times(1);
        match self {
            Self::Closed => once.close_connection(),
            Self::ClosedForGood => FailPoint::on(&COMMANDS).close_connection(),
            Self::Unconfirmed => once.write_concern_error(64),
            Self::DoneThenGone => once.write_concern_error(91),
            Self::Conflict => once.error_code(112),
            Self::ConflictForGood => FailPoint::on(&COMMANDS).error_code(112),
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

    /// For how long the caller waits once the command is sent; `None` for as long as it takes.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Self::Blocked => Some(PATIENCE),
            Self::Dropped => Some(Duration::ZERO),
            _ => None,
        }
    }

    /// Whether the driver looks for the server again after it, which takes it half a second.
    pub(super) fn is_slow(self) -> bool {
        matches!(
            self,
            Self::Closed | Self::ClosedForGood | Self::DoneThenGone | Self::NotPrimary
        )
    }

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "connection closed before it is done",
            Self::ClosedForGood => "connection closed at every attempt",
            Self::Unconfirmed => "done, and not confirmed",
            Self::DoneThenGone => "done, and the server shuts down",
            Self::Conflict => "write conflict",
            Self::ConflictForGood => "write conflict at every attempt",
            Self::DuplicateKey => "duplicate key",
            Self::NotPrimary => "not primary",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "time limit",
            Self::Refused => "refused",
            Self::Blocked => "longer than the caller waits",
            Self::Dropped => "the caller goes away",
        }
    }
}

/// What the repositories send.
const COMMANDS: [&str; 14] = [
    "aggregate",
    "collMod",
    "commitTransaction",
    "count",
    "create",
    "createIndexes",
    "delete",
    "dropIndexes",
    "find",
    "findAndModify",
    "getMore",
    "insert",
    "listIndexes",
    "update",
];
