#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{CollectionDropped, Corrupt, HistoryLost, InvalidArgument, TooLarge, Unsupported};
use mongo_patterns_core::follow::{FollowOptions, Followed};
use mongo_patterns_core::{Result, action};

use crate::follow::collections::Collections;
use crate::repository::{ReferenceRepository, Shared};
use crate::results::OnReferences;

impl<D, S> ReferenceRepository<D, S> {
    /// Follows the changes that other programs make to the sources and to the referring documents, and updates the copies.
    ///
    /// Run it only if other programs write them, or to complete calls of processes that died. It watches all collections of
    /// the repository by one change stream, until it is dropped or an option ends it.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # async fn f(orders: ReferenceRepository<i32, i32>, shutdown: tokio::sync::oneshot::Receiver<()>) {
    /// let follower = tokio::spawn(async move {
    ///     orders.follow("orders").until(async { drop(shutdown.await) }).await
    /// });
    /// # }
    /// ```
    ///
    /// | change | effect |
    /// |---|---|
    /// | a source is updated without its version, or replaced | its version is raised, and all copies are updated, if a copy differs |
    /// | the version of a source is changed | older copies are updated: the rest of an [`update_source`](Self::update_source) that died |
    /// | a source is inserted | copies that an earlier source of this `_id` left are updated |
    /// | a source is deleted | none, unless you [say what to do](Follow::on_missing) |
    /// | a document is inserted, replaced, or its references are updated | missing, outdated and different copies are updated |
    ///
    /// If a [history](crate::ReferenceRepositoryBuilder::version_field) writes the version of the sources, only the follower
    /// of the history raises it, after a write of another program. That change updates the copies.
    ///
    /// Other changes have no effect, nor have values that are not references, such as an id alone. Snapshots stay as they
    /// are. A source whose version is not an integer is left alone until it is corrected.
    ///
    /// After each batch of changes, the follower stores its position under its name, in the collection `mongo_patterns` of
    /// the database. The next follower of that name resumes there, after any interruption.
    ///
    /// A follower [repairs](Self::repair) all references when it starts for the first time, and when the server no longer
    /// has all changes since its last run. [`disable_repair`](Follow::disable_repair) disables both.
    ///
    /// While the server is down or fails over, it retries with a backoff of up to ten seconds, for up to
    /// [`max_retry_time`](Follow::max_retry_time) if that is set.
    ///
    /// # Guarantees
    /// When the follower has reached a time, every copy is current whose document and source were written before it. A copy
    /// never goes back to an older version. This holds for any number of followers and of concurrent writers.
    ///
    /// Other programs may write everything, also the version. One order of updates deceives the follower: a lower version,
    /// and then increments up to the version of existing copies, before the follower has seen the first.
    /// [`repair`](Self::repair) finds these copies.
    ///
    /// Not guaranteed: a source that is deleted while a program inserts a reference to it. The follower does what
    /// [`on_missing`](Follow::on_missing) says.
    ///
    /// # Requirements
    /// - A replica set or a sharded cluster.
    /// - Besides reading and writing the collections, its user must be allowed to watch the database, by `changeStream` and
    ///   `find` on all of its collections, and to write `mongo_patterns`. The role `readWrite` allows it.
    ///
    /// # Cost
    /// Two round trips for a batch of up to 10,000 changes, and two for each 500 changed documents. One for each source with
    /// copies to update: a rename with 100,000 copies takes about 450. For each changed source two for each reference, or
    /// three more if its version was not changed.
    ///
    /// At the start about four, and for the first time a [`repair`](Self::repair). Without changes one a second. It writes
    /// with the write concern `majority`.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next follower of the name resumes at the stored position. It misses nothing, and compares some
    /// copies again. [`until`](Follow::until) ends it without work to repeat.
    ///
    /// # Errors
    /// After each of them, another call resumes.
    ///
    /// - [`Unsupported`]: the server is a standalone.
    /// - [`InvalidArgument`]: a follower of this name has other collections or fields.
    /// - [`HistoryLost`]: the server no longer has all changes, with [`disable_repair`](Follow::disable_repair), or directly
    ///   after a repair of all references.
    /// - [`CollectionDropped`]: a collection of the repository was dropped or renamed. The next follower of the name starts
    ///   from the beginning.
    /// - [`TooLarge`]: with a copy, a document would exceed 16 MiB. `document_id()` is the source.
    /// - [`Corrupt`]: the version of a source is not an integer, in a repair of all references.
    /// - Transient errors of the driver only after [`max_retry_time`](Follow::max_retry_time), with the number and the time
    ///   of the attempts.
    pub fn follow(&self, name: impl Into<String>) -> Follow<'_> {
        Follow {
            shared: self.shared(),
            options: FollowOptions::new(name),
            on_missing: OnReferences::Restrict,
        }
    }
}

action! {
    /// Follows the changes of other programs; returned by [`ReferenceRepository::follow`].
    pub struct Follow<'a> {
        shared: &'a Shared,
        options: FollowOptions<'a>,
        on_missing: OnReferences,
    }

    /// Sets what happens to references whose source was deleted, or does not exist: the copies are
    /// [kept](OnReferences::KeepCopy) with `deleted: true`, or the references [cleared](OnReferences::Clear). By default
    /// ([`Restrict`](OnReferences::Restrict)) they stay, and [`verify`](ReferenceRepository::verify) finds them.
    ///
    /// With `Clear`, other programs must insert a source before the documents that refer to it. A kept copy is current again
    /// when its source is inserted.
    on_missing(rule: OnReferences) => on_missing = rule;

    "follow" => Followed
}

mongo_patterns_core::follow_options!(Follow<'a>);

impl Follow<'_> {
    async fn execute(self) -> Result<Followed> {
        self.options
            .run(Box::new(Collections::new(self.shared, self.on_missing)))
            .await
    }
}
