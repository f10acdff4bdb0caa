//! Follows the changes of the children that other programs make, and keeps the subsets of their parents right.

pub(crate) mod backoff;
pub(crate) mod change;
pub(crate) mod follower;
pub(crate) mod position;
pub(crate) mod record;
pub(crate) mod setup;
pub(crate) mod until;

use mongodb::bson::Timestamp;

/// What a follower has done since it was called.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let followed = products.follow("reviews").run_until_current().await?;
/// println!("{} changes, {} refreshes", followed.changes, followed.refreshed);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Followed {
    /// How many changes of children it has seen and is done with.
    pub changes: u64,
    /// How many times a parent's subset was made anew because of them. Changes of one parent that come together count
    /// once.
    pub refreshed: u64,
    /// How many times all subsets were made anew: at the first start, and where changes could not be known.
    pub rebuilt: u64,
    /// The subsets have all changes of children up to and including this time of the cluster. `time` is in seconds since
    /// 1970; the difference to the clock is how far the follower lags behind, within about a second. `None` before it
    /// has begun.
    pub up_to: Option<Timestamp>,
}

/// Is called when a follower has come further.
pub(crate) type OnProgress<'a> = Box<dyn FnMut(Followed) + Send + 'a>;
