//! Problems of stored parents and children.

use std::fmt;

use mongo_patterns_core::index::Duplicates;
use mongodb::bson::Bson;

/// A problem of a parent, from [`verify`](crate::SubsetRepository::verify).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The `_id` of the parent, or the value in the parent field of its children; `null` for children without one. It
    /// is a user value: take care where you log it.
    pub parent_id: Bson,
    /// The problem.
    pub problem: Problem,
    /// The fields of the stale subsets, if a parent has [several](crate::SubsetRepositoryBuilder::add_subset). Empty if it
    /// has one, or if only the total or computed fields are wrong.
    pub stale_subsets: Vec<String>,
    /// The `_id`s of the children with the same id, up to 100 of them; empty for other problems. They are user values.
    pub document_ids: Vec<Bson>,
}

/// A kind of problem. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Finding {
    /// Creates the finding of children with the same parent and id.
    pub(crate) fn of_duplicates(found: Duplicates) -> Self {
        let children = found.documents;
        Self {
            parent_id: found.values.into_iter().next().unwrap_or(Bson::Null),
            problem: Problem::DuplicateChildId { children },
            stale_subsets: Vec::new(),
            document_ids: found.ids,
        }
    }
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

/// The repair of a finding.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Repaired {
    /// The problem that was repaired, or would be.
    pub finding: Finding,
    /// Why the parent was not repaired; `None` if it was.
    pub unrepaired: Option<Unrepaired>,
}

/// Why a finding was not repaired. Its text says what to do, and contains no user value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
