//! Problems of histories.

use std::fmt;

use serde::Serialize;

/// A problem of a document and its revisions. Its `document_id` is the value of the id field; null for a document without
/// one.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

/// A kind of problem. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "problem")]
#[non_exhaustive]
pub enum Problem {
    /// The current document is at a revision that has no copy: another program wrote the document, or the revisions were
    /// restored from an older backup.
    Unrecorded {
        /// The number of the revision.
        revision: u64,
    },
    /// The current document is not the copy of its revision: another program changed one of the two.
    Different {
        /// The number of the revision.
        revision: u64,
    },
    /// Revisions are missing between two others.
    Gap {
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
    /// The time of a revision is not after that of the previous one.
    TimeReversed {
        /// The number of the revision.
        revision: u64,
    },
    /// A revision is newer than the current document.
    Ahead {
        /// The number of the newest revision.
        revision: u64,
    },
    /// There is no current document, and the newest revision is not that of a deletion.
    CurrentMissing {
        /// The number of the newest revision.
        revision: u64,
    },
    /// A stored document has no number or no time of its revision.
    Invalid,
    /// Current documents have the same id, or none: another program inserted them. Only found while the unique index does
    /// not exist, which they prevent. So are duplicate revisions.
    DuplicateId {
        /// The number of these documents.
        documents: u64,
    },
    /// Revisions of a document have the same number, or none.
    DuplicateRevision {
        /// The number of these revisions.
        revisions: u64,
    },
}

mongo_patterns_core::names! {
    Problem:
    Unrecorded,
    Different,
    Gap,
    TimeReversed,
    Ahead,
    CurrentMissing,
    Invalid,
    DuplicateId,
    DuplicateRevision,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecorded { revision } => write!(
                f,
                "the revision {revision} is only in the current document: call repair(), or write the document"
            ),
            Self::Different { revision } => write!(
                f,
                "the current document differs from its revision {revision}: repair() stores it as the next revision"
            ),
            Self::Gap { from, to } => write!(f, "the revisions {from} to {to} are missing, and cannot be restored"),
            Self::TimeReversed { revision } => write!(
                f,
                "the time of the revision {revision} is not after that of the previous one: as_of(..) can be wrong between them"
            ),
            Self::Ahead { revision } => write!(
                f,
                "the revision {revision} is newer than the current document: replace the current document by it, or delete the newer revisions"
            ),
            Self::CurrentMissing { revision } => write!(
                f,
                "there is no current document, and the newest revision, {revision}, is not that of a deletion: restore it, or insert the document"
            ),
            Self::Invalid => f.write_str("a stored document has no number or no time of its revision: correct it"),
            Self::DuplicateId { documents } => write!(
                f,
                "{documents} current documents have the same id, or none: set other ids, or delete all but one of them"
            ),
            Self::DuplicateRevision { revisions } => write!(
                f,
                "{revisions} revisions of the document have the same number, or none: delete or renumber those that are wrong; migrate_existing() deletes equal ones"
            ),
        }
    }
}

/// Why a finding was not repaired. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Unrepaired {
    /// The missing revisions or times are stored nowhere.
    Unknown,
    /// Revisions are newer than the current document.
    Ahead,
    /// There is no current document.
    CurrentMissing,
    /// A stored document has no number or no time of its revision.
    Invalid,
    /// Documents have the same id, or revisions the same number.
    Duplicate,
}

mongo_patterns_core::names! {
    Unrepaired:
    Unknown,
    Ahead,
    CurrentMissing,
    Invalid,
    Duplicate,
}

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the missing revisions or times are stored nowhere, and are not invented: prune up to the gap",
            Self::Ahead => {
                "it is unknown which is correct: replace the current document by the newest revision, or delete the newer revisions"
            }
            Self::CurrentMissing => "it is unknown whether the document was deleted: restore a revision, or delete it",
            Self::Invalid => "its number and time are stored nowhere: correct the document",
            Self::Duplicate => "it is unknown which of the duplicates is correct: change or delete the others",
        })
    }
}
