//! The calls that replace or restore a whole document.

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongo_patterns::history::{HistoryRepository, Problem};
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{DateTime, Document, doc};

use super::owners::{Owner, Place};
use super::repositories::of;
use support::common::{all, patient};

/// A repository with calls that replace a document.
pub(super) trait Replacer: Send + Sync {
    fn repository(&self) -> &dyn Repository;

    /// Inserts a document.
    fn insert(&self, id: i32) -> BoxFuture<'_, Result<()>>;

    /// The names of its calls.
    fn calls(&self) -> &'static [&'static str];

    /// Replaces a document, by one with a name for the number. A restoration is to the document that was inserted.
    fn replace(&self, call: &str, id: i32, n: i32) -> BoxFuture<'_, Result<()>>;

    /// Checks the documents after this number of calls for each, besides the insert.
    fn check<'a>(&'a self, db: &'a TestDatabase, calls: &'a [(i32, usize)]) -> BoxFuture<'a, ()>;
}

pub(super) type One = Box<dyn Replacer>;

/// The documents of one collection, with a repository that replaces them, and those that own fields of them.
pub(super) type Together<'d> = (Place<'d>, One, Vec<Box<dyn Owner>>);

/// Returns each of the four, as a new process has them.
pub(super) fn places(db: &TestDatabase) -> Vec<Together<'_>> {
    let place = |collection| Place { db, collection };
    let (orders, prices, notes) = (place("orders"), place("prices"), place("notes"));
    let with_versions = |mut owners: Vec<Box<dyn Owner>>, place: &Place<'_>| {
        owners.push(place.versions());
        owners
    };
    // The documents of intervals are no parents.
    let of_prices = vec![
        prices.counters(),
        prices.source(),
        prices.references(),
        prices.versions(),
    ];
    // Nothing depends on the children of a subset.
    let of_notes = vec![notes.embedded(), notes.counters(), notes.references(), notes.versions()];
    vec![
        (orders.clone(), history(db), with_versions(orders.owners(), &orders)),
        (orders.clone(), schema(db), orders.owners()),
        (prices, intervals(db), of_prices),
        (notes, children(db), of_notes),
    ]
}

/// What a document has that no repository owns.
fn content(n: i32) -> Document {
    doc! { "name": format!("replaced, {n}") }
}

fn with(id: Document, n: i32) -> Document {
    id.into_iter().chain(content(n)).collect()
}

pub(super) struct History(pub(super) HistoryRepository<Document>);

pub(super) fn history_of(db: &TestDatabase) -> HistoryRepository<Document> {
    let orders = HistoryRepository::builder(of(db, "orders"), of(db, "revisions"));
    let orders = orders.id_field("_id").time_field("at").retry(patient());
    orders.build().unwrap()
}

fn history(db: &TestDatabase) -> One {
    Box::new(History(history_of(db)))
}

impl Replacer for History {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn insert(&self, id: i32) -> BoxFuture<'_, Result<()>> {
        // A restored revision has the version of its content.
        let first = with(doc! { "_id": id, "schemaVersion": 1 }, 0);
        Box::pin(async move { self.0.insert(&first).await.map(drop) })
    }

    fn calls(&self) -> &'static [&'static str] {
        &["replace", "upsert", "restore"]
    }

    fn replace(&self, call: &str, id: i32, n: i32) -> BoxFuture<'_, Result<()>> {
        let document = with(doc! { "_id": id }, n);
        match call {
            "replace" => Box::pin(async move { self.0.replace(id, &document).await.map(drop) }),
            "upsert" => Box::pin(async move { self.0.upsert(&document).await.map(drop) }),
            _ => Box::pin(async move { self.0.restore(id, 1).await.map(drop) }),
        }
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, calls: &'a [(i32, usize)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let revisions = all(&db.plain_collection("revisions")).await;
            for (id, calls) in calls {
                let of_order = revisions
                    .iter()
                    .filter(|one| one.get("documentId") == Some(&(*id).into()));
                assert_eq!(of_order.count(), calls + 1, "order {id}");
            }
            // What the others have written since is recorded by the next write.
            let found: Vec<_> = self.0.verify().stream().try_collect().await.unwrap();
            let is_other = |problem: Problem| !matches!(problem, Problem::Different { .. });
            assert!(!found.iter().any(|found| is_other(found.problem)), "{found:?}");
        })
    }
}

struct Schema(SchemaRepository<Document>);

fn schema(db: &TestDatabase) -> One {
    let orders = SchemaRepository::builder(of(db, "orders")).newest(2).retry(patient());
    Box::new(Schema(orders.build().unwrap()))
}

impl Replacer for Schema {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn insert(&self, id: i32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.0.insert(&with(doc! { "_id": id }, 0)).await.map(drop) })
    }

    fn calls(&self) -> &'static [&'static str] {
        &["replace"]
    }

    fn replace(&self, _: &str, id: i32, n: i32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.0.replace(id, &content(n)).await.map(drop) })
    }

    fn check<'a>(&'a self, _: &'a TestDatabase, _: &'a [(i32, usize)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let found: Vec<_> = self.0.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

struct Intervals(IntervalRepository<Document>);

fn intervals(db: &TestDatabase) -> One {
    let prices = IntervalRepository::builder(of(db, "prices")).id_field("item");
    Box::new(Intervals(prices.retry(patient()).build().unwrap()))
}

impl Replacer for Intervals {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn insert(&self, id: i32) -> BoxFuture<'_, Result<()>> {
        let price = with(doc! { "_id": id, "item": id }, 0);
        Box::pin(async move { self.0.insert(&price).await.map(drop) })
    }

    fn calls(&self) -> &'static [&'static str] {
        &["replace"]
    }

    fn replace(&self, _: &str, id: i32, n: i32) -> BoxFuture<'_, Result<()>> {
        let price = with(doc! { "item": id }, n);
        Box::pin(async move { self.0.replace(id, &price).await.map(drop) })
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, calls: &'a [(i32, usize)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let prices = all(&db.plain_collection("prices")).await;
            for (id, calls) in calls {
                let of_item = prices.iter().filter(|one| one.get("item") == Some(&(*id).into()));
                assert_eq!(of_item.count(), calls + 1, "item {id}");
            }
            let found: Vec<_> = self.0.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

/// The children of one product, each with a note.
struct Children(SubsetRepository<Document, Document>, mongodb::Collection<Document>);

fn children(db: &TestDatabase) -> One {
    let products = SubsetRepository::builder(of(db, "products"), of(db, "notes"));
    let products = products.parent_field("product").child_id_field("id");
    let first = Subset::new("notes").sort(doc! { "at": -1 }).size(2);
    let products = products.subset(first).total_field("notes_count").sum("n", "notes_sum");
    let products = products.retry(patient()).build().unwrap();
    Box::new(Children(products, db.plain_collection("products")))
}

fn note(id: i32, n: i32) -> Document {
    let at = DateTime::from_millis(i64::from(n));
    with(doc! { "_id": id, "id": id, "product": 1, "at": at, "n": n }, n)
}

impl Replacer for Children {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn insert(&self, id: i32) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let product = doc! { "$setOnInsert": { "name": "a product" } };
            self.1.update_one(doc! { "_id": 1 }, product).upsert(true).await?;
            self.0.insert(&note(id, 0)).await.map(drop)
        })
    }

    fn calls(&self) -> &'static [&'static str] {
        &["replace", "replace without its `_id`"]
    }

    fn replace(&self, call: &str, id: i32, n: i32) -> BoxFuture<'_, Result<()>> {
        let mut note = note(id, n);
        if call != "replace" {
            note.remove("_id");
        }
        Box::pin(async move { self.0.replace(&note).await.map(drop) })
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, calls: &'a [(i32, usize)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let notes = all(&db.plain_collection("notes")).await;
            assert_eq!(notes.len(), calls.len());
            let product = self.1.find_one(doc! {}).await.unwrap().unwrap();
            let sum: i32 = notes.iter().map(|note| note.get_i32("n").unwrap()).sum();
            let number = |field: &str| support::common::integer(product.get(field).unwrap());
            assert_eq!(number("notes_count"), notes.len() as i64);
            assert_eq!(number("notes_sum"), i64::from(sum));
            // The other repositories write the children, too: the next write or refresh of the parent has their values.
            self.0.refresh(1).await.unwrap();
            let found: Vec<_> = self.0.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}
