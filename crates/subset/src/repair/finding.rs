//! Problems of stored parents and children.

use std::fmt;

use serde::Serialize;

/// A problem of a parent. Its `document_id` is the `_id` of the parent, or the value in the parent field of its children;
/// null for children without one. Its `fields` are those of the stale subsets, if a parent has
/// [several](crate::SubsetRepositoryBuilder::add_subset), and its `document_ids` are those of children with the same id.
pub type Finding = mongo_patterns_core::verify::Finding<Problem>;
/// The repair of a finding.
pub type Repaired = mongo_patterns_core::verify::Repaired<Problem, Unrepaired>;

/// A kind of problem. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "problem")]
#[non_exhaustive]
pub enum Problem {
    /// A subset is not the first of the parent's children, an embedded child differs from the stored one, or the
    /// [total](crate::SubsetRepositoryBuilder::total_field) or a [computed
    /// field](crate::SubsetRepositoryBuilder#computed-fields) is not that of the children.
    Stale,
    /// Children refer to a parent that does not exist.
    Orphaned {
        /// The number of these children.
        children: u64,
    },
    /// Children of one parent have the same id, or none: another program inserted them. Only found while the unique index
    /// does not exist, which they prevent.
    DuplicateChildId {
        /// The number of these children.
        children: u64,
    },
}

mongo_patterns_core::names!(Problem: Stale, Orphaned, DuplicateChildId);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => f.write_str(
                "the subset is not the first of the children, or the total or a computed field is not theirs: repair or rebuild the parent",
            ),
            Self::Orphaned { children } => {
                write!(
                    f,
                    "{children} children belong to a parent that does not exist: insert it, or delete them with delete_parent(..)"
                )
            }
            Self::DuplicateChildId { children } => write!(
                f,
                "{children} children of the parent have the same id, or none: set other ids, or delete all but one of them"
            ),
        }
    }
}

/// Why a finding was not repaired. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Unrepaired {
    /// The parent of the children does not exist.
    NoParent,
    /// No repository has written the parent, and it embeds children that are not in their collection.
    NotMigrated,
    /// Children have the same id.
    DuplicateChildId,
}

mongo_patterns_core::names!(Unrepaired: NoParent, NotMigrated, DuplicateChildId);

impl fmt::Display for Unrepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoParent => {
                "the parent of the children does not exist: insert it, or delete them with delete_parent(..)"
            }
            Self::DuplicateChildId => {
                "it is unknown which of the children with one id is the child: set other ids, or delete all but one of them"
            }
            Self::NotMigrated => {
                "the parent embeds children that are not in their collection: migrate them with migrate_from_embedded(), or discard them with rebuild(..).discard_embedded()"
            }
        })
    }
}
