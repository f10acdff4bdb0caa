//! The manual's insurance policies.

pub mod by_id_migrate;
pub mod follow;
pub mod migrate;

use futures::TryStreamExt;
pub use mongo_patterns::Repository;
use mongo_patterns::history::{Finding, HistoryRepository, HistoryRepositoryBuilder, Revision};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database};

use crate::common::{all, integer, on_shards};

pub type Policies = HistoryRepository<Document>;

pub fn builder(database: &Database) -> HistoryRepositoryBuilder<Document> {
    let [current, revisions] = ["currentPolicies", "policyRevisions"].map(|name| database.collection::<Document>(name));
    Policies::builder(current, revisions)
        .id_field("policyId")
        .revision_field("revision")
        .time_field("dateSet")
}

/// Builds a repository of policies whose id is their `_id`.
pub fn by_id(database: &Database) -> HistoryRepositoryBuilder<Document> {
    builder(database).id_field("_id")
}

/// Returns a policy whose id is its `_id`.
pub fn policy_by_id(id: impl Into<Bson>) -> Document {
    doc! { "_id": id, "customerName": "Michelle", "itemsInsured": [] }
}

/// Returns a repository over empty collections with its indexes, and a clear recorder.
pub async fn policies(db: &TestDatabase) -> Policies {
    ready(db, builder(db.database())).await
}

pub async fn ready(db: &TestDatabase, builder: HistoryRepositoryBuilder<Document>) -> Policies {
    let policies = builder.build().unwrap();
    on_shards(db, policies.ensure_sharded()).await;
    with_indexes(db, policies).await
}

/// Does what [`policies`] does, but shards nothing: a sharded collection has only unique indexes that start with its shard
/// key.
pub async fn unsharded(db: &TestDatabase) -> Policies {
    with_indexes(db, builder(db.database()).build().unwrap()).await
}

async fn with_indexes(db: &TestDatabase, policies: Policies) -> Policies {
    policies.ensure_indexes().replace_settings().await.unwrap();
    current(db).delete_many(doc! {}).await.unwrap();
    revisions(db).delete_many(doc! {}).await.unwrap();
    db.recorder().clear();
    policies
}

/// Does what [`policies`] does, and inserts policy 1: the first write checks the indexes.
pub async fn with_policy(db: &TestDatabase) -> Policies {
    let policies = policies(db).await;
    policies.insert(&policy(1)).await.unwrap();
    db.recorder().clear();
    policies
}

/// Returns the names of the commands since the last call.
pub fn names(db: &TestDatabase) -> String {
    let names = db.recorder().names().join(" ");
    db.recorder().clear();
    names
}

/// Returns the current documents and the revisions.
pub async fn contents(db: &TestDatabase) -> [Vec<Document>; 2] {
    [all(&current(db)).await, all(&revisions(db)).await]
}

/// Returns the current documents, by a client that is not recorded.
pub fn current(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("currentPolicies")
}

/// Returns the revisions, by a client that is not recorded.
pub fn revisions(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("policyRevisions")
}

/// Returns a policy without insured items.
pub fn policy(id: impl Into<Bson>) -> Document {
    doc! { "policyId": id, "customerName": "Michelle", "itemsInsured": [] }
}

/// Returns the update that insures one more item.
pub fn push(item: &str) -> Document {
    doc! { "$push": { "itemsInsured": item } }
}

/// Returns the insured items of a policy.
pub fn items(policy: &Document) -> Vec<String> {
    let items = policy.get_array("itemsInsured").unwrap().iter();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

pub fn number(document: &Document, field: &str) -> i64 {
    integer(document.get(field).expect(field))
}

/// Returns a document without its `_id`, which differs between copies.
pub fn without_id(document: &Document) -> Document {
    let mut document = document.clone();
    document.remove("_id");
    document
}

/// Returns a revision without the `_id` of its document: the current document and its copy each have their own.
pub fn plain(mut revision: Revision<Document>) -> Revision<Document> {
    if let Some(document) = &mut revision.document {
        document.remove("_id");
    }
    revision
}

/// Returns the copies of a policy in the order of their numbers, read without the repository.
pub async fn copies(db: &TestDatabase, id: impl Into<Bson>) -> Vec<Document> {
    copies_with(db, "policyId", id).await
}

/// Returns the copies with an id in this field, in the order of their numbers.
pub async fn copies_with(db: &TestDatabase, field: &str, id: impl Into<Bson>) -> Vec<Document> {
    let id: Bson = id.into();
    let revisions = revisions(db);
    let of_policy = revisions.find(doc! { field: { "$eq": id } });
    let sorted = of_policy.sort(doc! { "revision": 1 });
    sorted.await.unwrap().try_collect().await.unwrap()
}

/// Returns the numbers of the copies of a policy.
pub async fn numbers(db: &TestDatabase, id: impl Into<Bson>) -> Vec<i64> {
    let copies = copies(db, id).await;
    copies.iter().map(|copy| number(copy, "revision")).collect()
}

/// The stored state of a policy of which no revision was deleted.
#[derive(Debug, Default, PartialEq)]
pub struct Judged {
    /// The number of insured items.
    pub items: usize,
    /// The number of the current revision.
    pub revision: i64,
    /// How many revisions have no copy.
    pub missing: usize,
    /// How many copies have the number of another one.
    pub doubled: usize,
    /// How many copies of the current revision differ from it.
    pub different: usize,
}

/// Compares, without the repository, the revisions of a policy with its current document.
pub async fn judge(db: &TestDatabase, id: impl Into<Bson>) -> Judged {
    let id: Bson = id.into();
    let now = current(db)
        .find_one(doc! { "policyId": { "$eq": &id } })
        .await
        .unwrap()
        .unwrap();
    let copies = copies(db, id).await;
    let newest = number(&now, "revision");
    let count = |revision: i64| {
        copies
            .iter()
            .filter(|copy| number(copy, "revision") == revision)
            .count()
    };
    let of_current = copies.iter().filter(|copy| number(copy, "revision") == newest);
    Judged {
        items: items(&now).len(),
        revision: newest,
        missing: (1..=newest).filter(|revision| count(*revision) == 0).count(),
        doubled: (1..=newest).map(|revision| count(revision).saturating_sub(1)).sum(),
        different: of_current.filter(|copy| without_id(copy) != without_id(&now)).count(),
    }
}

pub async fn findings(policies: &Policies) -> Vec<Finding> {
    policies.verify().stream().try_collect().await.unwrap()
}

/// Waits for the next millisecond: the time of a revision is after that of the previous one, for which a second write in
/// one millisecond takes further commands.
pub async fn tick() {
    let begun = DateTime::now();
    while DateTime::now() <= begun {
        tokio::task::yield_now().await;
    }
}
