//! The one error of all patterns.

mod cause;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use mongodb::Namespace;
use mongodb::bson::Bson;

use cause::classify;

pub use cause::{DriverCause, DuplicateKey, code, duplicate_key, is_bad_hint, refused_document};

/// The result of every call of a pattern.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for a program to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A builder got a setting that cannot work, such as a page size of 0 or a field name with a dot.
    Configuration,
    /// A call got an argument that cannot be, such as page 0.
    InvalidArgument,
    /// The key cannot be encoded: an integer out of range, or a text that is too long.
    InvalidKey,
    /// The item has no usable time: its time field is missing or not a date, or the time is out of range.
    InvalidTime,
    /// The item has no usable id: its id field is missing, or its type is not one that an id can have.
    InvalidItemId,
    /// The item cannot be written as BSON.
    Encode,
    /// There is no document with this `_id`.
    NotFound,
    /// The item does not fit: alone, or together with its document's others, it would pass MongoDB's 16 MiB.
    TooLarge,
    /// A stored item cannot be read as the item type of the repository.
    Decode,
    /// An index that the call relies on does not exist.
    IndexMissing,
    /// An index of a planned name has another definition, or an equal index has another name.
    IndexMismatch,
    /// The collection's collation is not the simple one, so `_id` ranges would not be index bounds.
    Collation,
    /// A unique index that is not the pattern's refused the write.
    DuplicateKey,
    /// A stored document breaks the rules of the pattern.
    Corrupt,
    /// The deployment cannot do what the call needs: a standalone has no transactions, or the server is too old.
    Unsupported,
    /// A collection that is to be filled has documents already.
    TargetNotEmpty,
    /// After a move, the target does not have what the source has.
    CountMismatch,
    /// A document holds what is nowhere else and would be lost: it must be moved first.
    NotMoved,
    /// There is a document with this `_id` already.
    AlreadyExists,
    /// Changes that were to be followed are not known to the server any more.
    HistoryLost,
    /// A collection that was followed was dropped or renamed.
    Dropped,
    /// The server does not keep what documents were before a change, and the call needs it.
    PreImagesOff,
    /// The parent has no child with this id.
    ChildNotFound,
    /// The parent has a child with this id already.
    ChildExists,
    /// The parent has as many children as it may have.
    Full,
    /// The parent's children are not those that the call lists.
    ChildrenDiffer,
    /// Other writers were faster each time, until the retry policy ended it, or once in the caller's session.
    Contention,
    /// The server does not know the user, or the user lacks a privilege for a command, which did nothing.
    Unauthorized,
    /// No suitable server could be found. Nothing was sent.
    Unreachable,
    /// The connection broke. The server may or may not have done what was asked.
    Network,
    /// The write was done, but not confirmed by as many members as its write concern asks for.
    WriteConcern,
    /// Any other error of the driver or the server.
    Driver,
}

/// The error of all patterns: what kind, in which operation, on which collection, and what to do about it.
///
/// Its text, [`Debug`] and [`source`](std::error::Error::source) never carry user values: no keys, no items, no
/// messages of the server (which quote both). What a program needs beyond that has an accessor: [`key`](Self::key),
/// [`document_id`](Self::document_id), and the driver's own error by [`as_driver_error`](Self::as_driver_error).
///
/// It converts into the driver's error, so `?` works in a callback of the driver's transactions, and keeps the labels
/// that make the driver retry the transaction.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    cause: Option<DriverCause>,
    operation: Option<Operation>,
    key: Option<String>,
    document_id: Option<Bson>,
    field: Option<String>,
    tried: Option<(u32, Duration)>,
    stored: Option<u64>,
}

/// Which call on which collection an [`Error`] or a span belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The pattern, such as `bucket`.
    pub pattern: &'static str,
    /// The method, such as `append`.
    pub name: &'static str,
    /// Database and collection.
    pub namespace: Namespace,
}

impl Error {
    /// An error with a text that says what to do and holds no user value.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            cause: None,
            operation: None,
            key: None,
            document_id: None,
            field: None,
            tried: None,
            stored: None,
        }))
    }

    /// A driver error with a kind and text of our own.
    pub fn from_driver(kind: ErrorKind, message: impl Into<Cow<'static, str>>, error: mongodb::error::Error) -> Self {
        Self::new(kind, message).caused_by(error)
    }

    /// Adds the driver error that is behind it.
    #[must_use]
    pub fn caused_by(mut self, error: mongodb::error::Error) -> Self {
        self.0.cause = Some(DriverCause::new(error));
        self
    }

    /// A stored document that breaks the pattern's rules in a field.
    pub fn corrupt(document_id: Bson, field: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message).at(document_id, field)
    }

    /// Names the stored document and field.
    #[must_use]
    pub fn at(mut self, document_id: Bson, field: impl Into<String>) -> Self {
        self.0.document_id = Some(document_id);
        self.0.field = Some(field.into());
        self
    }

    /// Names the encoded key that the operation was about.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key.get_or_insert_with(|| key.into());
        self
    }

    /// Says how often and how long the operation was tried.
    #[must_use]
    pub fn tried(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.0.tried = Some((attempts, elapsed));
        self
    }

    /// Says how many items of a batch are stored, from the first.
    #[must_use]
    pub fn with_stored(mut self, items: u64) -> Self {
        self.0.stored = Some(items);
        self
    }

    /// Names the operation, unless an inner one is named already.
    #[must_use]
    pub fn in_operation(mut self, operation: &Operation) -> Self {
        self.0.operation.get_or_insert_with(|| operation.clone());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The pattern whose repository was called, such as `bucket`.
    pub fn pattern(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.pattern)
    }

    /// The method that was called, such as `append`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.name)
    }

    /// Database and collection.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.0.operation.as_ref().map(|operation| &operation.namespace)
    }

    /// The key in question, as it is encoded in `_id`. It is a user value: take care where you log it.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The `_id` of the stored document in question. It may hold a key: take care where you log it.
    pub fn document_id(&self) -> Option<&Bson> {
        self.0.document_id.as_ref()
    }

    /// The field of the stored document in question, such as `count`, or `history.3` for an element.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// How many attempts were made, where a retry ran out.
    pub fn attempts(&self) -> Option<u32> {
        self.0.tried.map(|(attempts, _)| attempts)
    }

    /// How long was tried, where a retry ran out.
    pub fn elapsed(&self) -> Option<Duration> {
        self.0.tried.map(|(_, elapsed)| elapsed)
    }

    /// How many items of a batch are stored all the same, from the first: always a prefix. For a stream of items of
    /// several keys, all items of the error's key before this place in the stream are stored. Where the
    /// [outcome is unknown](Self::is_outcome_unknown), more of them may be.
    pub fn stored(&self) -> Option<u64> {
        self.0.stored
    }

    /// The driver's own error, with its labels and the server's response. Its text can hold user values.
    pub fn as_driver_error(&self) -> Option<&mongodb::error::Error> {
        self.0.cause.as_ref().map(DriverCause::error)
    }

    /// Whether the caller's input or settings were refused. Nothing was sent, or the server stored nothing.
    pub fn is_invalid_input(&self) -> bool {
        use ErrorKind::*;
        matches!(
            self.0.kind,
            Configuration | InvalidArgument | InvalidKey | InvalidTime | InvalidItemId | Encode | TooLarge
        )
    }

    /// Whether other writers got in the way until the retry ended. Nothing was stored; trying again can work.
    pub fn is_contention(&self) -> bool {
        self.0.kind == ErrorKind::Contention
    }

    /// Whether a stored document breaks the rules of the pattern.
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == ErrorKind::Corrupt
    }

    /// Whether the collection is not set up for the pattern: an index is missing or different, the collation is not the
    /// simple one, or pre-images are off.
    pub fn is_setup(&self) -> bool {
        use ErrorKind::*;
        matches!(self.0.kind, IndexMissing | IndexMismatch | Collation | PreImagesOff)
    }

    /// Whether no server could be reached. Nothing was sent.
    pub fn is_unreachable(&self) -> bool {
        self.0.kind == ErrorKind::Unreachable
    }

    /// Whether a write may have been stored although it ended in this error: the connection broke under it, it ran
    /// into a time limit, or its write concern was not met. Trying it again can store it twice.
    pub fn is_outcome_unknown(&self) -> bool {
        match self.0.kind {
            ErrorKind::Network | ErrorKind::WriteConcern => true,
            ErrorKind::Driver => self.0.cause.as_ref().is_some_and(DriverCause::outcome_unknown),
            _ => false,
        }
    }
}

impl From<mongodb::error::Error> for Error {
    fn from(error: mongodb::error::Error) -> Self {
        if let Some(own) = error.get_custom::<Self>() {
            return own.clone();
        }
        let (kind, message) = classify(&error);
        Self::from_driver(kind, message, error)
    }
}

impl From<Error> for mongodb::error::Error {
    /// The driver's own error with its labels, or [`custom`](mongodb::error::Error::custom) around one of ours.
    fn from(error: Error) -> Self {
        match &error.0.cause {
            Some(cause) => cause.error().clone(),
            None => Self::custom(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = &self.0.operation {
            let Operation {
                pattern,
                name,
                namespace,
            } = operation;
            write!(f, "{pattern} {name} on {namespace}: ")?;
        }
        f.write_str(&self.0.message)?;
        if let Some(field) = &self.0.field {
            write!(f, " (field `{field}`)")?;
        }
        if let Some((attempts, elapsed)) = self.0.tried {
            write!(f, " (tried {attempts} times in {elapsed:.1?})")?;
        }
        if let Some(stored) = self.0.stored {
            write!(f, " (of this key's items, those among the first {stored} are stored)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("text", &format_args!("{self}"))
            .field("cause", &self.0.cause)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    /// The driver's error, reduced to what holds no user value.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .cause
            .as_ref()
            .map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation() -> Operation {
        Operation {
            pattern: "bucket",
            name: "append",
            namespace: Namespace::new("shop", "trades"),
        }
    }

    #[test]
    fn the_text_names_the_operation_and_what_to_do_but_no_key() {
        let error = Error::new(ErrorKind::Contention, "other writers were faster: try again later")
            .in_operation(&operation())
            .with_key("alice@example.com")
            .at(Bson::String("alice@example.com_1698335223".into()), "history.3")
            .tried(7, Duration::from_millis(1234));
        assert_eq!(
            error.to_string(),
            "bucket append on shop.trades: other writers were faster: try again later (field `history.3`) (tried 7 times in 1.2s)"
        );
        assert!(!format!("{error:?}").contains("alice"));
        assert_eq!(error.key(), Some("alice@example.com"));
        assert_eq!(error.attempts(), Some(7));
        assert!(error.is_contention() && !error.is_corrupt() && !error.is_outcome_unknown());
    }

    #[test]
    fn an_own_error_survives_the_way_through_the_driver() {
        let own = Error::new(ErrorKind::InvalidArgument, "pages are numbered from 1").in_operation(&operation());
        let driver = mongodb::error::Error::from(own);
        let back = Error::from(driver);
        assert_eq!(back.kind(), ErrorKind::InvalidArgument);
        assert_eq!(back.operation(), Some("append"));
    }

    #[test]
    fn a_driver_error_comes_out_as_it_went_in() {
        let io: mongodb::error::Error = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset").into();
        let error = Error::from(io);
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.is_outcome_unknown());
        assert!(std::error::Error::source(&error).is_some());
        let driver = mongodb::error::Error::from(error);
        assert!(matches!(*driver.kind, mongodb::error::ErrorKind::Io(_)));
    }
}
