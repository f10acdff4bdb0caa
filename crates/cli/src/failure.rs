//! How a command ends.

use std::fmt::Write;
use std::io;

use mongo_patterns_core::{Error, ErrorKind, error};
use mongodb::bson::Bson;
use mongodb::error::ErrorKind as DriverKind;

/// The exit code, or why there is another one.
pub(crate) type Outcome = Result<Exit, Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Well,
    /// Something was found in the data.
    Findings,
    /// The command cannot be as it was given.
    Usage,
    /// The server cannot be reached, or cannot do it.
    Server,
    /// By Ctrl-C.
    Stopped,
    /// Nobody reads the output any more.
    BrokenPipe,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Server => 3,
            Self::Stopped => 130,
            Self::BrokenPipe => 141,
        }
    }

    /// Of a command that looks for something.
    pub(crate) fn of_findings(found: u64) -> Self {
        if found == 0 { Self::Well } else { Self::Findings }
    }
}

/// Why a command did not do what it was asked for. Its text says what to do, and holds no user value.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
    /// The document at fault, which goes to standard output, as findings do.
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
            document: None,
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Names what it is about, where the driver was called without a repository.
    pub(crate) fn on(namespace: impl std::fmt::Display) -> impl FnOnce(mongodb::error::Error) -> Self {
        move |error| {
            let failure = Self::from(error);
            Self {
                text: format!("{namespace}: {}", failure.text),
                ..failure
            }
        }
    }

    /// Adds what to do, in words of the command line.
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
        let collection = error.namespace().map(|namespace| namespace.coll.clone());
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
            io::ErrorKind::BrokenPipe => Self::new(Exit::BrokenPipe, "nobody reads the output any more"),
            _ => Self::usage(error.to_string()),
        }
    }
}

fn exit_of(kind: ErrorKind) -> Exit {
    use ErrorKind::{
        Configuration, Contention, Driver, InvalidArgument, Network, ServerSelection, Unauthorized, Unsupported,
        WriteConcern,
    };
    match kind {
        Configuration | InvalidArgument => Exit::Usage,
        ServerSelection | Unauthorized | Network | WriteConcern | Driver | Contention | Unsupported => Exit::Server,
        _ => Exit::Findings,
    }
}

/// The same in words of the command line, where the library speaks of calls.
fn advice(error: &Error) -> Option<&'static str> {
    const UNAUTHORIZED: i32 = 13;
    const INVALID_NAMESPACE: i32 = 73;
    let of_driver = error.as_driver_error();
    if of_driver.is_some_and(|error| matches!(*error.kind, DriverKind::Authentication { .. })) {
        return Some("check user, password and --auth-source, or what the connection string has of them");
    }
    if of_driver.and_then(error::code) == Some(INVALID_NAMESPACE) {
        return Some("this cannot be the name of a database or a collection: check --db, and the names in the options");
    }
    if of_driver.and_then(error::code) == Some(UNAUTHORIZED) {
        return Some(
            "the user lacks a privilege, or there is no --username: analyze, plan, verify, indexes and all dry runs need `read` on the database, and the others `readWrite`",
        );
    }
    match error.kind() {
        ErrorKind::TargetNotEmpty if error.pattern() == Some("bucket") => {
            Some("allow_non_empty_target() is the option --allow-non-empty-target")
        }
        ErrorKind::IndexMissing if error.operation() != Some("migrate_from_references") => {
            Some("ensure_indexes() is the command `indexes --create`")
        }
        ErrorKind::Contention => Some("run the command again"),
        ErrorKind::ServerSelection => Some(
            "check the hosts of --uri or MONGODB_URI, and whether the server asks for --tls, --tls-ca-file or --tls-certificate-key-file",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_the_document_out_of_its_text() {
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
