//! Operations, and the state of a pattern that the checks read.

use std::fmt::Debug;

use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{self, Document, doc};
use mongodb::{Collection, Database};
use serde::Serialize;

use support::common::all;

/// The documents of a pattern, and their readers. One value is a process with a repository of its own.
pub(super) trait Model: Sized {
    const PATTERN: &'static str;
    /// The crate of the pattern.
    const CRATE: &'static str = Self::PATTERN;
    /// All collections that its operations write to.
    const COLLECTIONS: &'static [&'static str];

    /// Returns repositories of the database. They retry as [`retry_policy`] allows.
    fn new(of: Of<'_>) -> Self;
    /// Creates the indexes, and stores the initial documents of all operations in empty collections.
    async fn fill(&self);
    /// Reads, without the repository, the data that must not be lost or duplicated. Sorted, it is in the order in which
    /// a batch stores it.
    async fn facts(&self) -> Vec<String>;
    /// Reads the same by the repository; `None` if it refuses to because of damage.
    async fn read(&self) -> Option<Vec<String>>;
    /// Reads the damage, without the repository.
    async fn damage(&self) -> Vec<String>;
    /// Returns the same from `verify`.
    async fn found(&self) -> Vec<String>;
    /// Repairs what `repair` can fix.
    async fn repair(&self);
}

/// The operations of the table with these documents.
pub(super) trait Operations: Model {
    fn operations() -> Vec<Operation<Self>>;
}

/// A database.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) database: &'a Database,
    /// The same, by a client that may do all and whose commands do not count.
    pub(super) plain: &'a Database,
}

impl Of<'_> {
    pub(super) fn collection(self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }
}

/// Returns the shortest policy that the tests can use.
pub(super) fn retry_policy() -> mongo_patterns::RetryPolicy {
    mongo_patterns::RetryPolicy::default()
        .with_max_attempts(3)
        .with_max_elapsed(std::time::Duration::from_millis(1500))
}

/// What a call promises if it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// The call writes nothing.
    Reads,
    /// The call takes effect as a whole or not at all. The error reports which, unless its outcome is unknown. It is
    /// safe to retry.
    Atomic,
    /// The same, or a prefix, whose length the error reports. It is safe to retry.
    Prefix,
    /// The same, but it is not safe to retry if any of it may be stored.
    PrefixOnce,
    /// The call can end between any two of its steps. It is safe to retry until it returns.
    Steps,
}

/// One call with its arguments.
pub(super) struct Operation<M> {
    /// The type and the function, such as `BucketRepository::append`. Several functions of one call are separated by `
    /// + `.
    pub(super) call: &'static str,
    pub(super) case: &'static str,
    pub(super) promise: Promise,
    /// How many of a batch's first items are stored before the call.
    pub(super) stored_before: usize,
    /// It runs in a transaction of the caller, who commits or aborts it.
    pub(super) in_session: bool,
    /// It has no command for one document beside that for another one, so its commands have an order.
    pub(super) has_order: bool,
    /// The errors by which a retry reports that the first call took effect.
    pub(super) retry_errors: &'static [ErrorKind],
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
            stored_before: 0,
            in_session: false,
            has_order: true,
            retry_errors: &[],
            prepare: |_| Box::pin(async move {}),
            run,
        }
    }

    pub(super) fn stored_before(mut self, items: usize) -> Self {
        self.stored_before = items;
        self
    }

    pub(super) fn without_order(mut self) -> Self {
        self.has_order = false;
        self
    }

    pub(super) fn retry_errors(mut self, retry_errors: &'static [ErrorKind]) -> Self {
        self.retry_errors = retry_errors;
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

/// Does what [`text`] does for findings and repairs, whose `Debug` output has no ids.
pub(super) fn serialized<T: Serialize>(result: Result<T, Error>) -> Result<String, Error> {
    result.map(|value| bson::serialize_to_bson(&value).unwrap().to_string())
}

/// Returns the result of a call as text, to compare it with that of another.
pub(super) fn text<T: Debug>(result: Result<T, Error>) -> Result<String, Error> {
    result.map(|value| format!("{value:?}"))
}

/// The prefix of facts that no reader of a repository returns.
pub(super) const UNREAD: &str = "aside: ";

/// Returns the names of a collection's indexes.
pub(super) async fn indexes(collection: &Collection<Document>) -> Vec<String> {
    // A collection that does not exist has none.
    let names = collection.list_index_names().await.unwrap_or_default();
    let name = |index: String| format!("{UNREAD}index {index} of {}", collection.name());
    names.into_iter().filter(|index| index != "_id_").map(name).collect()
}

/// Returns all documents of several collections, each in the order of its `_id`.
pub(super) async fn documents<const N: usize>(collections: [&Collection<Document>; N]) -> [Vec<Document>; N] {
    let found = futures::future::join_all(collections.map(all)).await;
    found.try_into().unwrap()
}

/// Empties the collections of a model.
pub(super) async fn empty<M: Model>(database: &Database) {
    let deletes = M::COLLECTIONS.iter().map(|name| async move {
        let collection = database.collection::<Document>(name);
        collection.delete_many(doc! {}).await.unwrap();
    });
    futures::future::join_all(deletes).await;
}
