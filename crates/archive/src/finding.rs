//! The problems of stored documents, and what a repair did about them.

/// A problem of one stored document.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding. Its `deleted` is 1 if one of two documents was deleted.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;
/// A problem of an entry of a trash.
pub type TrashFinding = mongo_patterns_core::verify::Finding<TrashProblem>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// Both collections have a document with this `_id`. A program inserted it again, or moved it by other means.
        InBoth = "both collections have a document with this `_id`: repair() deletes the older one, or the one that you choose",
        /// A unique index of the archive refuses the document, because an archived one has its values. It stays, however old it is.
        Refused = "a unique index of the archive refuses the document, which stays: change or delete one of the two documents, or drop the index if it is your own",
        /// The document that this one is related to is in the other collection. A program inserted one of the two without
        /// the other, or moved it by other means.
        Elsewhere = "the document to which this related one belongs is in the other collection: restore that one if it is archived, otherwise move this one by hand",
        /// The age field has another value than a date.
        NoDate = "the age field is not a date, so the document is never archived, and not found by its age: correct it by hand",
    }
}

mongo_patterns_core::problems! {
    /// Why a finding was not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// The two documents differ, and their ages are equal, or one has none.
        SameAge = "the two documents differ, and none is older by the age field: choose one with keep(..)",
        /// The document that would be deleted has related ones in its collection.
        HasRelated = "the older document has related ones, which would be deleted with it: choose one with keep(..)",
        /// It is not known which of the two documents must change.
        Refused = "it is unknown which of the two documents is to change: change or delete one by hand",
        /// It is not known where the document belongs.
        Elsewhere = "it is unknown where the related document belongs: restore its document, or move it by hand",
        /// The age is stored nowhere.
        NoDate = "the age is stored nowhere: correct it by hand",
    }
}

mongo_patterns_core::problems! {
    /// A kind of problem of a trash. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum TrashProblem {
        /// The entry has no document. Another program wrote it.
        NoDocument = "the entry has no document, and cannot be restored: correct it or delete it by hand",
        /// The document of the entry has no `_id`. Another program wrote it.
        NoId = "the document of the entry has no `_id`, so a list shows none, and it cannot be restored: set one by hand, or delete the entry",
        /// The entry has no time of its deletion, so no list has it, and it is not deleted by its age.
        NoTime = "the entry has no time of its deletion, so it is not listed, and never deleted by its age: set one by hand",
        /// Related documents of the entry are gone, so its document is not restored. A deletion of old entries was
        /// interrupted, or another program deleted them.
        Incomplete {
            /// The number of the related documents that are left.
            left: u64,
            /// The number of those that were deleted with the document.
            related: u64,
        } = "{left} of {related} related documents are left, so the document is not restored: insert it again by hand, then delete the entries",
        /// The entry of a related document belongs to no entry of a document.
        WithoutDocument = "the related document belongs to no entry, and is never restored: insert it again by hand, or delete the entry",
        /// The entry has related documents, or is a related one, and the trash has no related collections.
        NotRelated = "the entry is that of a related document, or has some, and the trash has no related collections: name them by related(..)",
    }
}
