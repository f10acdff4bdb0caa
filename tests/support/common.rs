//! What the tests of all patterns use.

pub use mongo_patterns::Repository;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder};
use mongo_patterns::{Error, ErrorKind, RetryPolicy, Validator};
use mongo_patterns_core::index::EnsureIndexes;
use mongo_patterns_core::sharding::EnsureSharded;
use mongo_patterns_testkit::{TestDatabase, Topology};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};
use mongodb::{Client, ClientSession, Collection, Database};
use serde::{Deserialize, Serialize};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};

pub use crate::explain::{explain, explain_last};

/// 2023-10-26T15:47:03Z, the second of the manual's first trade.
pub const SECOND: i64 = 1_698_335_223;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trade {
    pub n: i64,
    pub date: DateTime,
}

/// Subscribes to the spans and events of this thread.
///
/// With one subscriber in the process, tracing asks the thread that first creates a span of the code whether anybody wants it,
/// and remembers the answer for all threads. With two it asks them all.
pub fn subscribe(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    set_default(subscriber)
}

pub type Trades = BucketRepository<u32, Trade>;

pub fn at(second: i64) -> DateTime {
    DateTime::from_millis(second * 1000)
}

/// Returns trade `n`, in second `n` after the manual's first one.
pub fn spread(n: i64) -> Trade {
    Trade {
        n,
        date: at(SECOND + n),
    }
}

/// Returns trade `n`, in the same second as all others.
pub fn same_second(n: i64) -> Trade {
    Trade { n, date: at(SECOND) }
}

pub fn builder(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Trade> {
    Trades::builder(db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
}

/// Returns a repository of any documents, with its index. The recorder is empty.
pub async fn trades_of_documents(db: &TestDatabase) -> BucketRepository<u32, Document> {
    let trades = BucketRepository::<u32, Document>::builder(db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .build()
        .unwrap();
    on_shards(db, trades.ensure_sharded()).await;
    trades.ensure_indexes().await.unwrap();
    db.recorder().clear();
    trades
}

/// Returns a repository with pages of ten and its index. The recorder is empty.
pub async fn trades(db: &TestDatabase) -> Trades {
    ready(db, builder(db)).await
}

pub async fn ready(db: &TestDatabase, builder: BucketRepositoryBuilder<u32, Trade>) -> Trades {
    let trades = builder.build().unwrap();
    on_shards(db, trades.ensure_sharded()).await;
    with_indexes(db, trades).await
}

/// Does what [`trades`] does, but shards nothing: a sharded collection has only unique indexes that start with its shard
/// key.
pub async fn unsharded(db: &TestDatabase) -> Trades {
    with_indexes(db, builder(db).build().unwrap()).await
}

async fn with_indexes(db: &TestDatabase, trades: Trades) -> Trades {
    trades.ensure_indexes().replace_settings().await.unwrap();
    db.recorder().clear();
    trades
}

/// On a sharded cluster, shards the collections of a repository, so that its keys are on both shards.
pub async fn on_shards(db: &TestDatabase, sharded: EnsureSharded<'_>) {
    if db.server().topology() != Topology::Sharded {
        return;
    }
    match sharded.hashed().await {
        Ok(_) => {}
        // Another repository of the test has sharded them.
        Err(error) if error.kind() == ErrorKind::SettingsMismatch => {}
        Err(error) => panic!("{error}"),
    }
}

/// Returns the same collection, by a client that is not recorded.
pub fn plain(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("trades")
}

pub async fn all(collection: &Collection<Document>) -> Vec<Document> {
    let find = collection.find(doc! {}).sort(doc! { "_id": 1 });
    find.await.unwrap().try_collect().await.unwrap()
}

/// Returns an integer of any width.
pub fn integer(value: &Bson) -> i64 {
    match value {
        Bson::Int32(number) => i64::from(*number),
        Bson::Int64(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}

/// Checks the kind of an error, and the `_id` of the document that it names.
#[track_caller]
pub fn assert_names(error: &Error, kind: ErrorKind, id: impl Into<Bson>) {
    let found = (error.kind(), error.document_id());
    assert_eq!(found, (kind, Some(&id.into())), "{error:?}");
}

pub fn ids(documents: &[Document]) -> Vec<&str> {
    documents
        .iter()
        .map(|document| document.get_str("_id").unwrap())
        .collect()
}

/// Returns a full bucket of ten for customer 123, opened in this second.
pub fn full_bucket(second: i64) -> Document {
    let history: Vec<Bson> = (0..10_i64)
        .map(|n| Bson::Document(doc! { "n": n, "date": at(second) }))
        .collect();
    doc! { "_id": format!("123_{second:010}"), "customerId": 123, "count": 10, "history": history }
}

/// Returns the violations in the buckets of a collection as of one snapshot: several open buckets of a key, over-full
/// buckets, and counts that are not the length.
pub async fn violations(collection: &Collection<Document>, page_size: i32) -> Vec<Document> {
    let mut session = collection.client().start_session().await.unwrap();
    let snapshot = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .build();
    session.start_transaction().with_options(snapshot).await.unwrap();
    let found = violations_in(collection, page_size, &mut session).await;
    session.commit_transaction().await.unwrap();
    found
}

async fn violations_in(
    collection: &Collection<Document>,
    page_size: i32,
    session: &mut ClientSession,
) -> Vec<Document> {
    let pipeline = [
        doc! { "$group": {
            "_id": "$customerId",
            "open": { "$sum": { "$cond": [{ "$lt": ["$count", page_size] }, 1, 0] } },
            "largest": { "$max": { "$size": "$history" } },
            "miscounted": { "$sum": { "$cond": [{ "$ne": ["$count", { "$size": "$history" }] }, 1, 0] } },
        } },
        doc! { "$match": { "$or": [
            { "open": { "$gt": 1 } },
            { "largest": { "$gt": page_size } },
            { "miscounted": { "$gt": 0 } },
        ] } },
    ];
    let mut cursor = collection.aggregate(pipeline).session(&mut *session).await.unwrap();
    cursor.stream(session).try_collect().await.unwrap()
}

/// Returns whether the server has at least this major version.
pub fn at_least(db: &TestDatabase, major: u32) -> bool {
    let version = db.server().version();
    version.split('.').next().unwrap().parse::<u32>().unwrap() >= major
}

/// Waits until transactions see these new collections. A server aborts a transaction that meets one too early, and it must
/// be retried.
pub async fn until_seen(db: &TestDatabase, collections: &[&str]) {
    let snapshot = || {
        TransactionOptions::builder()
            .read_concern(ReadConcern::snapshot())
            .build()
    };
    let mut session = db.plain_client().start_session().await.unwrap();
    for name in collections {
        loop {
            session.start_transaction().with_options(snapshot()).await.unwrap();
            let collection = db.plain_collection::<Document>(name);
            let found = collection.find_one(doc! {}).session(&mut session).await;
            session.abort_transaction().await.unwrap();
            match found {
                Ok(_) => break,
                Err(error) => assert!(
                    error.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR),
                    "{error}"
                ),
            }
        }
    }
}

/// Retries for as long as it takes.
pub fn patient() -> RetryPolicy {
    RetryPolicy::default()
        .with_max_attempts(u32::MAX)
        .with_max_elapsed(Duration::from_secs(150))
}

/// Does what the server does when a client has been silent for 60 seconds. Until then, other clients wait.
pub async fn end_transactions(db: &TestDatabase) {
    let commands = db.recorder().commands();
    let of_transactions = commands
        .iter()
        .filter(|command| command.command.contains_key("autocommit"));
    let sessions: Vec<Bson> = of_transactions
        .filter_map(|command| command.command.get("lsid").cloned())
        .collect();
    if sessions.is_empty() {
        return; // an empty list kills all sessions of all tests
    }
    let admin = db.plain_client().database("admin");
    admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
}

/// Waits a moment before a condition is read again. Without it the wait takes the processor from what it waits for.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A time after which a call is stuck: shorter than the 60 seconds after which the server ends a transaction.
pub const STUCK: Duration = Duration::from_secs(30);

/// Fails when a future does not end.
pub async fn ends<T>(context: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(STUCK, future).await;
    ended.unwrap_or_else(|_| panic!("{context} is stuck"))
}

/// Waits until a condition holds.
pub async fn until(context: &str, holds: impl AsyncFn() -> bool) {
    ends(context, async {
        while !holds().await {
            pause().await;
        }
    })
    .await;
}

/// Waits for the replies of all commands, also of those whose caller was dropped.
pub async fn dropped_commands(db: &TestDatabase) {
    let replies = tokio::time::timeout(Duration::from_secs(20), db.recorder().settled()).await;
    replies.expect("the command of a dropped call has no reply");
}

/// Polls a call until it is done, or often enough for some of its commands.
pub async fn dropped_after<T>(polls: i32, call: impl IntoFuture<Output = T>) -> Option<T> {
    let often_enough = async {
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = call.into_future() => Some(done),
        () = often_enough => None,
    }
}

/// Waits until the server executes no command of the test's client.
pub async fn quiet(db: &TestDatabase) {
    let admin = db.plain_client().database("admin");
    let of_test = doc! { "currentOp": true, "appName": db.app_name(), "active": true };
    loop {
        let active = admin.run_command(of_test.clone()).await.unwrap();
        let mut active = active.get_array("inprog").unwrap().iter().filter_map(Bson::as_document);
        let of_database = |ns: &str| ns.starts_with(db.database().name());
        let is_writing = active.any(|operation| {
            let command = operation.get_document("command");
            let ends = command.is_ok_and(|command| {
                command.contains_key("commitTransaction") || command.contains_key("abortTransaction")
            });
            ends || operation.get_str("ns").is_ok_and(of_database)
        });
        if !is_writing {
            return;
        }
        pause().await;
    }
}

/// Waits until an operation of the test's client waits on the server for a transaction. The filter selects among the
/// operations.
pub async fn until_blocked(db: &TestDatabase, filter: Document) {
    let mut blocked = doc! { "currentOp": true, "appName": db.app_name(), "writeConflicts": { "$gt": 0 } };
    blocked.extend(filter);
    let admin = db.plain_client().database("admin");
    let waits = async {
        loop {
            let found = admin.run_command(blocked.clone()).await.unwrap();
            if !found.get_array("inprog").unwrap().is_empty() {
                return;
            }
            pause().await;
        }
    };
    let waits = tokio::time::timeout(Duration::from_secs(20), waits).await;
    waits.expect("no operation waits for the transaction");
}

/// Drops all collections.
pub async fn drop_all(db: &TestDatabase) {
    let database = db.plain_client().database(db.database().name());
    for name in database.list_collection_names().await.unwrap() {
        database.collection::<Document>(&name).drop().await.unwrap();
    }
}

/// Returns all documents of all collections.
pub async fn contents(db: &TestDatabase) -> Vec<(String, Vec<Document>)> {
    let database = db.plain_client().database(db.database().name());
    let mut names = database.list_collection_names().await.unwrap();
    names.sort_unstable();
    let mut contents = Vec::new();
    for name in names {
        let documents = all(&db.plain_collection(&name)).await;
        contents.push((name, documents));
    }
    contents
}

/// Creates the collections of a repository that have a validator.
pub async fn create_validated(database: &Database, repository: &dyn Repository) {
    for Validator {
        namespace, document, ..
    } in repository.validators()
    {
        let create = database.create_collection(&namespace.coll).validator(document);
        create.await.unwrap();
    }
}

/// Stores the settings of a repository whose documents are damaged, so that duplicates can refuse its indexes.
pub async fn confirm_settings(ensure: EnsureIndexes<'_>) {
    if let Err(error) = ensure.replace_settings().await {
        assert!(error.is_corrupt(), "{error:?}");
    }
}

/// Asserts that a call fails with this kind of error. Returns the error.
#[track_caller]
pub fn assert_refused<T>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let Err(error) = result else {
        panic!("no error, in place of {kind:?}")
    };
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

/// Reads a stream that ends with an error. Returns what came before, and the error.
pub async fn until_error<T>(mut stream: impl Stream<Item = Result<T, Error>> + Unpin) -> (Vec<T>, Error) {
    let mut read = Vec::new();
    loop {
        match stream.next().await {
            Some(Ok(item)) => read.push(item),
            Some(Err(error)) => return (read, error),
            None => panic!("no error after {} items", read.len()),
        }
    }
}

/// Does something by another client, and waits for it, where nothing can be awaited.
pub fn elsewhere(uri: &str, database: &str, work: impl AsyncFnOnce(Database) + Send + 'static) {
    let (uri, database) = (uri.to_owned(), database.to_owned());
    let connected = async move || work(Client::with_uri_str(uri).await.unwrap().database(&database)).await;
    let elsewhere = std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(connected()));
    elsewhere.join().unwrap();
}

/// Returns a function that updates all documents of a collection by another client when it is called first, and waits for the
/// reply. It can be called where nothing can be awaited.
pub fn once_elsewhere(db: &TestDatabase, collection: &str, update: Document) -> impl Fn() + Send + Sync + 'static {
    let (uri, database) = (db.server().uri().to_owned(), db.database().name().to_owned());
    let (collection, is_done) = (collection.to_owned(), AtomicBool::new(false));
    move || {
        if is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        let (collection, update) = (collection.clone(), update.clone());
        elsewhere(&uri, &database, async move |database| {
            let collection = database.collection::<Document>(&collection);
            collection.update_many(doc! {}, update).await.unwrap();
        });
    }
}
