//! Problems of histories.

/// A problem of a document and its revisions. Its `document_id` is the id of the document, or null.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The current document is at a revision that has no copy: another program wrote it, or the revisions were restored
        /// from an older backup.
        Unrecorded {
            /// The number of the revision.
            revision: u64,
        } = "the revision {revision} is only in the current document: call repair() before the document is written again, which would leave a gap",
        /// The current document is not the copy of its revision: another program changed one of the two.
        Different {
            /// The number of the revision.
            revision: u64,
        } = "the current document differs from its revision {revision}: repair() stores it as the next revision, if it is not written before",
        /// Revisions are missing between two others.
        Gap {
            /// The first missing number.
            from: u64,
            /// The last missing number.
            to: u64,
        } = "the revisions {from} to {to} are missing, and cannot be restored: delete the revisions up to the gap with keep_last(..)",
        /// The time of a revision is not after the previous one.
        TimeReversed {
            /// The number of the revision.
            revision: u64,
        } =
            "the time of the revision {revision} is not after that of the previous one, so as_of(..) can be wrong between them: leave them, or delete the older ones with keep_last(..)",
        /// A revision is newer than the current document: another program restored an old document.
        Ahead {
            /// The number of the newest revision.
            revision: u64,
        } =
            "the revision {revision} is newer than the current document: repair() stores the document as the next revision, if it is not written before",
        /// There is no current document, and the newest revision is no deletion.
        CurrentMissing {
            /// The number of the newest revision.
            revision: u64,
        } =
            "there is no current document, and the newest revision, {revision}, is not that of a deletion: restore it, or insert the document",
        /// A stored document has no number or no time of its revision, or a current document has the field in which
        /// [revisions have its `_id`](crate::HistoryRepositoryBuilder::document_id_field).
        Invalid =
            "a stored document has no number or no time of its revision, or a field that only revisions have: correct it",
        /// Current documents have the same id, or none: another program inserted them. Only found without the unique index,
        /// like duplicate revisions.
        DuplicateId {
            /// The number of these documents.
            documents: u64,
        } = "{documents} current documents have the same id, or none: set other ids, or delete all but one of them",
        /// Revisions of a document have the same number, or none.
        DuplicateRevision {
            /// The number of these revisions.
            revisions: u64,
        } =
            "{revisions} revisions of the document have the same number, or none: delete or renumber those that are wrong; migrate_existing() deletes equal ones",
    }
}

mongo_patterns_core::problems! {
    /// Why a finding was not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// The missing revisions or times are stored nowhere.
        Unknown = "the missing revisions or times are stored nowhere: delete the revisions up to the gap with keep_last(..)",
        /// There is no current document.
        CurrentMissing = "it is unknown whether the document was deleted: restore a revision, or delete it",
        /// A stored document has no number or no time of its revision, or a field that only revisions have.
        Invalid = "its number and time are stored nowhere, and a field that only revisions have is in none: correct the document",
        /// Documents have the same id, or revisions the same number.
        Duplicate = "it is unknown which of the duplicates is correct: change or delete the others",
    }
}
