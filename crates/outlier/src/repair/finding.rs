//! The findings of a verify, and what a repair did about them.

use std::fmt;

use serde::Serialize;

/// A problem of a stored document. Its `namespace` is that of the main documents or of the overflow documents, and its
/// `related_id` the `_id` of the main document; for a main document, its own.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of one list. Its `written` counts overflow documents, and the main document if it was changed.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

/// A problem of a stored document. Its text says what to do, and has no user values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "problem")]
#[non_exhaustive]
pub enum Problem {
    /// The array has more elements than the threshold.
    OverThreshold {
        /// The number of elements.
        elements: u64,
    },
    /// The array field of the main document is not an array. A missing one is an empty array.
    ArrayNotArray,
    /// The array field of the main document is null. Calls read it as an empty array, but a document type with a list
    /// cannot decode it. [`repair`](crate::OutlierRepository::repair) sets an empty array.
    ArrayNull,
    /// Elements are unique, and some are equal to an earlier one of the same list, in the array or in overflow
    /// documents. [`repair`](crate::OutlierRepository::repair) keeps the first of them.
    DuplicateElements {
        /// The number of elements that are equal to an earlier one.
        elements: u64,
    },
    /// The flag is not a boolean. Only `true` counts as a flag.
    FlagNotBoolean,
    /// The flag is set, and there are no overflow documents. Reads are correct.
    FlagWithoutOverflow,
    /// There are overflow documents, and the flag is not set. Their elements are not read.
    OverflowWithoutFlag {
        /// The number of overflow documents.
        documents: u64,
    },
    /// The overflow document belongs to no main document.
    Orphaned,
    /// The position of the overflow document is missing, or not an integer from 0. The manual's form has none.
    PositionMissing,
    /// Another overflow document of the same main document has the same position.
    DuplicatePosition,
    /// There are no overflow documents at the positions before this one. Another program deleted a document, or a push
    /// of another process coincided with a rebalance, which loses no element.
    Gap {
        /// The number of empty positions.
        positions: u64,
    },
    /// The count of the overflow document is not the number of its elements. The manual's form has no count.
    Count {
        /// The count; `None` when it is missing, or not an integer.
        count: Option<i64>,
        /// The number of elements.
        elements: u64,
    },
    /// The overflow document has more elements than its bound.
    TooManyElements {
        /// The number of elements.
        elements: u64,
    },
    /// The elements of the overflow document are not an array. A missing field is an empty array.
    ElementsNotArray,
}

impl Problem {
    /// Returns whether it must be corrected by hand, before a repair can rewrite anything of the list.
    pub(crate) fn needs_hand(&self) -> bool {
        matches!(self, Self::ArrayNotArray | Self::ElementsNotArray)
    }
}

mongo_patterns_core::names! {
    Problem:
    OverThreshold,
    ArrayNotArray,
    ArrayNull,
    DuplicateElements,
    FlagNotBoolean,
    FlagWithoutOverflow,
    OverflowWithoutFlag,
    Orphaned,
    PositionMissing,
    DuplicatePosition,
    Gap,
    Count,
    TooManyElements,
    ElementsNotArray,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverThreshold { elements } => {
                write!(f, "the array has {elements} elements, more than the threshold: repair it")
            }
            Self::ArrayNotArray => f.write_str("the array field is not an array: correct it by hand"),
            Self::ArrayNull => f.write_str("the array field is null, which does not decode as a list: repair it"),
            Self::DuplicateElements { elements } => write!(
                f,
                "{elements} elements are equal to an earlier one of the list, and elements are unique: repair it"
            ),
            Self::FlagNotBoolean => f.write_str("the flag is not a boolean: repair it"),
            Self::FlagWithoutOverflow => {
                f.write_str("the flag is set, and there are no overflow documents: repair it")
            }
            Self::OverflowWithoutFlag { documents } => write!(
                f,
                "there are {documents} overflow documents and no flag, so their elements are not read: repair it"
            ),
            Self::Orphaned => f.write_str(
                "the overflow document belongs to no main document: insert that again without its array, or repair with delete_orphans()",
            ),
            Self::PositionMissing => {
                f.write_str("the position of the overflow document is missing or not an integer from 0: repair it")
            }
            Self::DuplicatePosition => f.write_str("another overflow document has the same position: repair it"),
            Self::Gap { positions } => {
                write!(f, "there are no overflow documents at the {positions} positions before this one: repair it")
            }
            Self::Count {
                count: Some(count),
                elements,
            } => write!(f, "the count is {count}, and there are {elements} elements: repair it"),
            Self::Count { count: None, elements } => {
                write!(f, "the count is missing or not an integer, and there are {elements} elements: repair it")
            }
            Self::TooManyElements { elements } => {
                write!(f, "the overflow document has {elements} elements, more than its bound: repair it")
            }
            Self::ElementsNotArray => f.write_str("the elements are not an array: correct them by hand"),
        }
    }
}

/// Why a repair left something unchanged. Its text says what to do, and has no user values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Unrepaired {
    /// The overflow documents belong to no main document. They were not deleted, since they have elements.
    Orphaned,
    /// The array field of the main document is not an array. Nothing of the list was changed.
    ArrayNotArray,
    /// The elements of an overflow document are not an array. Nothing of the list was changed.
    ElementsNotArray,
    /// A repair would delete an overflow document with fields of your own. Nothing of the list was changed.
    OwnFields,
    /// An overflow document would exceed 16 MiB. Nothing of the list was changed.
    TooLarge,
}

mongo_patterns_core::names! {
    Unrepaired:
    Orphaned,
    ArrayNotArray,
    ElementsNotArray,
    OwnFields,
    TooLarge,
}

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Orphaned => {
                "overflow documents belong to no main document: delete them with delete_orphans(), or insert that again without its array, and repair it"
            }
            Self::ArrayNotArray => "the array field is not an array: correct it by hand",
            Self::ElementsNotArray => "the elements of an overflow document are not an array: correct them by hand",
            Self::OwnFields => {
                "an overflow document that would be deleted has fields of your own: move them to another document of the list, or remove them"
            }
            Self::TooLarge => "an overflow document would exceed 16 MiB: move fields of your own out of it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_to_do() {
        let count = Problem::Count {
            count: None,
            elements: 4,
        };
        assert_eq!(
            count.to_string(),
            "the count is missing or not an integer, and there are 4 elements: repair it"
        );
        let over = Problem::OverThreshold { elements: 51 };
        assert_eq!(
            over.to_string(),
            "the array has 51 elements, more than the threshold: repair it"
        );
    }
}
