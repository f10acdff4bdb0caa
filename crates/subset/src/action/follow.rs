use std::fmt;
use std::future::Future;
use std::time::Duration;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};

use crate::SubsetRepository;
use crate::follow::follower::{Follower, Options};
use crate::follow::until::Until;
use crate::follow::{Followed, OnProgress};
use crate::repository::Shared;

/// For how long a follower that has an end tries to reach the server.
const PATIENCE_UNTIL_CAUGHT_UP: Duration = Duration::from_secs(30);

impl<P, C> SubsetRepository<P, C> {
    /// Keeps the subsets right while other programs write the children past the repository: it watches the collection of
    /// the children by a change stream, and refreshes the parents of what was inserted, changed, moved to another parent
    /// or deleted. It goes on for as long as it is awaited.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>, shutdown: tokio::sync::oneshot::Receiver<()>) {
    /// let follower = tokio::spawn(async move {
    ///     let follow = products.follow("reviews").enable_pre_images();
    ///     follow.until(async { drop(shutdown.await) }).await
    /// });
    /// # }
    /// ```
    ///
    /// The changes are taken as they come, and those of one parent that come together make one refresh. When a batch of
    /// them is done, its place is noted under the follower's name, in the collection `mongo_patterns_followers` of the
    /// database. The next follower of that name goes on there, whatever ended this one: nothing in between is missed,
    /// and what is done twice does no harm. So two followers may run at the same time, of one name or of two, beside
    /// any writers.
    ///
    /// When a follower starts for the first time, it makes [all subsets anew](Self::rebuild_all). It does so too when
    /// the server does not have all changes any more since it last ran, because the oplog does not reach back so far or
    /// what a deleted child was is gone; unless [`disable_rebuild`](Follow::disable_rebuild) is called.
    ///
    /// A broken connection, a failover or a server that is away for a time does not end it: it tries again, after
    /// pauses of up to ten seconds, until it succeeds, or for as long as [`max_retry_time`](Follow::max_retry_time) says.
    ///
    /// # What it needs
    /// A replica set or a sharded cluster of MongoDB 6.0 or newer, and
    /// [`changeStreamPreAndPostImages`](https://www.mongodb.com/docs/manual/changeStreams/#change-streams-with-document-pre--and-post-images)
    /// of the children's collection, which keep what a child was before it was changed or deleted. See
    /// [`enable_pre_images`](Follow::enable_pre_images). Besides reading and writing both collections, its user must be
    /// allowed to write `mongo_patterns_followers`.
    ///
    /// # What it does not do
    /// It watches the children alone. A parent that is inserted after its children gets its subset with the next change
    /// of one of them, or by [`rebuild`](Self::rebuild). A child whose parent field is missing, `null` or an array is of
    /// no parent.
    ///
    /// # Cost
    /// To start, five round trips, and for the first time four more and those of [`rebuild_all`](Self::rebuild_all). For a
    /// batch of up to 10,000 changes two, and for each parent in it those of [`rebuild`](Self::rebuild), four parents at a time. With
    /// nothing to do, one a second, and one write every ten seconds. Parents and places are written with the write
    /// concern `majority`. Of each change, its parent before and after travels.
    ///
    /// A parent whose embedded children are [not all moved](crate::SubsetRepository::migrate_from_embedded) is left as it is.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next follower of the name resumes at the position that was stored last. It misses nothing, and
    /// repeats some refreshes, which does no harm. Where no position was stored yet, it rebuilds all subsets again.
    /// [`until`](Follow::until) ends it without work to repeat.
    ///
    /// # Errors
    /// - [`Unsupported`](mongo_patterns_core::ErrorKind::Unsupported): a standalone, or older than MongoDB 6.0.
    /// - [`PreImagesDisabled`](mongo_patterns_core::ErrorKind::PreImagesDisabled), and
    ///   [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing).
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): the name is that of a follower of other
    ///   collections or fields.
    /// - [`HistoryLost`](mongo_patterns_core::ErrorKind::HistoryLost): the server does not have all changes any more, with
    ///   [`disable_rebuild`](Follow::disable_rebuild), or at once after all subsets were made anew.
    /// - [`CollectionDropped`](mongo_patterns_core::ErrorKind::CollectionDropped): the collection of the children was dropped or renamed. The
    ///   next follower of the name begins as for the first time.
    /// - Those of the driver that do not pass by themselves. Those that do, after
    ///   [`max_retry_time`](Follow::max_retry_time), with how often and how long it was tried.
    ///
    /// After each of them it can be called again, and goes on where it was.
    pub fn follow(&self, name: impl Into<String>) -> Follow<'_> {
        Follow {
            shared: self.shared(),
            name: name.into(),
            enable_pre_images: false,
            rebuild: true,
            run_until_current: false,
            max_retry_time: None,
            until: Until::never(),
            on_progress: None,
        }
    }
}

/// Keeps the subsets right while others write the children; made by [`SubsetRepository::follow`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # use std::time::Duration;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// // A job that runs now and then, in place of a task that ends with the service.
/// let follow = products.follow("reviews").enable_pre_images().disable_rebuild().run_until_current();
/// let follow = follow.max_retry_time(Duration::from_secs(600));
/// follow.on_progress(|at| println!("{} changes, up to {:?}", at.changes, at.up_to)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Follow<'a> {
    shared: &'a Shared,
    name: String,
    enable_pre_images: bool,
    rebuild: bool,
    run_until_current: bool,
    max_retry_time: Option<Duration>,
    until: Until<'a>,
    on_progress: Option<OnProgress<'a>>,
}

impl<'a> Follow<'a> {
    /// Ends when this is ready, such as a signal to shut down. The batch that is under way is finished and its place is
    /// noted first; what is waited for is left.
    pub fn until(mut self, end: impl Future<Output = ()> + Send + 'a) -> Self {
        self.until = Until::new(end);
        self
    }

    /// Ends when the subsets have all changes that were acknowledged before this was awaited: for a job that runs now
    /// and then, or a test.
    pub fn run_until_current(mut self) -> Self {
        self.run_until_current = true;
        self
    }

    /// Switches pre-images of the children's collection on where they are off. The server then keeps what each child was
    /// before it was changed or deleted, for as long as its oplog goes back, or its cluster parameter
    /// `changeStreamOptions` says. Its user must be allowed to call `collMod`.
    pub fn enable_pre_images(mut self) -> Self {
        self.enable_pre_images = true;
        self
    }

    /// Never makes all subsets anew by itself: at the first start only later changes are followed, and when changes are
    /// lost it ends with [`HistoryLost`](mongo_patterns_core::ErrorKind::HistoryLost). For when
    /// [`rebuild_all`](SubsetRepository::rebuild_all) takes too long to come unasked.
    pub fn disable_rebuild(mut self) -> Self {
        self.rebuild = false;
        self
    }

    /// For how long it tries when the server cannot be reached, or another error that passes goes on. By default for
    /// ever, and 30 seconds with [`run_until_current`](Self::run_until_current). The driver's own patience comes first, such
    /// as its `serverSelectionTimeoutMS`.
    pub fn max_retry_time(mut self, time: Duration) -> Self {
        self.max_retry_time = Some(time);
        self
    }

    /// Is called when the follower has come further: after each batch, and about each second while there is nothing to
    /// do.
    pub fn on_progress(mut self, call: impl FnMut(Followed) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }
}

impl<'a> IntoFuture for Follow<'a> {
    type Output = Result<Followed>;
    type IntoFuture = ActionFuture<'a, Followed>;

    fn into_future(self) -> Self::IntoFuture {
        let end = self.run_until_current.then_some(PATIENCE_UNTIL_CAUGHT_UP);
        let options = Options {
            enable_pre_images: self.enable_pre_images,
            rebuild: self.rebuild,
            run_until_current: self.run_until_current,
            max_retry_time: self.max_retry_time.or(end),
        };
        run(self.shared.operation("follow"), move |_| {
            Follower::new(self.shared, self.name, options, self.until, self.on_progress).run()
        })
    }
}

impl fmt::Debug for Follow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("shared", self.shared)
            .field("name", &self.name)
            .field("enable_pre_images", &self.enable_pre_images)
            .field("rebuild", &self.rebuild)
            .field("run_until_current", &self.run_until_current)
            .field("max_retry_time", &self.max_retry_time)
            .finish_non_exhaustive()
    }
}
