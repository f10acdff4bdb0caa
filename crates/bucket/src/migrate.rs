//! Moves between a flat collection, one document an item, and buckets. The server does the work, and nothing passes
//! through the client.

pub(crate) mod check;
pub(crate) mod plan;
pub(crate) mod run;
mod walk;

pub use plan::MigrationPlan;

/// About how many items one command moves.
pub(crate) const CHUNK_ITEMS: u64 = 100_000;

/// What a move did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     flat: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moved = trades.migrate_from_flat(&flat).await?;
/// println!("{} items of {} keys in {} buckets", moved.items, moved.keys, moved.buckets);
/// if moved.resumed {
///     println!("an earlier call had begun it");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// How many keys were moved.
    pub keys: u64,
    /// How many items they have, as counted on both sides at the end.
    pub items: u64,
    /// How many buckets those are in.
    pub buckets: u64,
    /// Whether an earlier call had begun this move.
    pub resumed: bool,
}

/// How far a move is.
///
/// ```no_run
/// # use mongo_patterns_bucket::{BucketRepository, MigrationProgress};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     flat: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let report = |at: MigrationProgress| println!("{} of {}, {} by this call", at.done, at.total, at.done - at.before);
/// trades.migrate_from_flat(&flat).on_progress(report).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationProgress {
    /// How many items are moved, those of earlier calls included.
    pub done: u64,
    /// How many there are.
    pub total: u64,
    /// How many of them earlier calls had moved: what is needed to tell the rate of this one.
    pub before: u64,
}

/// Is called after each chunk.
pub(crate) type OnProgress<'a> = Box<dyn FnMut(MigrationProgress) + Send + 'a>;
