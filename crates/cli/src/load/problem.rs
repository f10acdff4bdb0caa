//! Why a row cannot be stored. The texts contain no user values.

use std::io;

use mongo_patterns_core::{Error, ErrorKind, error};

use crate::failure::{Exit, Failure};

/// The reason, by which the summary counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The row is not valid CSV, JSON or UTF-8.
    Unreadable,
    /// The row has more or fewer columns than the header.
    Columns,
    /// A value is not of the type of its column.
    Type,
    /// A field that the target needs is missing.
    Missing,
    /// A field that the target needs is invalid, or the library refuses the row.
    Invalid,
    /// A document would exceed MongoDB's limit of 16 MiB.
    TooLarge,
    /// The document or the parent of the row does not exist.
    NotFound,
    /// The parent has as many children as it may.
    LimitReached,
    /// A unique index of the application refused the row.
    DuplicateKey,
    /// A validator of the collection refused the row.
    Validation,
}

impl Reason {
    /// Returns the name in the file of rejected rows.
    pub(crate) fn name(self) -> &'static str {
        // The name in the summary has a prefix.
        self.row().trim_start_matches("rejected_")
    }

    /// Returns the name of the summary's row.
    pub(crate) fn row(self) -> &'static str {
        match self {
            Self::Unreadable => "rejected_unreadable",
            Self::Columns => "rejected_columns",
            Self::Type => "rejected_type",
            Self::Missing => "rejected_missing_field",
            Self::Invalid => "rejected_invalid",
            Self::TooLarge => "rejected_too_large",
            Self::NotFound => "rejected_not_found",
            Self::LimitReached => "rejected_limit_reached",
            Self::DuplicateKey => "rejected_duplicate_key",
            Self::Validation => "rejected_validation",
        }
    }
}

/// The problem of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
        }
    }

    pub(crate) fn missing(field: &str, role: &str) -> Self {
        Self::new(Reason::Missing, format!("the field `{field}` is missing: it {role}"))
    }

    pub(crate) fn too_large() -> Self {
        Self::new(
            Reason::TooLarge,
            "it would exceed MongoDB's limit of 16 MiB for a document: split it, or store its largest value elsewhere",
        )
    }

    /// Returns the problem if the error is about the row. Other errors, such as a broken connection, end the load.
    pub(crate) fn of_row(error: &Error) -> Option<Self> {
        const VALIDATION: i32 = 121;
        if error.is_outcome_unknown() {
            return None;
        }
        let reason = match error.kind() {
            ErrorKind::TooLarge => Reason::TooLarge,
            ErrorKind::NotFound => Reason::NotFound,
            ErrorKind::LimitReached => Reason::LimitReached,
            ErrorKind::DuplicateKey => Reason::DuplicateKey,
            ErrorKind::InvalidArgument
            | ErrorKind::InvalidKey
            | ErrorKind::InvalidTime
            | ErrorKind::InvalidItemId
            | ErrorKind::Encode => Reason::Invalid,
            _ if error.as_driver_error().and_then(error::code) == Some(VALIDATION) => Reason::Validation,
            _ => return None,
        };
        Some(Self::new(reason, error.to_string()))
    }

    /// Returns the failure of a load that stops at this row.
    pub(crate) fn at(&self, line: u64) -> Failure {
        Failure::new(Exit::Findings, format!("line {line}: {}", self.text))
    }
}

/// Returns the failure of a file that cannot be read on from this line.
pub(crate) fn unreadable(line: u64, error: &io::Error) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the compressed data ends too early: the file is incomplete".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    };
    Failure::new(Exit::Findings, format!("line {line}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_about_the_row_or_ends_the_load() {
        let reason = |kind| Problem::of_row(&Error::new(kind, "")).map(|problem| problem.reason);
        assert_eq!(reason(ErrorKind::NotFound), Some(Reason::NotFound));
        assert_eq!(reason(ErrorKind::InvalidTime), Some(Reason::Invalid));
        for kind in [
            ErrorKind::Network,
            ErrorKind::Unauthorized,
            ErrorKind::IndexMissing,
            ErrorKind::Contention,
        ] {
            assert_eq!(reason(kind), None, "{kind:?}");
        }
        assert_eq!(Reason::Missing.name(), "missing_field");
    }
}
