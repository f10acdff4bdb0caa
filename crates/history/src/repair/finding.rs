//! Problems of histories.

use std::fmt;

use mongo_patterns_core::index::Duplicates;
use mongodb::bson::Bson;

use crate::settings::Settings;

/// A problem of a document and its revisions, from [`verify`](crate::HistoryRepository::verify).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The value of the id field; `null` for a document without one. It is a user value: take care where you log it.
    pub document_id: Bson,
    /// The problem.
    pub problem: Problem,
    /// The `_id`s of the documents or revisions that are stored several times, up to 100 of them; empty for other problems.
    /// They are user values.
    pub document_ids: Vec<Bson>,
}

/// A kind of problem. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Finding {
    /// Creates the finding of a problem of a document.
    pub(crate) fn new(document_id: Bson, problem: Problem) -> Self {
        Self {
            document_id,
            problem,
            document_ids: Vec::new(),
        }
    }

    /// Creates the finding of documents that violate one of the unique indexes.
    pub(crate) fn of_duplicates(settings: &Settings, found: Duplicates) -> Self {
        let number = found.documents;
        let problem = match found.index == settings.current_index {
            true => Problem::DuplicateId { documents: number },
            false => Problem::DuplicateRevision { revisions: number },
        };
        Self {
            document_ids: found.ids,
            ..Self::new(found.values.into_iter().next().unwrap_or(Bson::Null), problem)
        }
    }
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

/// The repair of a finding.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// The problem that was repaired, or would be.
    pub finding: Finding,
    /// Why it was not repaired; `None` if it was.
    pub unrepaired: Option<Unrepaired>,
}

/// Why a finding was not repaired. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
