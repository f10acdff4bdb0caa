//! The findings of a verify, and what a repair did about them.

/// A problem of a stored document, in the main documents or the overflow documents. Its `related_id` is the `_id` of the
/// main document.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of one list. Its `written` counts overflow documents, and the main document if it was changed.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

mongo_patterns_core::problems! {
    /// A problem of a stored document. Its text says what to do, and has no user values.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The array has more elements than the threshold.
        OverThreshold {
            /// The number of elements.
            elements: u64,
        } = "the array has {elements} elements, more than the threshold: repair it",
        /// The array field of the main document is not an array. A missing one is an empty array.
        ArrayNotArray = "the array field is not an array: correct it by hand",
        /// The array field of the main document is null. Calls read it as an empty array, but a document type with a list
        /// cannot decode it. [`repair`](crate::OutlierRepository::repair) sets an empty array.
        ArrayNull = "the array field is null, which does not decode as a list: repair it",
        /// Elements are unique, and some are equal to an earlier one of the list.
        /// [`repair`](crate::OutlierRepository::repair) keeps the first.
        DuplicateElements {
            /// The number of elements that are equal to an earlier one.
            elements: u64,
        } = "{elements} elements are equal to an earlier one of the list, and elements are unique: repair it",
        /// The flag is not a boolean. Only `true` counts as a flag.
        FlagNotBoolean = "the flag is not a boolean: repair it",
        /// The flag is set, and there are no overflow documents. Reads are correct.
        FlagWithoutOverflow = "the flag is set, and there are no overflow documents: repair it",
        /// There are overflow documents, and the flag is not set. Their elements are not read.
        OverflowWithoutFlag {
            /// The number of overflow documents.
            documents: u64,
        } = "there are {documents} overflow documents and no flag, so their elements are not read: repair it",
        /// The overflow document belongs to no main document.
        Orphaned =
            "the overflow document belongs to no main document: insert that again without its array, or repair with delete_orphans()",
        /// The position of the overflow document is missing, or not an integer from 0. The manual's form has none.
        PositionMissing = "the position of the overflow document is missing or not an integer from 0: repair it",
        /// Another overflow document of the same main document has the same position.
        DuplicatePosition = "another overflow document has the same position: repair it",
        /// There are no overflow documents at the positions before this one. Another program deleted a document, or a push
        /// coincided with a refresh, which loses no element.
        Gap {
            /// The number of empty positions.
            positions: u64,
        } = "there are no overflow documents at the {positions} positions before this one: repair it",
        /// The count of the overflow document is not the number of its elements. The manual's form has no count.
        Count {
            /// The count; `None` when it is missing, or not an integer.
            count: Option<i64>,
            /// The number of elements.
            elements: u64,
        } = "the count is not {elements}, the number of elements: repair it",
        /// The overflow document has more elements than its bound.
        TooManyElements {
            /// The number of elements.
            elements: u64,
        } = "the overflow document has {elements} elements, more than its bound: repair it",
        /// The elements of the overflow document are not an array. A missing field is an empty array.
        ElementsNotArray = "the elements are not an array: correct them by hand",
    }
}

impl Problem {
    /// Returns whether it must be corrected by hand, before a repair can rewrite anything of the list.
    pub(crate) fn needs_hand(&self) -> bool {
        matches!(self, Self::ArrayNotArray | Self::ElementsNotArray)
    }
}

mongo_patterns_core::problems! {
    /// Why a repair left something unchanged. Its text says what to do, and has no user values.
    pub enum Unrepaired {
        /// The overflow documents belong to no main document. They were not deleted, since they have elements.
        Orphaned =
            "overflow documents belong to no main document: delete them with delete_orphans(), or insert that again without its array, and repair it",
        /// The array field of the main document is not an array. Nothing of the list was changed.
        ArrayNotArray = "the array field is not an array: correct it by hand",
        /// The elements of an overflow document are not an array. Nothing of the list was changed.
        ElementsNotArray = "the elements of an overflow document are not an array: correct them by hand",
        /// A repair would delete an overflow document with fields of your own. Nothing of the list was changed.
        OwnFields =
            "an overflow document that would be deleted has fields of your own: move them to another document of the list, or remove them",
        /// An overflow document would exceed 16 MiB. Nothing of the list was changed.
        TooLarge = "an overflow document would exceed 16 MiB: move fields of your own out of it",
    }
}
