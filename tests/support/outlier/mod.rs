//! The manual's books.

pub mod damage;

pub use mongo_patterns::Repository;
use std::collections::HashMap;

use futures::TryStreamExt;
use mongo_patterns::outlier::{Finding, OutlierRepository, OutlierRepositoryBuilder, Problem};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};
use serde::{Deserialize, Serialize};

use crate::common::{all, confirm_settings, on_shards};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Book {
    pub _id: i32,
    pub title: String,
    #[serde(default)]
    pub customers_purchased: Vec<String>,
}

pub type Books = OutlierRepository<Book, String>;

pub fn builder<D, E>(db: &TestDatabase) -> OutlierRepositoryBuilder<D, E> {
    builder_in(db.database())
}

/// Returns a builder over the collections of any database.
pub fn builder_in<D, E>(database: &Database) -> OutlierRepositoryBuilder<D, E> {
    let [sales, extras] = ["sales", "extra_sales"].map(|name| database.collection::<Document>(name));
    OutlierRepository::<D, E>::builder(sales, extras)
        .array_field("customers_purchased")
        .parent_field("book_id")
}

/// Returns a repository with a threshold of 50 and overflow documents of 500, with its indexes, and clears the recorder.
pub async fn books(db: &TestDatabase) -> Books {
    ready(db, builder(db)).await
}

pub async fn ready<D, E>(db: &TestDatabase, builder: OutlierRepositoryBuilder<D, E>) -> OutlierRepository<D, E> {
    let books = builder.build().unwrap();
    on_shards(db, books.ensure_sharded()).await;
    with_indexes(db, books).await
}

/// Does what [`ready`] does, but shards nothing: a sharded collection has only unique indexes that start with its shard key.
pub async fn unsharded<D, E>(db: &TestDatabase, builder: OutlierRepositoryBuilder<D, E>) -> OutlierRepository<D, E> {
    with_indexes(db, builder.build().unwrap()).await
}

async fn with_indexes<D, E>(db: &TestDatabase, books: OutlierRepository<D, E>) -> OutlierRepository<D, E> {
    books.ensure_indexes().replace_settings().await.unwrap();
    db.recorder().clear();
    books
}

/// Another repository over the same collections and client, which knows nothing of the first one's writes.
pub fn again(db: &TestDatabase, threshold: u32, cap: u32) -> Books {
    builder(db)
        .threshold(threshold)
        .max_overflow_elements(cap)
        .build()
        .unwrap()
}

/// Does what [`again`] does, and stores the settings, which a repair needs. Without the indexes, which refuse some damage.
pub async fn managed(db: &TestDatabase, threshold: u32, cap: u32) -> Books {
    let books = again(db, threshold, cap);
    confirm_settings(books.ensure_indexes()).await;
    extra_sales(db).drop_indexes().await.unwrap();
    books
}

/// Another repository with a client of its own, as another process has one. With two repositories over one client, the
/// single commands of one could take all connections while they wait for transactions of the other.
pub fn of_another_process(db: &TestDatabase, threshold: u32, cap: u32) -> Books {
    builder_in(&db.plain_client().database(db.database().name()))
        .threshold(threshold)
        .max_overflow_elements(cap)
        .build()
        .unwrap()
}

/// The findings of a verify.
pub async fn findings<D, E>(books: &OutlierRepository<D, E>) -> Vec<Finding> {
    books.verify().stream().try_collect().await.unwrap()
}

/// The problems that a verify finds.
pub async fn found_problems<D, E>(books: &OutlierRepository<D, E>) -> Vec<Problem> {
    let findings = findings(books).await.into_iter();
    findings.map(|finding| finding.problem).collect()
}

/// Asserts that an error has this kind and names this field.
#[track_caller]
pub fn assert_at(error: &Error, kind: ErrorKind, field: &str) {
    assert_eq!((error.kind(), error.field()), (kind, Some(field)), "{error:?}");
}

/// Deletes all documents.
pub async fn clear(db: &TestDatabase) {
    sales(db).delete_many(doc! {}).await.unwrap();
    extra_sales(db).delete_many(doc! {}).await.unwrap();
}

pub fn users(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("user{n:02}")).collect()
}

pub fn book(id: i32, purchases: usize) -> Book {
    Book {
        _id: id,
        title: "The Wooden Amulet".to_owned(),
        customers_purchased: users(0..purchases),
    }
}

/// The main documents, by a client that is not recorded.
pub fn sales(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("sales")
}

/// The collection of the overflow documents, by a client that is not recorded.
pub fn extra_sales(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("extra_sales")
}

/// What the stored documents break of the rules of the pattern. The array may be shorter than the threshold although
/// there are overflow documents only where something was removed.
pub async fn violations(db: &TestDatabase, threshold: usize, cap: usize) -> Vec<String> {
    let mut violations = Vec::new();
    let mut extras: HashMap<String, Vec<Document>> = HashMap::new();
    for document in all(&extra_sales(db)).await {
        extras
            .entry(document.get("book_id").unwrap().to_string())
            .or_default()
            .push(document);
    }
    for main in all(&sales(db)).await {
        let id = main.get("_id").unwrap().to_string();
        let inline = main.get_array("customers_purchased").map_or(0, Vec::len);
        let mut of_book = extras.remove(&id).unwrap_or_default();
        of_book.sort_by_key(|document| document.get_i32("seq").unwrap());
        let flagged = main.get_bool("has_extras").unwrap_or(false);
        if inline > threshold {
            violations.push(format!("{id} has {inline} in its array"));
        }
        if flagged == of_book.is_empty() {
            violations.push(format!("{id} has the flag {flagged} and {} extras", of_book.len()));
        }
        for (seq, document) in of_book.iter().enumerate() {
            let count = document.get_array("customers_purchased_extra").unwrap().len();
            if document.get_i32("seq").ok() != i32::try_from(seq).ok() {
                violations.push(format!("{id} has a gap at {seq}"));
            }
            if document.get("count").and_then(Bson::as_i32) != i32::try_from(count).ok() {
                violations.push(format!("{id} {seq} has {count} and not its count"));
            }
            let is_last = seq + 1 == of_book.len();
            if count == 0 || count > cap || !is_last && count < cap {
                violations.push(format!("{id} {seq} of {} has {count}", of_book.len()));
            }
        }
    }
    violations.extend(extras.keys().map(|id| format!("extras of {id} belong to no document")));
    violations
}

/// All elements of a book, sorted.
pub async fn sorted(db: &TestDatabase, id: i32) -> Vec<String> {
    let mut elements = stored(db, id).await;
    elements.sort_unstable();
    elements
}

/// All elements of a book as they are stored, in order.
pub async fn stored(db: &TestDatabase, id: i32) -> Vec<String> {
    let main = sales(db).find_one(doc! { "_id": id }).await.unwrap().unwrap();
    let mut extras = all(&extra_sales(db)).await;
    extras.retain(|document| document.get_i32("book_id").ok() == Some(id));
    extras.sort_by_key(|document| document.get_i32("seq").unwrap());
    let arrays = extras
        .iter()
        .map(|document| document.get_array("customers_purchased_extra").unwrap());
    let inline = main.get_array("customers_purchased").into_iter();
    inline
        .chain(arrays)
        .flatten()
        .map(|user| user.as_str().unwrap().to_owned())
        .collect()
}
