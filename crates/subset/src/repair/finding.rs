//! Problems of stored parents and children.

/// A problem of a parent. Its `document_id` is the `_id` of the parent, or the value in the parent field of its children, or
/// null. Its `fields` are the stale subsets, if a parent has [several](crate::SubsetRepositoryBuilder::subset), and its
/// `document_ids` the children with the same id.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// A subset is not the first of the parent's children, an embedded child differs from the stored one, or the
        /// [total](crate::SubsetRepositoryBuilder::total_field) or a [figure](crate::SubsetRepositoryBuilder#figures) does
        /// not fit the children.
        Stale =
            "the subset is not the first of the children, or the total or a figure is not theirs: repair or refresh the parent",
        /// A parent that a repository has written embeds children that their collection lacks: another program embedded
        /// them, or deleted them there.
        NotStored {
            /// The number of these children.
            children: u64,
        } =
            "the parent embeds {children} children that are not in their collection: insert them, all by one call, or discard them by refresh(..) if they were deleted",
        /// Children refer to a parent that does not exist.
        Orphaned {
            /// The number of these children.
            children: u64,
        } =
            "{children} children belong to a parent that does not exist: insert it, or delete them with delete_parent(..)",
        /// Children of one parent have the same id, or none: another program inserted them. Only found without the unique
        /// index.
        DuplicateChildId {
            /// The number of these children.
            children: u64,
        } = "{children} children of the parent have the same id, or none: set other ids, or delete all but one of them",
    }
}

mongo_patterns_core::problems! {
    /// Why a finding was not repaired. Its text says what to do, and contains no user value.
    pub enum Unrepaired {
        /// The parent of the children does not exist.
        NoParent = "the parent of the children does not exist: insert it, or delete them with delete_parent(..)",
        /// No repository has written the parent, and it embeds children that are not in their collection.
        NotMigrated =
            "the parent embeds children that are not in their collection: migrate them with migrate_from_embedded(), or discard them with refresh(..).discard_embedded()",
        /// The parent embeds children that are not in their collection.
        NotStored =
            "it is unknown whether the embedded children were deleted from their collection: insert them, all by one call, or discard them by refresh(..)",
        /// Children have the same id.
        DuplicateChildId =
            "it is unknown which of the children with one id is the child: set other ids, or delete all but one of them",
    }
}
