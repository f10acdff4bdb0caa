//! What the user chooses.

/// What reads see between the write of a child and that of its parent.
///
/// ```no_run
/// # use mongo_patterns_subset::{Consistency, Direction, SubsetRepository};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     product: Collection<Document>,
/// #     review: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let reviews = SubsetRepository::<Document, Document>::builder(product, review)
///     .subset_field("reviews")
///     .parent_field("product_id")
///     .child_id_field("review_id")
///     .order_by("published_date", Direction::Descending)
///     .consistency(Consistency::Eventual)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// Child and parent are written in one transaction: no read ever finds a subset that is not the first of the
    /// children. Needs a replica set or a sharded cluster.
    Transactional,
    /// The child is written first, and its parent after it: a read in between finds the subset of before. When the
    /// writers of a parent have returned, its subset is right. A process that dies in between leaves it as it was, until
    /// the next write to the parent, or [`repair`](crate::SubsetRepository::repair).
    Eventual,
}

/// The direction of a field in the order of the children.
///
/// ```no_run
/// # use mongo_patterns_subset::{Direction, SubsetRepository};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     product: Collection<Document>,
/// #     review: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let best_rated = SubsetRepository::<Document, Document>::builder(product, review)
///     .subset_field("reviews")
///     .parent_field("product_id")
///     .child_id_field("review_id")
///     .order_by("stars", Direction::Descending)
///     .order_by("published_date", Direction::Ascending)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest first, as `1` in a sort of MongoDB.
    Ascending,
    /// The greatest first, as `-1`.
    Descending,
}

impl Direction {
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}
