//! Problems of intervals.

/// A problem of a stored document. Its `related_id` is the id of the interval.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of the findings of an id.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// Several documents of an id are valid. The finding has the one that began last. Only found without the unique
        /// index.
        SeveralValid {
            /// The number of these documents.
            documents: u64,
        } = "{documents} documents of the id are marked as valid: call migrate_existing() or repair(), by which the current one stays valid",
        /// The interval begins before the end of the previous one, or with it.
        Overlap = "the interval begins before the previous one of the id ends: call repair(), which ends one that has no end",
        /// The interval ends before it begins, or when it begins.
        Reversed = "the interval does not end after it begins: correct one of the two times",
        /// The mark of a valid document does not fit its interval, as after the start of a scheduled interval until the next
        /// write. Reads of the repository do not depend on it.
        OutdatedMark = "the document is not marked as its interval is, which programs that query the mark see: call repair(), or write the id",
        /// The document is marked as valid, but its interval has ended, and no other one is valid.
        ValidEnded = "the document is marked as valid, but its interval has ended, and no other one is valid: correct its end or its mark",
        /// The document has no interval, or only a part of it: another program inserted it.
        Missing = "the document has not both times of its interval and whether it is valid: call migrate_existing() or repair()",
        /// The document has no valid id, or one of the fields has a value of another type.
        Invalid = "the document has no valid id, or one of the fields of the interval has another type: correct it",
    }
}

mongo_patterns_core::problems! {
    /// Why the findings of an id were not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// A document has no valid id, or one of the fields has a value of another type.
        Invalid = "a document has no valid id, or a field of the interval has another type, so the right value is stored nowhere: correct the document",
        /// Two documents of the id begin at one time.
        SameStart = "two documents of the id begin at one time, or have no start, so their order is stored nowhere: correct a start",
        /// An interval ends after the next one begins.
        Overlap = "an interval ends after the next one of the id begins, so one of the two times is wrong: correct it",
        /// An interval ends before it begins.
        Reversed = "an interval does not end after it begins, so one of the two times is wrong: correct it",
        /// The last document is not marked as valid, and has no end.
        EndMissing = "the last document of the id is marked as not valid, but has no end: set its end or correct its mark",
        /// The document that is marked as valid is not the current one.
        Mark = "a document is marked as valid whose interval has ended, or after which another one has begun: correct the mark or the times",
        /// A unique index of the application refuses the document that would be marked as valid.
        UniqueIndex = "a unique index of the application refuses the mark of the current document, because another id has its values: correct one of the two",
    }
}

impl Unrepaired {
    /// Returns the reason as the list of skipped documents has it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::SameStart => "same_start",
            Self::Overlap => "overlap",
            Self::Reversed => "reversed",
            Self::EndMissing => "end_missing",
            Self::Mark => "mark",
            Self::UniqueIndex => "unique_index",
        }
    }

    /// All reasons.
    pub(crate) const REASONS: [&'static str; 6] =
        ["invalid", "same_start", "overlap", "reversed", "end_missing", "mark"];
}
