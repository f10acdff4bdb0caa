//! What can be wrong with stored parents and children.

use std::fmt;

use mongodb::bson::Bson;

/// Something that is wrong with a parent; from [`verify`](crate::SubsetRepository::verify).
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = products.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     println!("{}: {}", finding.parent_id, finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The `_id` of the parent, or what children name as such; `null` for children that name none. It is a user value:
    /// take care where you log it.
    pub parent_id: Bson,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_subset::{Problem, SubsetRepository};
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = products.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     if let Problem::Orphaned { children } = finding.problem {
///         println!("{children} reviews of no product");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The subset is not the first of the parent's children, a child in it is not as it is stored, or the
    /// [total](crate::SubsetRepositoryBuilder::total_field) is not their number.
    Stale,
    /// There are children of a parent that does not exist.
    Orphaned {
        /// How many.
        children: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => f.write_str(
                "the subset is not the first of the children, or the total not their number: repair or rebuild it",
            ),
            Self::Orphaned { children } => {
                write!(
                    f,
                    "{children} children belong to a parent that does not exist: insert it, or delete them with delete_parent(..)"
                )
            }
        }
    }
}
