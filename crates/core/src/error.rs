//! The one error of all patterns.

mod cause;
mod kind;
mod predicates;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use mongodb::Namespace;
use mongodb::bson::Bson;

use cause::classify;

#[doc(hidden)]
pub use cause::{DriverCause, DuplicateKey, code, duplicate_key, is_bad_hint, refused_document};
pub use kind::ErrorKind;

/// The result of every call of a pattern.
///
/// ```
/// # use mongo_patterns_core::{Error, ErrorKind};
/// fn page_number(text: &str) -> mongo_patterns_core::Result<u64> {
///     text.parse().map_err(|_| Error::new(ErrorKind::InvalidArgument, "a page has a number"))
/// }
/// # assert!(page_number("x").is_err());
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// The error of all patterns: what kind, in which operation, on which collection, and what to do about it.
///
/// Its text, [`Debug`] and [`source`](std::error::Error::source) never carry user values: no keys, no items, no
/// messages of the server (which quote both). What a program needs beyond that has an accessor: [`key`](Self::key),
/// [`document_id`](Self::document_id), and the driver's own error by [`as_driver_error`](Self::as_driver_error).
///
/// It converts into the driver's error, so `?` works in a callback of the driver's transactions, and keeps the labels
/// that make the driver retry the transaction.
///
/// ```
/// # use mongo_patterns_core::{Error, ErrorKind};
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         _ if error.is_transient() || error.is_outcome_unknown() => 503,
///         ErrorKind::NotFound | ErrorKind::ChildNotFound => 404,
///         ErrorKind::AlreadyExists | ErrorKind::LimitReached => 409,
///         _ if error.is_invalid_input() => 400,
///         _ => 500,
///     }
/// }
/// assert_eq!(status(&Error::new(ErrorKind::LimitReached, "a patron may have 20 addresses")), 409);
/// ```
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
#[doc(hidden)]
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
    /// An error with a text that says what to do and holds no user value: for tests of a service, say.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Contention, "other writers were faster");
    /// assert!(error.is_transient());
    /// ```
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
    #[doc(hidden)]
    pub fn from_driver(kind: ErrorKind, message: impl Into<Cow<'static, str>>, error: mongodb::error::Error) -> Self {
        Self::new(kind, message).caused_by(error)
    }

    /// Adds the driver error that is behind it.
    #[doc(hidden)]
    #[must_use]
    pub fn caused_by(mut self, error: mongodb::error::Error) -> Self {
        self.0.cause = Some(DriverCause::new(error));
        self
    }

    /// A stored document that breaks the pattern's rules in a field.
    #[doc(hidden)]
    pub fn corrupt(document_id: Bson, field: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message).at(document_id, field)
    }

    /// Names the stored document, and the field where it is known: an empty name is none.
    #[doc(hidden)]
    #[must_use]
    pub fn at(mut self, document_id: Bson, field: impl Into<String>) -> Self {
        let field = field.into();
        self.0.document_id = Some(document_id);
        self.0.field = (!field.is_empty()).then_some(field);
        self
    }

    /// Names the encoded key that the operation was about.
    #[doc(hidden)]
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key.get_or_insert_with(|| key.into());
        self
    }

    /// Says how often and how long the operation was tried.
    #[doc(hidden)]
    #[must_use]
    pub fn tried(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.0.tried = Some((attempts, elapsed));
        self
    }

    /// Replaces the text, where a call knows better what an error means for what it did before.
    #[doc(hidden)]
    #[must_use]
    pub fn with_text(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Says how many items of a batch are stored, from the first.
    #[doc(hidden)]
    #[must_use]
    pub fn with_stored(mut self, items: u64) -> Self {
        self.0.stored = Some(items);
        self
    }

    /// Names the operation, unless an inner one is named already.
    #[doc(hidden)]
    #[must_use]
    pub fn in_operation(mut self, operation: &Operation) -> Self {
        self.0.operation.get_or_insert_with(|| operation.clone());
        self
    }

    /// What went wrong.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// let is_full = |error: &Error| error.kind() == ErrorKind::LimitReached;
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The pattern whose repository was called, such as `bucket`.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// if error.pattern() == Some("bucket") {
    ///     println!("a page of a history: {error}");
    /// }
    /// # }
    /// ```
    pub fn pattern(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.pattern)
    }

    /// The method that was called, such as `append`.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// println!("{} failed", error.operation().unwrap_or("a call"));
    /// # }
    /// ```
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.name)
    }

    /// Database and collection.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// if let Some(namespace) = error.namespace() {
    ///     println!("in {}, collection {}", namespace.db, namespace.coll);
    /// }
    /// # }
    /// ```
    pub fn namespace(&self) -> Option<&Namespace> {
        self.0.operation.as_ref().map(|operation| &operation.namespace)
    }

    /// The key in question, as it is encoded in `_id`. It is a user value: take care where you log it.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// // For support alone, not for a log that many read.
    /// let of_customer = error.key().map(str::to_owned);
    /// # }
    /// ```
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The `_id` of the stored document in question. It may hold a key: take care where you log it.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// if error.is_corrupt() {
    ///     println!("look at {:?}, field {:?}", error.document_id(), error.field());
    /// }
    /// # }
    /// ```
    pub fn document_id(&self) -> Option<&Bson> {
        self.0.document_id.as_ref()
    }

    /// The field of the stored document in question, such as `count`, or `history.3` for an element.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// let of_count = error.is_corrupt() && error.field() == Some("count");
    /// # }
    /// ```
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// How many attempts were made, where a retry ran out.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// if let (Some(attempts), Some(elapsed)) = (error.attempts(), error.elapsed()) {
    ///     println!("{attempts} attempts in {elapsed:?}");
    /// }
    /// # }
    /// ```
    pub fn attempts(&self) -> Option<u32> {
        self.0.tried.map(|(attempts, _)| attempts)
    }

    /// How long was tried, where a retry ran out.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// let was_slow = error.elapsed().is_some_and(|elapsed| elapsed.as_secs() > 10);
    /// # }
    /// ```
    pub fn elapsed(&self) -> Option<Duration> {
        self.0.tried.map(|(_, elapsed)| elapsed)
    }

    /// How many items of a batch are stored all the same, from the first: always a prefix. For a stream of items of
    /// several keys, all items of the error's key before this place in the stream are stored. Where the
    /// [outcome is unknown](Self::is_outcome_unknown), more of them may be. `None` in a transaction of the caller, of which
    /// nothing is stored before it commits.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error, batch: &[i32]) {
    /// // The batch had no ids by which it could be repeated as a whole.
    /// if !error.is_outcome_unknown() {
    ///     let rest = &batch[error.stored_count().unwrap_or(0) as usize..];
    /// }
    /// # }
    /// ```
    pub fn stored_count(&self) -> Option<u64> {
        self.0.stored
    }

    /// The driver's own error, with its labels and the server's response. Its text can hold user values.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// # fn f(error: &Error) {
    /// let labels = error.as_driver_error().map(|error| error.labels().len());
    /// # }
    /// ```
    pub fn as_driver_error(&self) -> Option<&mongodb::error::Error> {
        self.0.cause.as_ref().map(DriverCause::error)
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
        match self.0.stored {
            Some(stored) if self.pattern() == Some("subset") => write!(f, " (children stored: {stored})")?,
            Some(stored) => write!(f, " (of this key's items, those among the first {stored} are stored)")?,
            None => {}
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
