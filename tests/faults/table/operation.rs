//! What an operation is, and what a pattern tells of itself to be checked.

use std::fmt::Debug;

use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::doc;
use mongodb::{Collection, Database, bson::Document};

use crate::common::support::all;

/// The documents of a pattern, and what is to be seen in them. One value is a process with a repository of its own.
pub(super) trait Model: Sized {
    const PATTERN: &'static str;
    /// All that its operations write to.
    const COLLECTIONS: &'static [&'static str];

    /// Repositories over collections of one of the database's two clients. What other writers or broken connections make
    /// them repeat, they repeat for [`patience`] alone.
    fn new(of: Of<'_>) -> Self;
    /// Creates the indexes and stores what all operations begin with, in empty collections.
    async fn fill(&self);
    /// What must not be lost or doubled, read past the repository; in the order in which it is stored by a batch, when it
    /// is sorted.
    async fn facts(&self) -> Vec<String>;
    /// The same as the repository's readers see it; `None` when they refuse to, since something is wrong or missing.
    async fn read(&self) -> Option<Vec<String>>;
    /// What is wrong, read past the repository.
    async fn damage(&self) -> Vec<String>;
    /// The same as `verify` tells it.
    async fn found(&self) -> Vec<String>;
    /// Mends what can be mended.
    async fn repair(&self);
    fn operations() -> Vec<Operation<Self>>;
}

/// Collections of a test's database.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) db: &'a TestDatabase,
    /// By the client that is recorded and that faults hit, or the other one.
    pub(super) recorded: bool,
}

impl Of<'_> {
    pub(super) fn database(self) -> Database {
        match self.recorded {
            true => self.db.database().clone(),
            false => self.db.plain_client().database(self.db.database().name()),
        }
    }

    pub(super) fn collection(self, name: &str) -> Collection<Document> {
        self.database().collection(name)
    }
}

/// As short as a test can wait.
pub(super) fn patience() -> mongo_patterns::RetryPolicy {
    mongo_patterns::RetryPolicy::default()
        .with_max_attempts(3)
        .with_max_elapsed(std::time::Duration::from_millis(1500))
}

/// What a call promises where it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// It writes nothing.
    Reads,
    /// It is done as a whole or not at all, and an error tells which unless its outcome is unknown. It may be called
    /// again.
    Whole,
    /// The same, or a prefix as long as the error tells. It may be called again.
    Prefix,
    /// The same, but it must not be called again where anything of it may be stored.
    PrefixOnce,
    /// It may end between any two of its steps, and is to be called again until it returns.
    Steps,
}

/// One call with its arguments.
pub(super) struct Operation<M> {
    /// The type and the function, such as `BucketRepository::append`; of several that are one call, with ` + ` between.
    pub(super) call: &'static str,
    pub(super) case: &'static str,
    pub(super) promise: Promise,
    /// How many of a batch's first items are stored before.
    pub(super) known: usize,
    /// It is in a transaction of the caller, which the caller commits or aborts.
    pub(super) in_session: bool,
    /// What a call that is repeated may answer, to say that the first one did it.
    pub(super) again: &'static [ErrorKind],
    pub(super) prepare: for<'a> fn(&'a M) -> LocalBoxFuture<'a, ()>,
    pub(super) run: for<'a> fn(&'a M) -> LocalBoxFuture<'a, Result<String, Error>>,
}

impl<M> Operation<M> {
    pub(super) fn new(
        promise: Promise,
        call: &'static str,
        case: &'static str,
        run: for<'a> fn(&'a M) -> LocalBoxFuture<'a, Result<String, Error>>,
    ) -> Self {
        Self {
            call,
            case,
            promise,
            known: 0,
            in_session: false,
            again: &[],
            prepare: |_| Box::pin(async move {}),
            run,
        }
    }

    pub(super) fn known(mut self, items: usize) -> Self {
        self.known = items;
        self
    }

    pub(super) fn again(mut self, again: &'static [ErrorKind]) -> Self {
        self.again = again;
        self
    }

    pub(super) fn prepare(mut self, prepare: for<'a> fn(&'a M) -> LocalBoxFuture<'a, ()>) -> Self {
        self.prepare = prepare;
        self
    }

    pub(super) fn name(&self) -> String {
        match self.case {
            "" => self.call.to_owned(),
            case => format!("{}, {case}", self.call),
        }
    }
}

/// The result of a call, to be compared with that of another.
pub(super) fn text<T: Debug>(result: Result<T, Error>) -> Result<String, Error> {
    result.map(|value| format!("{value:?}"))
}

/// How facts begin that no reader of a repository sees.
pub(super) const UNREAD: &str = "aside: ";

/// The names of a collection's indexes.
pub(super) async fn indexes(collection: &Collection<Document>) -> Vec<String> {
    // None of a collection that does not exist.
    let names = collection.list_index_names().await.unwrap_or_default();
    let name = |index: String| format!("{UNREAD}index {index} of {}", collection.name());
    names.into_iter().filter(|index| index != "_id_").map(name).collect()
}

/// All documents of several collections, each in the order of its `_id`.
pub(super) async fn documents<const N: usize>(collections: [&Collection<Document>; N]) -> [Vec<Document>; N] {
    let found = futures::future::join_all(collections.map(all)).await;
    found.try_into().unwrap()
}

/// Empties the collections of a model.
pub(super) async fn empty<M: Model>(db: &TestDatabase) {
    let deletes = M::COLLECTIONS.iter().map(|name| async move {
        db.plain_collection::<Document>(name)
            .delete_many(doc! {})
            .await
            .unwrap();
    });
    futures::future::join_all(deletes).await;
}
