//! The outcome of a command.

use std::fmt::Write;
use std::io;

use mongo_patterns_core::{Error, ErrorKind, Remedy};
use mongodb::error::{ErrorKind as DriverKind, WriteFailure};

use crate::words::{in_commands, of_error};

/// The exit code, or the failure that determines another one.
pub(crate) type Outcome = Result<Exit, Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// Findings in the data, with their number if the command counts them.
    Findings(u64),
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
            Self::Findings(_) => 1,
            Self::Usage => 2,
            Self::Server => 3,
            Self::Stopped => 130,
            Self::BrokenPipe => 141,
            Self::Terminated => 143,
        }
    }

    /// Returns the exit code of a command with this number of findings.
    pub(crate) fn of_findings(found: u64) -> Self {
        if found == 0 {
            Self::Success
        } else {
            Self::Findings(found)
        }
    }

    /// Returns the number of findings.
    pub(crate) fn findings(self) -> u64 {
        match self {
            Self::Findings(found) => found,
            _ => 0,
        }
    }
}

/// The reason for a failure, with what to do. The text contains no user values.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
    /// The error of a repository or of the driver.
    pub(crate) error: Option<Error>,
    /// Whether a setting or a collection is missing, so that the name of the collection may be wrong.
    pub(crate) is_missing: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self {
            exit,
            text: text.into(),
            error: None,
            is_missing: false,
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Creates the failure of a setting or a collection that is missing.
    pub(crate) fn missing(text: impl Into<String>) -> Self {
        Self {
            is_missing: true,
            ..Self::usage(text)
        }
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

    /// Returns whether it is an error of this kind.
    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        self.error.as_ref().is_some_and(|error| error.kind() == kind)
    }

    /// Returns the message of the server, if the text does not say why it has refused a command. It can have user values.
    pub(crate) fn server_message(&self) -> Option<&str> {
        let is_refused = self.is(ErrorKind::Driver) || self.is(ErrorKind::InvalidArgument);
        let error = self.error.as_ref().filter(|_| is_refused)?;
        match &*error.as_driver_error()?.kind {
            DriverKind::Command(refused) => Some(&refused.message),
            DriverKind::Write(WriteFailure::WriteError(refused)) => Some(&refused.message),
            _ => None,
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
        let mut text = of_error(&error);
        if let Some(cause) = std::error::Error::source(&error) {
            let cause = brief(&in_commands(None, cause));
            // Not twice.
            if !text.contains(cause.trim_start_matches("server ")) && cause != DRIVER_ERROR {
                let _ = write!(text, ": {cause}");
            }
        }
        let advice = error.remedy().and_then(advice);
        let advice = advice.filter(|(key, _)| !text.contains(key));
        let failure = Self {
            exit: exit_of(error.kind()),
            text,
            error: Some(error),
            is_missing: false,
        };
        match advice {
            Some((_, advice)) => failure.advise(advice),
            None => failure,
        }
    }
}

/// The text of a driver's error that has none without user values.
const DRIVER_ERROR: &str = "driver error";

/// Shortens the driver's text about servers that were not found, which has its types and labels.
fn brief(cause: &str) -> String {
    let Some((_, topology)) = cause.split_once("Topology: ") else {
        return cause.to_owned();
    };
    let servers = topology.split("Address: ").skip(1).map(|server| {
        let (address, rest) = server.split_once(',').unwrap_or((server, ""));
        let error = rest
            .split_once("Error: ")
            .map(|(_, error)| error.trim_start_matches("Kind: "));
        let error = error.map(|error| error.split(", labels").next().unwrap_or(error));
        let error = error.map(|error| error.trim_end_matches([' ', '}', ']', ',']));
        format!("{address}: {}", error.unwrap_or("it has not answered"))
    });
    let servers: Vec<String> = servers.collect();
    match (servers.is_empty(), topology.contains("ReplicaSet")) {
        (true, true) => "no server belongs to the replica set of `replicaSet`: check this name".to_owned(),
        (true, false) => "no server has answered".to_owned(),
        (false, _) => servers.join("; "),
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
        _ => Exit::Findings(0),
    }
}

/// Returns what to do as options of the command line, after a part of it: a text with this part says it already.
fn advice(remedy: Remedy) -> Option<(&'static str, &'static str)> {
    Some(match remedy {
        Remedy::Retry => ("again", "run the command again"),
        Remedy::CheckSettings => (
            "indexes --create --replace-settings",
            "`indexes --create --replace-settings` replaces the settings in the catalog",
        ),
        Remedy::Verify => ("verify`", "run `verify`, which names them"),
        Remedy::SkipInvalid => (
            "--skip-invalid COLLECTION",
            "--skip-invalid COLLECTION lists all such documents with their reason, and migrates the others; with --dry-run it counts them",
        ),
        Remedy::CheckAddress => (
            "--uri",
            "the address is that of --uri or MONGODB_URI, and the options of TLS are --tls, --tls-ca-file and --tls-certificate-key-file",
        ),
        Remedy::CheckCredentials => (
            "--auth-source",
            "check user, password and --auth-source, or those in the connection string",
        ),
        Remedy::GrantRole => (
            "--username",
            "the user lacks a privilege, or --username is missing: analyze, plan, verify, indexes and all dry runs need the role `read` on the database, all other commands `readWrite`, and `shard` also `clusterManager` on `admin`",
        ),
        Remedy::CheckNames => (
            "--db",
            "this is not a valid name of a database or a collection: check --db, and the names in the options",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;

    use super::*;

    #[test]
    fn the_text_of_an_error_does_not_contain_the_id_of_the_document() {
        let error = Error::new(ErrorKind::InvalidTime, "2 documents have no time").of_document("alice".into(), "date");
        let failure = Failure::from(error);
        assert_eq!(failure.exit.code(), 1);
        assert!(
            !failure.text.contains("alice") && failure.text.contains("`date`"),
            "{}",
            failure.text
        );
        let error = failure.error.expect("the error");
        assert_eq!(error.document_id(), Some(&Bson::from("alice")));
    }

    #[test]
    fn each_remedy_is_said_in_options_of_the_command_line() {
        for (remedy, option) in [
            (Remedy::Retry, "run the command again"),
            (Remedy::CheckSettings, "--replace-settings"),
            (Remedy::Verify, "`verify`"),
            (Remedy::SkipInvalid, "--skip-invalid"),
            (Remedy::CheckAddress, "--uri"),
            (Remedy::CheckCredentials, "--auth-source"),
            (Remedy::GrantRole, "--username"),
            (Remedy::CheckNames, "--db"),
        ] {
            let error = Error::new(ErrorKind::Corrupt, "reason").with_remedy(remedy);
            let text = Failure::from(error).text;
            assert!(text.starts_with("reason; ") && text.contains(option), "{text}");
        }
    }
}
