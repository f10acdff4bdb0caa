//! The follower.

use mongo_patterns_core::follow::{FollowOptions, Followed};
#[allow(unused_imports)] // the links of the documentation use the kinds
use mongo_patterns_core::{ErrorKind::*, Result, action};

use crate::follow::Children;
use crate::repository::{Shared, SubsetRepository};

impl<P, C> SubsetRepository<P, C> {
    /// Follows the changes that other programs make to the children, and refreshes the subsets of their parents.
    ///
    /// Run it only if other programs write children. It watches the collection of the children by a change stream, until it
    /// is dropped or an option ends it.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>, shutdown: tokio::sync::oneshot::Receiver<()>) {
    /// let follower = tokio::spawn(async move {
    ///     let follow = products.follow("reviews").enable_pre_images();
    ///     follow.until(async { drop(shutdown.await) }).await
    /// });
    /// # }
    /// ```
    ///
    /// After each batch, the follower stores its position under its name, in the collection `mongo_patterns` of the
    /// database. The next follower of that name resumes there, after any interruption: it misses no change, and repeated
    /// refreshes do no harm. So several followers can run concurrently with each other and with all writers.
    ///
    /// A follower [refreshes all subsets](Self::refresh_all) when it starts for the first time, and when the server no
    /// longer has all changes since its last run. [`disable_repair`](Follow::disable_repair) disables both.
    ///
    /// While the server is down or fails over, it retries with a backoff of up to ten seconds, for up to
    /// [`max_retry_time`](Follow::max_retry_time) if that is set.
    ///
    /// # Requirements
    /// - A replica set or a sharded cluster.
    /// - Pre-images of the children's collection, which tell the parent of a deleted or moved child: see
    ///   [`enable_pre_images`](Follow::enable_pre_images) and the [manual][pre-images].
    /// - Besides reading and writing both collections, its user must be allowed to write `mongo_patterns`.
    ///
    /// # Limitations
    /// A parent that is inserted after its children gets its subset with the next change of a child, or by
    /// [`refresh`](Self::refresh). A child whose parent field is missing, `null` or an array belongs to no parent. A parent
    /// whose embedded children are [not migrated](Self::migrate_from_embedded) stays unchanged.
    ///
    /// # Cost
    /// Two round trips for a batch of up to 10,000 changes, and a [`refresh`](Self::refresh) for each parent in the batch,
    /// of four parents concurrently. At the start five, and for the first time a [`refresh_all`](Self::refresh_all). Without
    /// changes one a second. It writes with the write concern `majority`.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next follower of the name resumes at the stored position. It misses nothing, and repeats some
    /// refreshes, which does no harm. [`until`](Follow::until) ends it without work to repeat.
    ///
    /// # Errors
    /// After each of them, another call resumes.
    ///
    /// - [`Unsupported`]: the server is a standalone.
    /// - [`PreImagesDisabled`]: see the requirements.
    /// - [`InvalidArgument`]: a follower of this name has other collections or fields.
    /// - [`HistoryLost`]: the server no longer has all changes, with [`disable_repair`](Follow::disable_repair), or directly
    ///   after a refresh of all subsets.
    /// - [`CollectionDropped`]: the collection of the children was dropped or renamed. The next follower of the name starts
    ///   from the beginning.
    /// - Transient errors of the driver only after [`max_retry_time`](Follow::max_retry_time), with the number and the time
    ///   of the attempts.
    ///
    /// [pre-images]: https://www.mongodb.com/docs/manual/changeStreams/#change-streams-with-document-pre--and-post-images
    pub fn follow(&self, name: impl Into<String>) -> Follow<'_> {
        Follow {
            shared: self.shared(),
            options: FollowOptions::new(name),
        }
    }
}

action! {
    /// Follows the changes of other programs; returned by [`SubsetRepository::follow`].
    pub struct Follow<'a> {
        shared: &'a Shared,
        options: FollowOptions<'a>,
    }

    /// Enables pre-images of the children's collection if they are disabled. The server then keeps the previous version of
    /// each changed or deleted child as long as its oplog, or as its cluster parameter `changeStreamOptions` says. The user
    /// must be allowed to run `collMod`.
    enable_pre_images() => options.enable_pre_images = true;

    "follow" => Followed
}

mongo_patterns_core::follow_options!(Follow<'a>);

impl Follow<'_> {
    async fn execute(self) -> Result<Followed> {
        self.options.run(Box::new(Children::new(self.shared))).await
    }
}
