//! Predicates: what a caller can do about an error.

use super::kind::Class;
use super::{CommandError, Error, ErrorKind};

impl Error {
    /// Returns whether the input or the settings were refused, with nothing stored. `false` if a part of the call is
    /// [stored](Self::stored_count).
    ///
    /// ```
    /// # use mongo_patterns::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::InvalidArgument, "pages are numbered from 1");
    /// assert!(error.is_invalid_input());
    /// ```
    pub fn is_invalid_input(&self) -> bool {
        self.0.kind.class() == Class::Input && !self.is_stored_in_part()
    }

    /// Returns whether a retry can succeed later, with nothing stored: writers conflicted, no server was found, a server
    /// refused the command for now, or a transaction was aborted. A call of many documents, such as a repair, resumes.
    ///
    /// Without a session, retry the call after a backoff. In a transaction of yours, run the whole transaction again.
    ///
    /// ```
    /// # use mongo_patterns::Error;
    /// # use std::time::Duration;
    /// /// How a service answers.
    /// fn retry_after(error: &Error) -> Option<Duration> {
    ///     (error.is_transient() || error.is_outcome_unknown()).then_some(Duration::from_secs(1))
    /// }
    /// ```
    ///
    /// `false` if the [outcome is unknown](Self::is_outcome_unknown), or a part of the call is
    /// [stored](Self::stored_count).
    pub fn is_transient(&self) -> bool {
        let by_kind = match self.0.kind.class() {
            Class::Transient => true,
            Class::ByDriver => self.0.cause.as_ref().is_some_and(CommandError::is_transient),
            _ => false,
        };
        by_kind && !self.is_stored_in_part()
    }

    /// Returns whether one document of a command with several can be the cause.
    pub(crate) fn can_be_of_one_document(&self) -> bool {
        let by_kind = matches!(self.0.kind.class(), Class::Input | Class::ByDriver)
            || matches!(self.0.kind, ErrorKind::DuplicateKey | ErrorKind::AlreadyExists);
        by_kind && !self.is_outcome_unknown()
    }

    fn is_stored_in_part(&self) -> bool {
        self.0.stored.is_some_and(|stored| stored > 0)
    }

    /// Returns whether conflicts with concurrent writers exhausted the retry policy. Such an error is
    /// [transient](Self::is_transient), unless a part of the call is [stored](Self::stored_count).
    pub fn is_contention(&self) -> bool {
        self.0.kind == ErrorKind::Contention
    }

    /// Returns whether a stored document violates an invariant of the pattern.
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == ErrorKind::Corrupt
    }

    /// Returns whether the collection is not set up for the pattern: an index is missing or different, the collation or the
    /// shard key is unsuitable, or pre-images are disabled.
    pub fn is_setup_error(&self) -> bool {
        self.0.kind.class() == Class::Setup
    }

    /// Returns whether no server was found. Nothing was sent. Such an error is [transient](Self::is_transient), unless a
    /// part of the call is [stored](Self::stored_count).
    pub fn is_server_selection(&self) -> bool {
        self.0.kind == ErrorKind::ServerSelection
    }

    /// Returns whether the call may have taken effect despite the error: the connection broke, a time limit expired, the
    /// primary stepped down, or the write concern was not satisfied. A retry can store the item twice, unless it has an id
    /// that makes the call idempotent.
    ///
    /// A router retries writes by itself and may report only the last attempt. So a write that a server cannot execute at
    /// the moment, such as error 133, has an unknown outcome, unless the label `NoWritesPerformed` says that nothing was
    /// written. Of a read, the same error is transient.
    ///
    /// ```no_run
    /// # use mongo_patterns::{Error, Result};
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
            Class::ByDriver => self.0.cause.as_ref().is_some_and(CommandError::is_outcome_unknown),
            _ => false,
        }
    }
}
