//! The problems of stored documents.

/// A problem of one stored document.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The version field has another value than a version.
        InvalidVersion = "the version is not a whole number from 1: correct the document by hand",
        /// A later release has written the document.
        NewerVersion {
            /// The version.
            version: u32,
        } = "the document has version {version}, which this release does not know: run the later release",
        /// No step converts documents of this version.
        NoStep {
            /// The version.
            version: u32,
        } = "the document has version {version}, which has no step: give the builder its step, and migrate",
        /// A typed step refuses the document, or its old type does not fit.
        NotConverted {
            /// The version whose step refuses it.
            version: u32,
        } = "the step of version {version} refuses the document: change the step, or correct the document",
        /// The type of the repository does not fit the document.
        NotDecoded = "the document cannot be read as the repository's type: correct it by hand",
        /// The document has fields that the type of the repository does not have: [`fields`](Finding::fields). Programs
        /// without the repository may have written them for an older version.
        UnknownFields = "the document has fields that the repository's type does not have: move their values, or add them to the type",
    }
}
