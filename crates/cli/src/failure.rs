//! The outcome of a command.

use std::fmt::Write;
use std::io;

use mongo_patterns_core::{Error, ErrorKind, error};
use mongodb::bson::Bson;
use mongodb::error::ErrorKind as DriverKind;

/// The exit code, or the failure that determines another one.
pub(crate) type Outcome = Result<Exit, Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// Findings in the data.
    Findings,
    /// The command is invalid.
    Usage,
    /// The server is unreachable, or refuses the command.
    Server,
    /// Stopped by Ctrl-C.
    Stopped,
    /// Stopped by SIGTERM.
    Terminated,
    /// The reader of the output has closed it.
    BrokenPipe,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Server => 3,
            Self::Stopped => 130,
            Self::BrokenPipe => 141,
            Self::Terminated => 143,
        }
    }

    /// Returns the exit code of a command with this number of findings.
    pub(crate) fn of_findings(found: u64) -> Self {
        if found == 0 { Self::Success } else { Self::Findings }
    }
}

/// The reason for a failure, with what to do. The text contains no user values.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
    /// Whether the server was lost, so that the command can be run again.
    pub(crate) is_interrupted: bool,
    /// The document at fault. It is printed to standard output like a finding.
    pub(crate) document: Option<Box<Faulty>>,
}

#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) collection: String,
    pub(crate) id: Bson,
    pub(crate) field: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self {
            exit,
            text: text.into(),
            is_interrupted: false,
            document: None,
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Prefixes the namespace, for calls of the driver that do not go through a repository.
    pub(crate) fn on(namespace: impl std::fmt::Display) -> impl FnOnce(mongodb::error::Error) -> Self {
        move |error| {
            let failure = Self::from(error);
            Self {
                text: format!("{namespace}: {}", failure.text),
                ..failure
            }
        }
    }

    /// Appends what to do, as options of the command line.
    pub(crate) fn advise(mut self, advice: &str) -> Self {
        self.text.push_str("; ");
        self.text.push_str(advice);
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            let _ = write!(text, ": {cause}");
        }
        let collection = error.document_namespace().map(|namespace| namespace.coll.clone());
        let document = error.document_id().map(|id| {
            Box::new(Faulty {
                collection: collection.unwrap_or_default(),
                id: id.clone(),
                field: error.field().filter(|field| !field.is_empty()).map(str::to_owned),
            })
        });
        let failure = Self {
            exit: exit_of(error.kind()),
            text,
            is_interrupted: matches!(error.kind(), ErrorKind::Network | ErrorKind::WriteConcern),
            document,
        };
        match advice(&error) {
            Some(advice) => failure.advise(advice),
            None => failure,
        }
    }
}

impl From<mongodb::error::Error> for Failure {
    fn from(error: mongodb::error::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::BrokenPipe, "the reader of the output has closed it"),
            _ => Self::usage(error.to_string()),
        }
    }
}

fn exit_of(kind: ErrorKind) -> Exit {
    use ErrorKind::{
        Configuration, Contention, Driver, InvalidArgument, Network, ServerSelection, SettingsMismatch, Unauthorized,
        Unsupported, WriteConcern,
    };
    match kind {
        Configuration | InvalidArgument | SettingsMismatch => Exit::Usage,
        ServerSelection | Unauthorized | Network | WriteConcern | Driver | Contention | Unsupported => Exit::Server,
        _ => Exit::Findings,
    }
}

/// Returns what to do as options of the command line, because the library's text names methods.
fn advice(error: &Error) -> Option<&'static str> {
    const UNAUTHORIZED: i32 = 13;
    const INVALID_NAMESPACE: i32 = 73;
    const DUPLICATE_KEY: i32 = 11000;
    let of_driver = error.as_driver_error();
    if of_driver.is_some_and(|error| matches!(*error.kind, DriverKind::Authentication { .. })) {
        return Some("check user, password and --auth-source, or those in the connection string");
    }
    if of_driver.and_then(error::code) == Some(INVALID_NAMESPACE) {
        return Some(
            "this is not a valid name of a database or a collection: check --db, and the names in the options",
        );
    }
    if of_driver.and_then(error::code) == Some(UNAUTHORIZED) {
        return Some(
            "the user lacks a privilege, or --username is missing: analyze, plan, verify, indexes and all dry runs need the role `read` on the database, all other commands `readWrite`, and `shard` also `clusterManager` on `admin`",
        );
    }
    match error.kind() {
        ErrorKind::Corrupt if of_driver.and_then(error::code) == Some(DUPLICATE_KEY) => {
            Some("run `verify`, which names them")
        }
        // The embedded pattern has no index of its own, but needs one for a migration.
        ErrorKind::IndexMissing if error.pattern() != Some("embedded") => {
            Some("run `indexes --create` for ensure_indexes()")
        }
        ErrorKind::SettingsMismatch => Some(
            "ensure_indexes() is `indexes --create`, and replace_settings() is `indexes --create --replace-settings`; `init` writes a profile with the settings of the catalog",
        ),
        ErrorKind::Unsupported if error.operation() == Some("ensure_sharded") => {
            Some("ensure_indexes() is `indexes --create`")
        }
        ErrorKind::Contention => Some("run the command again"),
        ErrorKind::ServerSelection => Some(
            "the address is that of --uri or MONGODB_URI, and the options of TLS are --tls, --tls-ca-file and --tls-certificate-key-file",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_does_not_contain_the_id_of_the_document() {
        let error = Error::new(ErrorKind::InvalidTime, "2 documents have no time").at("alice".into(), "date");
        let failure = Failure::from(error);
        assert_eq!(failure.exit.code(), 1);
        assert!(
            !failure.text.contains("alice") && failure.text.contains("`date`"),
            "{}",
            failure.text
        );
        let document = failure.document.expect("the document at fault");
        assert_eq!(document.id, Bson::from("alice"));
    }
}
