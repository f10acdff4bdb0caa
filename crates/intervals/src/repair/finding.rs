//! Problems of intervals.

/// A problem of a stored document. Its `related_id` is the id whose interval the document has.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of the findings of an id.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// Several documents of an id are valid. The finding has the one that began last. Only found while the unique index does
        /// not exist, which they prevent.
        SeveralValid {
            /// The number of these documents.
            documents: u64,
        } = "{documents} documents of the id are valid: call migrate_existing() or repair(), by which the last one stays valid",
        /// The interval begins before the end of the previous one, or with it.
        Overlap = "the interval begins before the previous one of the id ends: call repair()",
        /// The interval ends before it begins, or when it begins.
        Reversed = "the interval does not end after it begins: call repair()",
        /// The document is valid, and its interval ends before the end of time.
        ValidEnds = "the document is valid, but its interval ends before the end of time: call repair()",
        /// The document is not valid, and its interval has no end.
        EndMissing = "the document is not valid, but its interval ends at the end of time: call repair()",
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
        Invalid = "the right value is stored nowhere: correct the document",
    }
}
