//! Problems of references.

/// A problem of a reference. Its `document_id` is the `_id` of the referring document. Its `fields` is the field with the
/// reference, such as `customer`, and its `related_id` the `_id` of the source, if there is one.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The copy is older than its source: the process that updated the source died, or another program inserted the
        /// document.
        Stale {
            /// The version of the copy.
            version: u64,
            /// The version of the source.
            source_version: u64,
        } = "the copy has the version {version}, and its source the version {source_version}: call repair()",
        /// The copy has the version of its source, and other values, or is marked as deleted: another program changed one of
        /// the two.
        Differs = "the copy differs from the source of the same version: repair() copies the source again",
        /// The copy is newer than its source: the source was deleted and inserted again, or restored from a backup.
        NewerThanSource {
            /// The version of the copy.
            version: u64,
            /// The version of the source.
            source_version: u64,
        } =
            "the copy has the version {version}, and its source only the version {source_version}: repair() raises the version of the source, and copies it again",
        /// There is no source, and the copy is not marked as deleted.
        SourceMissing =
            "the source does not exist: insert it again, or call repair() with on_missing(..) to keep the copy or clear the reference",
        /// The copy has no valid version: another program inserted the document.
        VersionMissing = "the copy has no valid version: call repair()",
        /// The field has a DBRef instead of a reference.
        DbRef =
            "the reference is a DBRef: convert it by an update with a pipeline, then call migrate_from_references()",
        /// The field has a document without an `_id`, such as one with the id in another field.
        WithoutId =
            "the reference is a document without an `_id`, such as one with the id in another field: rename this field to `_id`, then call migrate_from_references()",
        /// The field has another value than a reference, such as an id alone.
        NotAReference =
            "the value is not a document with the `_id` of a source: migrate ids with migrate_from_references(), set a reference, or remove the field",
        /// Sources have the same value of the [source key](crate::ReferenceRepositoryBuilder::source_key), or none. The
        /// `document_id` is this value. Only found without the unique index.
        DuplicateSourceKey {
            /// The number of these sources.
            sources: u64,
        } = "{sources} sources have the same source key, or none, so that its unique index does not exist: set other ones, or delete all but one of them",
    }
}

impl Problem {
    /// Returns whether a second read confirms this problem. The source can have been updated in between.
    pub(super) fn is_confirmed_by(self, second: Self) -> bool {
        match (self, second) {
            (Self::Stale { version, .. }, Self::Stale { version: after, .. })
            | (Self::NewerThanSource { version, .. }, Self::NewerThanSource { version: after, .. }) => version == after,
            (first, second) => first == second,
        }
    }
}

mongo_patterns_core::problems! {
    /// Why a finding was not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// There is no source.
        SourceMissing =
            "it is unknown whether the source was deleted on purpose: insert it again, or set on_missing(..)",
        /// The reference is a DBRef, or another document without an `_id`.
        WithoutId =
            "a repair does not change the form of a reference: convert it by an update with a pipeline, then call migrate_from_references()",
        /// The copy is newer than a source with a history, which alone changes its version.
        NotRecorded =
            "the version of the source is the revision of its history: run a follower of the history, or update the source by it, and then call repair() again",
        /// The value is not a reference.
        NotAReference =
            "it is unknown to which source the value refers: migrate ids with migrate_from_references(), set a reference, or remove the field",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_has_changed_is_not_confirmed() {
        let stale = |version, source_version| Problem::Stale {
            version,
            source_version,
        };
        assert!(stale(1, 2).is_confirmed_by(stale(1, 3)));
        assert!(!stale(1, 3).is_confirmed_by(stale(2, 3)));
        assert!(!stale(1, 2).is_confirmed_by(Problem::SourceMissing));
        assert!(Problem::Differs.is_confirmed_by(Problem::Differs));
    }
}
