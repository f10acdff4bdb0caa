//! What a caller can do about an error.

use super::kind::Class;
use super::{DriverCause, Error, ErrorKind};

impl Error {
    /// Whether the caller's input or settings were refused. Nothing was sent, or the server stored nothing: it is never
    /// so where a part of the call is [`stored`](Self::stored).
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::InvalidArgument, "pages are numbered from 1");
    /// assert!(error.is_invalid_input());
    /// ```
    pub fn is_invalid_input(&self) -> bool {
        self.0.kind.class() == Class::Input && !self.is_stored_in_part()
    }

    /// Whether the same call can succeed later: other writers got in the way, no server could be reached, or one said
    /// that it did nothing for now, or a transaction was aborted. Nothing was stored. What calls of many documents, such as
    /// repairs, did before stays, and the next one goes on from there.
    ///
    /// A call without a session may be made again as it is, after a while. In a transaction of yours, the whole
    /// transaction is to be run again.
    ///
    /// ```
    /// # use mongo_patterns_core::Error;
    /// # use std::time::Duration;
    /// /// How a service answers.
    /// fn retry_after(error: &Error) -> Option<Duration> {
    ///     (error.is_transient() || error.is_outcome_unknown()).then_some(Duration::from_secs(1))
    /// }
    /// ```
    ///
    /// It is never so together with [`is_outcome_unknown`](Self::is_outcome_unknown), or where a part of the call is
    /// [`stored`](Self::stored).
    pub fn is_transient(&self) -> bool {
        let by_kind = match self.0.kind.class() {
            Class::Transient => true,
            Class::ByDriver => self.0.cause.as_ref().is_some_and(DriverCause::is_transient),
            _ => false,
        };
        by_kind && !self.is_stored_in_part()
    }

    fn is_stored_in_part(&self) -> bool {
        self.0.stored.is_some_and(|stored| stored > 0)
    }

    /// Whether other writers got in the way until the retry ended. It is one of the
    /// [transient](Self::is_transient) errors, unless a part of the call is [`stored`](Self::stored).
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::Contention, "others were faster").is_contention());
    /// ```
    pub fn is_contention(&self) -> bool {
        self.0.kind == ErrorKind::Contention
    }

    /// Whether a stored document breaks the rules of the pattern.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::Corrupt, "the count is not the number of items").is_corrupt());
    /// ```
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == ErrorKind::Corrupt
    }

    /// Whether the collection is not set up for the pattern: an index is missing or different, the collation is not the
    /// simple one, or pre-images are off.
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::IndexMissing, "call ensure_indexes()");
    /// assert!(error.is_setup_error() && !error.is_transient());
    /// ```
    pub fn is_setup_error(&self) -> bool {
        self.0.kind.class() == Class::Setup
    }

    /// Whether no server could be reached. The command was not sent. It is one of the
    /// [transient](Self::is_transient) errors, unless a part of the call is [`stored`](Self::stored).
    ///
    /// ```
    /// # use mongo_patterns_core::{Error, ErrorKind};
    /// assert!(Error::new(ErrorKind::ServerSelection, "no server").is_server_selection());
    /// ```
    pub fn is_server_selection(&self) -> bool {
        self.0.kind == ErrorKind::ServerSelection
    }

    /// Whether something may have been stored although the call ended in this error: the connection broke under it, it ran
    /// into a time limit, its primary stepped down, or its write concern was not met. To try it again can store it twice,
    /// unless it has an id by which the pattern recognises it.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::{Error, Result};
    /// # async fn append() -> Result<()> { Ok(()) }
    /// # async fn f() -> Result<()> {
    /// let mut appended = append().await; // of an item with an id
    /// while appended.as_ref().is_err_and(Error::is_outcome_unknown) {
    ///     appended = append().await;
    /// }
    /// # appended
    /// # }
    /// ```
    pub fn is_outcome_unknown(&self) -> bool {
        match self.0.kind.class() {
            Class::Unknown => true,
            Class::ByDriver => self.0.cause.as_ref().is_some_and(DriverCause::is_outcome_unknown),
            _ => false,
        }
    }
}
