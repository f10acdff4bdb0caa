//! The driver's error of a command, and whether the command was a read or a write.
//!
//! # Design
//!
//! ## Why does an error know its command?
//!
//! A code such as 133 means that a read had no effect. Of a write, the router of a sharded cluster may have sent a first
//! attempt that took effect. Neither the driver's error nor its labels tell a read from a write.

use std::fmt;
use std::ops::Deref;

use mongodb::error::{Error as DriverError, ErrorKind as DriverKind, WriteFailure};

use super::driver::{code, is_bad_hint};

/// The result of a command.
pub type CommandResult<T> = Result<T, CommandError>;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    /// A write to one document.
    WriteOne,
    /// A write to several documents, which can have partly taken effect, or an unknown command.
    WriteMany,
}

/// The driver's error of a command, and the [`source`](std::error::Error::source) of ours. Its text has the code and its
/// name, without the server's messages and response, which quote keys and documents.
#[derive(Clone)]
pub struct CommandError {
    error: DriverError,
    pub(super) command: Command,
    /// The index of its hint, if it does not exist.
    pub(super) missing_index: Option<Box<str>>,
}

impl CommandError {
    pub(crate) fn new(error: DriverError, command: Command) -> Self {
        Self {
            error,
            command,
            missing_index: None,
        }
    }

    pub(crate) fn with_hint(mut self, index: Option<String>) -> Self {
        let missing = index.filter(|_| is_bad_hint(&self.error));
        self.missing_index = missing.map(String::into_boxed_str);
        self
    }

    /// Wraps the error of a command that only reads.
    pub fn of_read(error: DriverError) -> Self {
        Self::new(error, Command::Read)
    }

    /// Creates an error with a text of ours, which does not contain user values.
    pub fn custom(text: &'static str) -> Self {
        DriverError::custom(text).into()
    }

    /// Returns the driver's error. Its text can contain user values.
    pub fn error(&self) -> &DriverError {
        &self.error
    }
}

impl Deref for CommandError {
    type Target = DriverError;

    fn deref(&self) -> &DriverError {
        &self.error
    }
}

/// Wraps an error as an error of a write to several documents, the least certain kind.
impl From<DriverError> for CommandError {
    fn from(error: DriverError) -> Self {
        Self::new(error, Command::WriteMany)
    }
}

impl From<CommandError> for DriverError {
    fn from(error: CommandError) -> Self {
        error.error
    }
}

impl From<mongodb::bson::error::Error> for CommandError {
    fn from(error: mongodb::bson::error::Error) -> Self {
        DriverError::from(error).into()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.error.kind {
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
            DriverKind::InsertMany(_) => match code(&self.error) {
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

impl fmt::Debug for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CommandError({:?}, labels {:?})",
            self.to_string(),
            self.error.labels()
        )
    }
}

impl std::error::Error for CommandError {}
