//! Operations, and the state of a pattern that the checks read.

use std::fmt::Debug;

use futures::future::LocalBoxFuture;
use futures::{Stream, TryStreamExt};
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{self, Document, doc};
use mongodb::{Collection, Database};
use serde::Serialize;

use support::common::all;

/// The documents of a pattern, and their readers. One value is a process with a repository of its own.
pub(super) trait Model: Sized + 'static {
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
    /// Reads the same by the repository; `None` if it refuses to because of damage, or between the steps of a migration.
    async fn read(&self) -> Option<Vec<String>>;
    /// Reads the damage, without the repository.
    async fn damage(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the same from `verify`.
    async fn found(&self) -> Vec<String> {
        Vec::new()
    }
    /// Repairs what `repair` can fix.
    async fn repair(&self) {}
}

/// The operations of the table with these documents.
pub(super) trait Operations: Model {
    fn operations() -> Vec<Call<Self>>;
}

/// A [`Model`] without its type: what the checks do with it is compiled once, and not for each model.
pub(super) trait Process {
    fn fill(&self) -> LocalBoxFuture<'_, ()>;
    fn facts(&self) -> LocalBoxFuture<'_, Vec<String>>;
    fn read(&self) -> LocalBoxFuture<'_, Option<Vec<String>>>;
    fn damage(&self) -> LocalBoxFuture<'_, Vec<String>>;
    fn found(&self) -> LocalBoxFuture<'_, Vec<String>>;
    fn repair(&self) -> LocalBoxFuture<'_, ()>;
    /// Prepares the documents of the operation with this number.
    fn prepare(&self, operation: usize) -> LocalBoxFuture<'_, ()>;
    fn run(&self, operation: usize) -> LocalBoxFuture<'_, Result<String, Error>>;
}

struct Typed<M> {
    model: M,
    calls: Vec<Call<M>>,
}

impl<M: Model> Process for Typed<M> {
    fn fill(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.model.fill())
    }

    fn facts(&self) -> LocalBoxFuture<'_, Vec<String>> {
        Box::pin(self.model.facts())
    }

    fn read(&self) -> LocalBoxFuture<'_, Option<Vec<String>>> {
        Box::pin(self.model.read())
    }

    fn damage(&self) -> LocalBoxFuture<'_, Vec<String>> {
        Box::pin(self.model.damage())
    }

    fn found(&self) -> LocalBoxFuture<'_, Vec<String>> {
        Box::pin(self.model.found())
    }

    fn repair(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.model.repair())
    }

    fn prepare(&self, operation: usize) -> LocalBoxFuture<'_, ()> {
        (self.calls[operation].prepare)(&self.model)
    }

    fn run(&self, operation: usize) -> LocalBoxFuture<'_, Result<String, Error>> {
        (self.calls[operation].run)(&self.model)
    }
}

/// The operations of a model without its type.
pub(super) struct Suite {
    pub(super) pattern: &'static str,
    /// The crate of the pattern.
    pub(super) of_crate: &'static str,
    /// The module and the name of the model.
    pub(super) model: &'static str,
    pub(super) collections: &'static [&'static str],
    pub(super) operations: Vec<Operation>,
    pub(super) process: fn(Of<'_>) -> Box<dyn Process>,
}

impl Suite {
    pub(super) fn of<M: Operations>() -> Self {
        Self {
            pattern: M::PATTERN,
            of_crate: M::CRATE,
            model: std::any::type_name::<M>().rsplit_once("table::").unwrap().1,
            collections: M::COLLECTIONS,
            operations: M::operations().into_iter().map(|call| call.operation).collect(),
            process: |of| {
                let (model, calls) = (M::new(of), M::operations());
                Box::new(Typed { model, calls })
            },
        }
    }

    /// Returns the name of an operation with that of the pattern.
    pub(super) fn name(&self, operation: &Operation) -> String {
        format!("{} {}", self.pattern, operation.name())
    }

    /// Empties the collections.
    pub(super) async fn empty(&self, database: &Database) {
        let deletes = self.collections.iter().map(|name| async move {
            let collection = database.collection::<Document>(name);
            collection.delete_many(doc! {}).await.unwrap();
        });
        futures::future::join_all(deletes).await;
    }
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

/// The error of a retry of an insert that took effect.
pub(super) const EXISTS: &[ErrorKind] = &[ErrorKind::AlreadyExists];

/// One call with its arguments, as the checks see it.
pub(super) struct Operation {
    /// The type and the function, such as `BucketRepository::append`. Several functions of one call are separated by `
    /// + `.
    pub(super) call: &'static str,
    pub(super) case: &'static str,
    pub(super) promise: Promise,
    /// How many of a batch's first items are stored before the call.
    pub(super) stored_before: usize,
    /// It runs in a transaction of the caller, who commits or aborts it.
    pub(super) in_session: bool,
    /// Another call comes before it, whose effect stays if this one fails.
    pub(super) is_after_a_call: bool,
    /// It has no command for one document beside that for another one, so its commands have an order.
    pub(super) has_order: bool,
    /// The errors by which a retry reports that the first call took effect.
    pub(super) retry_errors: &'static [ErrorKind],
}

impl Operation {
    pub(super) fn name(&self) -> String {
        match self.case {
            "" => self.call.to_owned(),
            case => format!("{}, {case}", self.call),
        }
    }
}

/// An operation of a model.
pub(super) struct Call<M> {
    pub(super) operation: Operation,
    prepare: for<'a> fn(&'a M) -> LocalBoxFuture<'a, ()>,
    run: for<'a> fn(&'a M) -> LocalBoxFuture<'a, Result<String, Error>>,
}

impl<M> Call<M> {
    pub(super) fn new(
        promise: Promise,
        call: &'static str,
        case: &'static str,
        run: for<'a> fn(&'a M) -> LocalBoxFuture<'a, Result<String, Error>>,
    ) -> Self {
        let operation = Operation {
            call,
            case,
            promise,
            stored_before: 0,
            in_session: false,
            is_after_a_call: false,
            has_order: true,
            retry_errors: &[],
        };
        Self {
            operation,
            prepare: |_| Box::pin(async move {}),
            run,
        }
    }

    pub(super) fn in_session(mut self) -> Self {
        self.operation.in_session = true;
        self
    }

    pub(super) fn after_a_call(mut self) -> Self {
        self.operation.is_after_a_call = true;
        self
    }

    pub(super) fn stored_before(mut self, items: usize) -> Self {
        self.operation.stored_before = items;
        self
    }

    pub(super) fn without_order(mut self) -> Self {
        self.operation.has_order = false;
        self
    }

    pub(super) fn retry_errors(mut self, retry_errors: &'static [ErrorKind]) -> Self {
        self.operation.retry_errors = retry_errors;
        self
    }

    pub(super) fn prepare(mut self, prepare: for<'a> fn(&'a M) -> LocalBoxFuture<'a, ()>) -> Self {
        self.prepare = prepare;
        self
    }
}

/// Returns the operations of a model. Each has its promise, call and case, and then what it runs. After `=>` are what stores
/// its documents before, and its other settings.
macro_rules! calls {
    ($model:ty; $($promise:expr, $call:expr, $case:expr, |$m:ident| $run:expr
        $(=> $($setting:ident($($value:tt)*)),+)?;)+) => {
        vec![$({
            let call = $crate::faults::table::operation::Call::<$model>::new($promise, $call, $case, |$m| {
                Box::pin(async move { $crate::faults::table::operation::text($run) })
            });
            $($(let call = $crate::faults::table::operation::calls!(@set call $setting $($value)*);)+)?
            call
        }),+]
    };
    (@set $operation:ident prepare |$m:ident| $prepare:expr) => {
        $operation.prepare(|$m| Box::pin(async move {
            $prepare;
        }))
    };
    (@set $operation:ident $setting:ident $($value:tt)*) => {
        $operation.$setting($($value)*)
    };
}
pub(super) use calls;

/// Implements methods of a [`Model`] by those of the one in its first field.
macro_rules! delegate {
    ($($method:ident -> $type:ty),+) => {
        $(async fn $method(&self) -> $type {
            self.0.$method().await
        })+
    };
}
pub(super) use delegate;

/// Returns operations in a transaction of the caller, by the client of a collection of the model.
macro_rules! session_calls {
    ($model:ty, $collection:ident; $($promise:expr, $call:expr, $case:expr, |$m:ident, $session:ident| $run:expr
        $(=> $($setting:ident($($value:tt)*)),+)?;)+) => {
        vec![$({
            let call = $crate::faults::table::operation::Call::<$model>::new($promise, $call, $case, |$m| {
                let client = $m.$collection.client();
                Box::pin($crate::faults::table::sessions::transaction(client, async |$session| $run))
            });
            let call = call.in_session();
            $($(let call = $crate::faults::table::operation::calls!(@set call $setting $($value)*);)+)?
            call
        }),+]
    };
}
pub(super) use session_calls;

/// Returns findings or repairs as text. Their `Debug` output has no ids.
pub(super) async fn serialized<T: Serialize>(stream: impl Stream<Item = Result<T, Error>>) -> Result<String, Error> {
    let all: Vec<T> = stream.try_collect().await?;
    Ok(bson::serialize_to_bson(&all).unwrap().to_string())
}

/// Returns how many there are.
pub(super) async fn number_of<T>(stream: impl Stream<Item = Result<T, Error>>) -> Result<usize, Error> {
    stream.try_collect::<Vec<T>>().await.map(|all| all.len())
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
