//! Moves into the form of the pattern, and from one form to another. The server does the work, and nothing but the ids
//! of parents passes through the client.

pub(crate) mod check;
pub(crate) mod from_embedded;

pub(crate) mod plan;

/// About how many children, or how many parents, one command moves.
pub(crate) const CHUNK: u64 = 100_000;

/// What a move did.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let moved = products.migrate_from_embedded().await?;
/// println!("{} reviews of {} products", moved.children, moved.parents);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// How many parents had children embedded that were moved, in this call.
    pub parents: u64,
    /// How many children they had.
    pub children: u64,
    /// Whether an earlier call had begun this move.
    pub resumed: bool,
}
