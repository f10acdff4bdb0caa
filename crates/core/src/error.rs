//! The error type of all patterns.

mod cause;
pub(crate) mod command;
mod driver;
mod kind;
mod object;
mod predicates;
mod refused;
mod remedy;
#[cfg(test)]
mod replies;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use mongodb::bson::{Bson, RawDocumentBuf};
use mongodb::{Collection, Namespace};

pub(crate) use self::refused::index_missing;
#[doc(hidden)]
pub use self::{command::CommandError, refused::lost_race, refused::refused_move};
#[doc(hidden)]
pub use driver::{DuplicateKey, code, duplicate_key, is_bad_hint, is_transaction_unsupported, refused_document};
pub use kind::ErrorKind;
pub use remedy::Remedy;

/// The result of every call.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of every call: its kind, the operation, the collection, and what to do.
///
/// Its text, [`Debug`] and [`source`](std::error::Error::source) never contain user values: no keys, no items, and no
/// messages of the server. Accessors do: [`key`](Self::key), [`document_id`](Self::document_id), and
/// [`as_driver_error`](Self::as_driver_error).
///
/// It converts into the driver's error and back, so `?` works in a callback of the driver's transactions. A driver's error
/// with labels keeps them, so the driver retries the transaction.
///
/// ```
/// # use mongo_patterns::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::LimitReached, "a patron may have 20 addresses");
/// assert!(!error.is_transient() && !error.is_invalid_input());
/// assert_eq!(error.http_status(), 409);
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    remedy: Option<Remedy>,
    cause: Option<CommandError>,
    operation: Option<Operation>,
    key: Option<String>,
    document_id: Option<Bson>,
    document_in: Option<Namespace>,
    field: Option<String>,
    path: Option<String>,
    step: Option<String>,
    tried: Option<(u32, Duration)>,
    stored: Option<u64>,
}

/// The call and the collection of an [`Error`] or a span.
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
    /// Creates an error, for example in the tests of a service. Its text must not contain user values.
    ///
    /// ```
    /// # use mongo_patterns::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Contention, "other writers were faster");
    /// assert!(error.is_transient());
    /// ```
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            remedy: None,
            cause: None,
            operation: None,
            key: None,
            document_id: None,
            document_in: None,
            field: None,
            path: None,
            step: None,
            tried: None,
            stored: None,
        }))
    }

    /// Wraps a driver error, with a kind and a text.
    #[doc(hidden)]
    pub fn from_driver(kind: ErrorKind, message: impl Into<Cow<'static, str>>, error: impl Into<CommandError>) -> Self {
        Self::new(kind, message).caused_by(error)
    }

    /// Sets the driver error that caused it.
    #[doc(hidden)]
    #[must_use]
    pub fn caused_by(mut self, error: impl Into<CommandError>) -> Self {
        self.0.cause = Some(error.into());
        self
    }

    /// Creates the error of a stored document that violates an invariant.
    #[doc(hidden)]
    pub fn corrupt(document_id: Bson, field: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message).of_document(document_id, field)
    }

    /// Sets the stored document, and its field unless the name is empty.
    #[doc(hidden)]
    #[must_use]
    pub fn of_document(mut self, document_id: Bson, field: impl Into<String>) -> Self {
        let field = field.into();
        self.0.document_id = Some(document_id);
        if let Some(path) = self.0.path.take() {
            return self.in_path(&field, &path);
        }
        self.0.field = (!field.is_empty()).then_some(field);
        self
    }

    /// Sets the path of a value in the stored document, below a path of the settings. The error's text has only the path of
    /// the settings, because any other name can be a key of a map.
    #[doc(hidden)]
    #[must_use]
    pub fn in_path(mut self, above: &str, path: &str) -> Self {
        let names = [above, path].into_iter().filter(|names| !names.is_empty());
        let whole = names.collect::<Vec<_>>().join(".");
        self.0.field = (!above.is_empty()).then(|| above.to_owned());
        self.0.path = (!path.is_empty()).then_some(whole);
        self
    }

    /// Sets the collection of the stored document, if it differs from the collection of the operation.
    #[doc(hidden)]
    #[must_use]
    pub fn of_collection(mut self, collection: &Collection<RawDocumentBuf>) -> Self {
        if self.0.document_id.is_some() {
            self.0.document_in.get_or_insert_with(|| collection.namespace());
        }
        self
    }

    /// Sets the encoded key of the operation.
    #[doc(hidden)]
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key.get_or_insert_with(|| key.into());
        self
    }

    /// Sets the name of the step of a program that failed.
    #[doc(hidden)]
    #[must_use]
    pub fn with_step(mut self, name: impl Into<String>) -> Self {
        self.0.step = Some(name.into());
        self
    }

    /// Sets the number and the duration of the attempts.
    #[doc(hidden)]
    #[must_use]
    pub fn tried(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.0.tried = Some((attempts, elapsed));
        self
    }

    /// Replaces the text, when a call knows more about the effect of the error.
    #[doc(hidden)]
    #[must_use]
    pub fn with_text(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Replaces the kind, when a call knows more about the cause.
    #[doc(hidden)]
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets how many items of a batch are stored, from the first.
    #[doc(hidden)]
    #[must_use]
    pub fn with_stored(mut self, items: u64) -> Self {
        self.0.stored = Some(items);
        self
    }

    /// Sets the operation, unless an inner one is set already.
    #[doc(hidden)]
    #[must_use]
    pub fn in_operation(mut self, operation: &Operation) -> Self {
        self.0.operation.get_or_insert_with(|| operation.clone());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the pattern of the repository, such as `bucket`.
    pub fn pattern(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.pattern)
    }

    /// Returns the called method, such as `append`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation.as_ref().map(|operation| operation.name)
    }

    /// Returns the database and the collection.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.0.operation.as_ref().map(|operation| &operation.namespace)
    }

    /// Returns the key, as encoded in `_id`. It is a user value: take care where you log it.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the `_id` of the stored document. It can contain a key: take care where you log it.
    pub fn document_id(&self) -> Option<&Bson> {
        self.0.document_id.as_ref()
    }

    /// Returns the database and the collection of the stored document, such as the overflow collection. It can differ from
    /// the collection of the [operation](Self::namespace).
    pub fn document_namespace(&self) -> Option<&Namespace> {
        self.0.document_id.as_ref()?;
        self.0.document_in.as_ref().or(self.namespace())
    }

    /// Returns the field of the stored document, such as `count`, or a path, such as `reviews.3.stars` for a value that
    /// cannot be [decoded](ErrorKind::Decode). Such a path can contain the key of a map, which is a user value: take care
    /// where you log it.
    pub fn field(&self) -> Option<&str> {
        self.0.path.as_ref().or(self.0.field.as_ref()).map(String::as_str)
    }

    /// Returns the name of the step that failed, in a list of migrations, or the version from which it converts documents.
    pub fn step(&self) -> Option<&str> {
        self.0.step.as_deref()
    }

    /// Returns the number of attempts, when the retry policy was exhausted.
    pub fn attempts(&self) -> Option<u32> {
        self.0.tried.map(|(attempts, _)| attempts)
    }

    /// Returns the duration of all attempts, when the retry policy was exhausted.
    pub fn elapsed(&self) -> Option<Duration> {
        self.0.tried.map(|(_, elapsed)| elapsed)
    }

    /// Returns how many items of a batch are stored despite the error: always the first ones. Of a stream with several keys,
    /// all items of the error's key before this position are stored. If the [outcome is unknown](Self::is_outcome_unknown),
    /// more can be stored. `None` in a transaction of the caller.
    ///
    /// ```
    /// # use mongo_patterns::{Error, ErrorKind};
    /// # fn f(error: &Error, batch: &[i32]) {
    /// // Without item ids, the batch as a whole is not idempotent.
    /// if !error.is_outcome_unknown() {
    ///     let rest = &batch[error.stored_count().unwrap_or(0) as usize..];
    /// }
    /// # }
    /// ```
    pub fn stored_count(&self) -> Option<u64> {
        self.0.stored
    }

    /// Returns the driver's error, with its labels and the server's response. Its text can contain user values.
    pub fn as_driver_error(&self) -> Option<&mongodb::error::Error> {
        self.0.cause.as_ref().map(CommandError::error)
    }
}

impl From<mongodb::error::Error> for Error {
    fn from(error: mongodb::error::Error) -> Self {
        CommandError::from(error).into()
    }
}

impl From<Error> for mongodb::error::Error {
    /// Returns the driver's error if it has labels, or wraps this one with [`custom`](mongodb::error::Error::custom).
    fn from(error: Error) -> Self {
        match &error.0.cause {
            Some(cause) if !cause.labels().is_empty() => cause.error().clone(),
            _ => Self::custom(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = &self.0.operation {
            write!(
                f,
                "{} {} on {}: ",
                operation.pattern, operation.name, operation.namespace
            )?;
        }
        f.write_str(&self.0.message)?;
        if let Some(field) = &self.0.field {
            write!(f, " (field `{field}`)")?;
        }
        if let Some(step) = &self.0.step {
            write!(f, " (step `{step}`)")?;
        }
        if let Some(namespace) = self
            .0
            .document_in
            .as_ref()
            .filter(|other| Some(*other) != self.namespace())
        {
            write!(f, " (document of {namespace})")?;
        }
        if let Some((attempts, elapsed)) = self.0.tried {
            let times = if attempts == 1 { "time" } else { "times" };
            write!(f, " (tried {attempts} {times} in {elapsed:.1?})")?;
        }
        match self.0.stored {
            Some(stored) => write!(f, " (stored before the error: {stored})"),
            None => Ok(()),
        }
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
    /// Returns the driver's error without user values.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as _)
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
    fn the_text_has_the_operation_and_the_advice_but_no_key() {
        let error = Error::new(ErrorKind::Contention, "other writers were faster: try again later")
            .in_operation(&operation())
            .with_key("alice@example.com")
            .of_document(Bson::String("alice@example.com_1698335223".into()), "history.3")
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
    fn an_error_survives_the_conversion_into_a_driver_error_and_back() {
        let own = Error::new(ErrorKind::InvalidArgument, "pages are numbered from 1").in_operation(&operation());
        let driver = mongodb::error::Error::from(own);
        let back = Error::from(driver);
        assert_eq!(back.kind(), ErrorKind::InvalidArgument);
        assert_eq!(back.operation(), Some("append"));
    }

    #[test]
    fn an_error_of_the_driver_is_converted_back_with_all_that_a_call_has_added() {
        let io: mongodb::error::Error = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset").into();
        let error = Error::from(io);
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.is_outcome_unknown());
        assert!(std::error::Error::source(&error).is_some());
        let back = Error::from(mongodb::error::Error::from(
            error.with_text("the source is updated").with_stored(1),
        ));
        assert_eq!(back.kind(), ErrorKind::Network);
        assert_eq!(back.stored_count(), Some(1));
        assert!(back.as_driver_error().is_some() && back.to_string().contains("the source is updated"));
    }

    #[test]
    fn the_text_names_another_collection_of_the_document() {
        let collection = |name: &str| Namespace::new("shop", name);
        let mut error = Error::corrupt(Bson::Int32(1), "seq", "no integer").in_operation(&operation());
        assert_eq!(error.document_namespace(), Some(&collection("trades")));
        error.0.document_in = Some(collection("trades_extras"));
        assert_eq!(error.document_namespace(), Some(&collection("trades_extras")));
        assert!(
            error
                .to_string()
                .ends_with("no integer (field `seq`) (document of shop.trades_extras)"),
            "{error}"
        );
        assert_eq!(
            Error::new(ErrorKind::NotFound, "")
                .in_operation(&operation())
                .document_namespace(),
            None
        );
    }
}
