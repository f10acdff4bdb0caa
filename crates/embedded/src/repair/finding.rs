//! The problems of stored parents.

use mongodb::bson::RawDocument;

/// A problem of a stored parent, or of a document that refers to no parent. Its `related_id` is the value of that reference.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;

mongo_patterns_core::problems! {
    /// A kind of problem. Its text says what to do, and contains no user value.
    #[serde(tag = "problem")]
    pub enum Problem {
        /// The array is missing. Calls treat it as an empty one.
        ChildrenMissing = "the array of children is missing: set an empty one",
        /// The children are not an array.
        ChildrenNotArray = "the children are not an array: correct the document by hand",
        /// The parent has more children than it may.
        TooManyChildren {
            /// The number of children.
            children: u64,
        } = "the parent has {children} children, more than it may: remove some, or raise the bound",
        /// Children are not documents.
        ChildNotDocument {
            /// The number of children.
            children: u64,
        } = "{children} children are not documents: correct them by hand",
        /// Children have no id, or one of an invalid type.
        ChildIdMissing {
            /// The number of children.
            children: u64,
        } = "{children} children have no valid id: set one by hand",
        /// Children have the id of another child before them.
        DuplicateChildId {
            /// The number of children.
            children: u64,
        } = "{children} children have the id of another child: set another id by hand",
        /// A document of another collection refers to no parent. Only [`orphans`](crate::EmbeddedRepository::orphans) finds it.
        Orphan = "the document refers to no parent: insert the parent, or correct or delete the document",
    }
}

impl Problem {
    /// Converts a row of [`query::faults`](crate::query::faults).
    pub(crate) fn of_row(row: &RawDocument, max_children: u32) -> Vec<Self> {
        let number = |field: &str| u64::try_from(row.get_i32(field).unwrap_or(0)).unwrap_or(0);
        match row.get_str("type").unwrap_or_default() {
            "missing" => vec![Self::ChildrenMissing],
            "array" => {
                let (children, documents) = (number("size"), number("documents"));
                let (with_id, different) = (number("withId"), number("different"));
                let some = |of: u64, well: u64, problem: fn(u64) -> Self| {
                    let wrong = of.saturating_sub(well);
                    (wrong > 0).then(|| problem(wrong))
                };
                let over = (children > u64::from(max_children)).then_some(Self::TooManyChildren { children });
                [
                    over,
                    some(children, documents, |children| Self::ChildNotDocument { children }),
                    some(documents, with_id, |children| Self::ChildIdMissing { children }),
                    some(with_id, different, |children| Self::DuplicateChildId { children }),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
            _ => vec![Self::ChildrenNotArray],
        }
    }
}
