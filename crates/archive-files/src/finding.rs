//! The problems of files.

/// A problem of a file. `document_id` is the name of the file, and `namespace` the collection of the records.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The store does not have the file.
        Missing = "the store does not have the file: put it back from a backup of the store",
        /// The file has another content than when it was written, or less.
        Changed = "the file was changed or truncated: put it back from a backup of the store",
        /// A call works on the file, or its process died.
        Unfinished = "a call works on the file, or its process died: the next run ends it",
        /// The archive did not write the file, or a process that was taken for dead wrote it. It is no part of the archive.
        Unknown = "the file is no part of the archive: read it, and delete it or move it elsewhere",
    }
}
