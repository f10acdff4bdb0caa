#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    CollectionDropped, DuplicateKey, HistoryLost, InvalidArgument, PreImagesDisabled, Unsupported,
};
use mongo_patterns_core::follow::{FollowOptions, Followed};
use mongo_patterns_core::{Result, action};

use crate::follow::documents::Documents;
use crate::repository::{HistoryRepository, Shared};

impl<D> HistoryRepository<D> {
    /// Follows the writes of other programs to the current documents, and stores them as revisions.
    ///
    /// Run it only if other programs write the current documents. It watches their collection by a change stream, until it
    /// is dropped or an option ends it.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # async fn f(policies: HistoryRepository<i32>, shutdown: tokio::sync::oneshot::Receiver<()>) {
    /// let follower = tokio::spawn(async move {
    ///     let follow = policies.follow("policies").enable_pre_images();
    ///     follow.until(async { drop(shutdown.await) }).await
    /// });
    /// # }
    /// ```
    ///
    /// | write of another program | revision |
    /// |---|---|
    /// | an update or a replacement | the document after it, with the next number |
    /// | an insert | revision 1, or the next one after the last, whatever number the document has |
    /// | a deletion | the next one, with `deleted: true` |
    /// | a change of the id field | those of a deletion and an insert |
    /// | a change of fields that another repository [owns](mongo_patterns_core::catalog#owners) | none: the next revision has them |
    ///
    /// The follower also sets the number and the time in the current document. The time of the revision is the time of the
    /// write, or 1 ms after the previous revision. So [`as_of`](Self::as_of) of a time that the follower has not
    /// [reached](Followed::up_to) can change. Writes of a repository have no second revision.
    ///
    /// After each batch of changes, the follower stores its position under its name, in the collection `mongo_patterns` of
    /// the database. The next follower of that name resumes there, after any interruption.
    ///
    /// A follower repairs all documents when it starts for the first time, and when the server no longer has all changes
    /// since its last run. It stores what [`repair`](Self::repair) stores, documents without a number as their next
    /// revision, and missing documents as deletions. [`disable_repair`](Follow::disable_repair) disables both.
    ///
    /// While the server is down or fails over, it retries with a backoff of up to ten seconds, for up to
    /// [`max_retry_time`](Follow::max_retry_time) if that is set.
    ///
    /// # Guarantees
    /// When the follower has reached a time, the result of every write up to it is in a revision, and in no second one. The
    /// numbers have no gap and no duplicate, for any number of followers and concurrent repositories.
    ///
    /// Each write of another program has a revision of its own, except in these cases, in which the next revision contains
    /// the results of several writes:
    ///
    /// - A repository writes the document before the follower has stored the revision.
    /// - The follower is stopped or fails while the document is written, or the server no longer has all changes.
    /// - Several followers run concurrently. Run one, and start the next when it ends.
    ///
    /// Not followed: a program that increments the number itself, as MongoDB's manual does. It stores the revision itself,
    /// and [`repair`](Self::repair) stores one that is missing. Changes of the collection of the revisions have no effect.
    ///
    /// # Requirements
    /// - A replica set or a sharded cluster.
    /// - Pre-images of the collection of the current documents: see
    ///   [`enable_pre_images`](Follow::enable_pre_images) and the [manual][pre-images].
    /// - Besides reading and writing both collections, its user must be allowed to write `mongo_patterns`.
    /// - The two images of a change are at most 16 MB together, the limit of MongoDB for an event of a change stream.
    ///
    /// # Cost
    /// Two round trips for a batch of up to 10,000 changes, and a transaction of five for each document in it that another
    /// program wrote, of four documents concurrently. One to four for an insert by a repository, and none for its other
    /// writes. At the start five, and for the first time a [`repair`](Self::repair). Without changes one a second. It writes
    /// with the write concern `majority`.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next follower of the name resumes at the stored position. It misses no result, and stores nothing
    /// twice. [`until`](Follow::until) ends it without work to repeat.
    ///
    /// # Errors
    /// After each of them, another call resumes.
    ///
    /// - [`Unsupported`]: the server is a standalone.
    /// - [`PreImagesDisabled`]: see the requirements.
    /// - [`InvalidArgument`]: a follower of this name has other collections or fields.
    /// - [`HistoryLost`]: the server no longer has all changes, with [`disable_repair`](Follow::disable_repair), or directly
    ///   after a repair of all documents.
    /// - [`CollectionDropped`]: the collection of the current documents was dropped or renamed. The next follower of the
    ///   name starts from the beginning.
    /// - [`DuplicateKey`]: a unique index of the application on the revisions refuses a copy.
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
    /// Follows the writes of other programs; returned by [`HistoryRepository::follow`].
    pub struct Follow<'a> {
        shared: &'a Shared,
        options: FollowOptions<'a>,
    }

    /// Enables pre-images of the collection of the current documents if they are disabled. The server then keeps the
    /// previous version of each changed or deleted document as long as its oplog, or as its cluster parameter
    /// `changeStreamOptions` says. The user must be allowed to run `collMod`.
    enable_pre_images() => options.enable_pre_images = true;

    "follow" => Followed
}

mongo_patterns_core::follow_options!(Follow<'a>);

impl Follow<'_> {
    async fn execute(self) -> Result<Followed> {
        self.options.run(Box::new(Documents::new(self.shared))).await
    }
}
