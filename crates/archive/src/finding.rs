//! The problems of stored documents.

/// A problem of one stored document.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// Both collections have a document with this `_id`. A program inserted it again, or moved it by other means.
        InBoth = "both collections have a document with this `_id`: delete the one that is not needed",
        /// The document that this one is related to is in the other collection. A program inserted one of the two without the
        /// other, or moved it by other means.
        Elsewhere = "the document to which this related one belongs is in the other collection: restore that one if it is archived, otherwise move this one by hand",
        /// The age field has another value than a date.
        NoDate = "the age field is not a date, so the document is never archived, and not found by its age: correct it by hand",
    }
}
