//! All pairs of patterns on one document, with writers of both at once. A pattern joins by one `impl` of [`Role`].

mod arrays;
mod fields;
mod moves;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures::future::{BoxFuture, join_all};
use futures::{Stream, TryStreamExt};
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

type References = ReferenceRepository<Document, Document>;

/// The `_id`s of the documents.
const IDS: [i32; 3] = [1, 2, 3];
/// The tasks of each pattern, and the writes of each task.
const TASKS: i32 = 4;
const WRITES: i32 = 12;

/// What the patterns of a pair share.
struct World<'a> {
    db: &'a TestDatabase,
    /// Whether a pattern of the pair removes documents for a time.
    moves: bool,
    /// Whether a pattern of the pair stores copies of documents.
    copies: bool,
    /// The references to the documents, if they are sources.
    references: Option<&'a References>,
    /// Of each document. Two patterns that change the content of a document wait for each other, as two parts of a service do.
    content: [tokio::sync::Mutex<()>; 3],
}

impl World<'_> {
    async fn content_of(&self, id: i32) -> tokio::sync::MutexGuard<'_, ()> {
        self.content[usize::try_from(id - 1).unwrap()].lock().await
    }

    fn stored(&self, collection: &str) -> Collection<Document> {
        self.db.plain_collection(collection)
    }

    /// Returns a document, as the driver reads it.
    async fn order(&self, id: i32) -> Document {
        let order = self.stored("orders").find_one(doc! { "_id": id }).await.unwrap();
        order.unwrap_or_else(|| panic!("there is no document {id}"))
    }
}

/// A pattern on the documents of the collection `orders`.
trait Role: Send + Sync {
    fn name(&self) -> &'static str;

    fn repositories(&self) -> Vec<&dyn Repository>;

    /// What a new document needs for it.
    fn fields(&self) -> Document {
        Document::new()
    }

    /// Prepares new documents.
    fn begin<'a>(&'a self, _world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Whether it removes documents for a time.
    fn moves(&self) -> bool {
        false
    }

    /// Whether it stores copies of documents, beside which their references are brought up to date by a follower or a repair.
    fn copies(&self) -> bool {
        false
    }

    /// The references to the documents, if they are sources: other repositories delete one through these.
    fn references(&self) -> Option<&References> {
        None
    }

    /// One of its writes, by a number that no other one has.
    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>>;

    /// Completes what another task may have left.
    fn end<'a>(&'a self, _world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Checks by the driver alone that each document has what was acknowledged, and that `verify` finds nothing.
    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()>;
}

/// The numbers that were acknowledged for each document.
#[derive(Default)]
struct Acknowledged(Mutex<BTreeMap<i32, BTreeSet<i32>>>);

impl Acknowledged {
    fn add(&self, id: i32, n: i32) {
        self.0.lock().unwrap().entry(id).or_default().insert(n);
    }

    fn remove(&self, id: i32, n: i32) {
        self.0.lock().unwrap().entry(id).or_default().remove(&n);
    }

    #[track_caller]
    fn check(&self, id: i32, stored: impl IntoIterator<Item = i32>, role: &str) {
        let mut stored: Vec<i32> = stored.into_iter().collect();
        stored.sort_unstable();
        let expected = self.0.lock().unwrap().get(&id).cloned().unwrap_or_default();
        assert_eq!(stored, Vec::from_iter(expected), "{role} of the document {id}");
    }

    fn count(&self, id: i32) -> usize {
        self.0.lock().unwrap().get(&id).map_or(0, BTreeSet::len)
    }
}

/// Returns the numbers in an array of documents with the field, or of numbers.
fn numbers(document: &Document, array: &str, field: &str) -> Vec<i32> {
    let values = document.get_array(array).into_iter().flatten();
    let number = |value: &Bson| match value {
        Bson::Document(document) => document.get_i32(field).unwrap(),
        number => number.as_i32().unwrap(),
    };
    values.map(number).collect()
}

async fn finds_nothing<F: std::fmt::Debug>(role: &str, verify: impl Stream<Item = Result<F>>) {
    let findings: Vec<F> = verify.try_collect().await.unwrap();
    assert!(findings.is_empty(), "{role}: {findings:?}");
}

/// Whether a write may fail while the document is away.
fn is_away(world: &World<'_>, error: &Error) -> bool {
    world.moves && error.kind() == ErrorKind::NotFound
}

async fn writes(world: &World<'_>, role: &dyn Role, task: i32) {
    for write in 0..WRITES {
        let n = task * WRITES + write;
        let id = IDS[usize::try_from(n).unwrap() % IDS.len()];
        match role.write(world, id, n).await {
            Ok(()) => {}
            Err(error) => assert!(is_away(world, &error), "{}: {error:?}", role.name()),
        }
    }
}

/// Sets up two patterns in this order, and writes with both.
async fn try_pair(db: &TestDatabase, [one, other]: [&dyn Role; 2]) {
    let roles = [one, other];
    for repository in roles.iter().flat_map(|role| role.repositories()) {
        repository.ensure_indexes().await.unwrap();
    }
    let world = World {
        db,
        moves: roles.iter().any(|role| role.moves()),
        copies: roles.iter().any(|role| role.copies()),
        references: roles.iter().find_map(|role| role.references()),
        content: Default::default(),
    };
    let orders = IDS.map(|id| {
        let mut order = doc! { "_id": id, "item": id, "at": DateTime::from_millis(0), "title": "new" };
        order.extend(roles.iter().flat_map(|role| role.fields()));
        order
    });
    world.stored("orders").insert_many(orders).await.unwrap();
    for role in roles {
        role.begin(&world).await;
    }
    let tasks = roles
        .iter()
        .flat_map(|role| (0..TASKS).map(|task| writes(&world, *role, task)));
    join_all(tasks).await;
    for role in roles {
        role.end(&world).await;
    }
    for role in roles {
        role.check(&world).await;
    }
}
