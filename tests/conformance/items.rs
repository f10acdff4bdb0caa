//! Items of two versions, in four patterns: a number in a field `qty`, which moves to `amount`.

use futures::TryStreamExt;
use futures::future::{LocalBoxFuture, join, join_all};
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::{Direction, Subset, SubsetRepository};
use mongo_patterns::{Error, ErrorKind, ItemSteps, MigratedItems, Repository, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use support::common::{all, at, contents, once_elsewhere};

pub type Trades = BucketRepository<u32, Document>;
pub type Books = OutlierRepository<Document, Document>;
pub type Patrons = EmbeddedRepository<Document, Document>;
pub type Products = SubsetRepository<Document, Document>;

#[derive(Serialize, Deserialize)]
struct Old {
    n: i32,
    qty: i32,
}

#[derive(Serialize, Deserialize)]
struct New {
    n: i32,
    amount: i64,
}

pub fn steps() -> ItemSteps {
    ItemSteps::new().step(1, |old: Old| {
        Ok(New {
            n: old.n,
            amount: i64::from(old.qty) * 100,
        })
    })
}

/// Returns item `n` of version 1, with a field that the types do not have.
pub fn item(n: i32) -> Document {
    doc! { "n": n, "date": at(i64::from(n)), "qty": n % 7, "note": "$qty" }
}

pub fn trades(database: &Database) -> Trades {
    BucketRepository::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("n")
        .page_size(4)
        .sum("n")
        .build()
        .unwrap()
}

pub async fn fill_trades(database: &Database) {
    let trades = trades(database);
    trades.ensure_indexes().await.unwrap();
    for key in 1..=3 {
        let items: Vec<Document> = (0..10).map(item).collect();
        trades.append_many(&key, &items).await.unwrap();
    }
}

pub fn books(database: &Database) -> Books {
    let of = |name| database.collection::<Document>(name);
    OutlierRepository::builder(of("sales"), of("extra_sales"))
        .array_field("customers")
        .parent_field("book_id")
        .threshold(3)
        .max_overflow_elements(4)
        .build()
        .unwrap()
}

pub async fn fill_books(database: &Database) {
    let books = books(database);
    books.ensure_indexes().await.unwrap();
    for (id, elements) in [(1, 2), (2, 10), (3, 3)] {
        books.insert(&doc! { "_id": id }).await.unwrap();
        let elements: Vec<Document> = (0..elements).map(item).collect();
        books.push_many(id, &elements).await.unwrap();
    }
}

pub fn patrons(database: &Database) -> Patrons {
    let patrons = EmbeddedRepository::builder(database.collection::<Document>("patron"));
    patrons.children_field("addresses").child_id_field("n").build().unwrap()
}

pub async fn fill_patrons(database: &Database) {
    let patrons = patrons(database);
    patrons.ensure_indexes().await.unwrap();
    for id in 1..=3 {
        let children: Vec<Document> = (0..5).map(item).collect();
        patrons
            .insert(&doc! { "_id": id, "addresses": children })
            .await
            .unwrap();
    }
}

pub fn products(database: &Database) -> Products {
    let of = |name| database.collection::<Document>(name);
    SubsetRepository::builder(of("product"), of("review"))
        .parent_field("product_id")
        .child_id_field("n")
        .subset(Subset::new("reviews").order_by("date", Direction::Descending).size(3))
        .total_field("total")
        .build()
        .unwrap()
}

pub async fn fill_products(database: &Database) {
    let products = products(database);
    products.ensure_indexes().await.unwrap();
    for id in 1..=3 {
        let product = doc! { "_id": id };
        database.collection("product").insert_one(product).await.unwrap();
        let reviews: Vec<Document> = (0..5).map(|n| child(id, id * 100 + n)).collect();
        products.insert_many(&reviews).await.unwrap();
    }
}

/// Returns review `n` of a product.
pub fn child(product: i32, n: i32) -> Document {
    let mut review = item(n);
    review.insert("product_id", product);
    review
}

/// Returns all items of all collections, also those that are embedded in others.
async fn items(db: &TestDatabase) -> Vec<Document> {
    let mut items = Vec::new();
    for (name, documents) in contents(db).await {
        for document in documents.into_iter().filter(|_| name != "mongo_patterns") {
            if document.contains_key("n") {
                items.push(document);
                continue;
            }
            let arrays = document.into_iter().filter_map(|(_, value)| match value {
                Bson::Array(items) => Some(items),
                _ => None,
            });
            items.extend(arrays.flatten().filter_map(|item| item.as_document().cloned()));
        }
    }
    items
}

/// The items of a pattern, and what the tests do with them by a repository of a process of its own.
struct Pattern {
    name: &'static str,
    /// How many items there are at first.
    items: u64,
    fill: for<'a> fn(&'a Database) -> LocalBoxFuture<'a, ()>,
    migrate: for<'a> fn(&'a Database, ItemSteps, Option<u64>) -> LocalBoxFuture<'a, Result<MigratedItems>>,
    /// Adds an item to a document.
    add: for<'a> fn(&'a Database, Document) -> LocalBoxFuture<'a, ()>,
    /// The number of findings of `verify`.
    findings: for<'a> fn(&'a Database) -> LocalBoxFuture<'a, usize>,
}

macro_rules! pattern {
    ($name:literal, $items:literal, $fill:ident, $build:ident, |$repository:ident, $item:ident| $add:expr) => {
        Pattern {
            name: $name,
            items: $items,
            fill: |database| Box::pin($fill(database)),
            migrate: |database, steps, chunk| {
                Box::pin(async move {
                    let repository = $build(database);
                    let migration = repository.migrate_items(steps);
                    match chunk {
                        Some(chunk) => migration.chunk(chunk).await,
                        None => migration.await,
                    }
                })
            },
            add: |database, $item| {
                Box::pin(async move {
                    let $repository = $build(database);
                    $add.await.unwrap();
                })
            },
            findings: |database| {
                Box::pin(async move {
                    let repository = $build(database);
                    let findings: Vec<_> = repository.verify().stream().try_collect().await.unwrap();
                    findings.len()
                })
            },
        }
    };
}

const PATTERNS: [Pattern; 4] = [
    pattern!("bucket", 30, fill_trades, trades, |trades, item| trades
        .append(&1, &item)),
    pattern!("outlier", 15, fill_books, books, |books, item| books.push(2, &item)),
    pattern!("embedded", 15, fill_patrons, patrons, |patrons, item| patrons
        .add_child(1, &item)),
    pattern!("subset", 15, fill_products, products, |products, item| products
        .insert(&item)),
];

impl Pattern {
    /// Stores the first items in an empty database.
    async fn begin(&self, db: &TestDatabase) {
        db.database().drop().await.unwrap();
        (self.fill)(db.database()).await;
        db.recorder().clear();
    }

    async fn migrate(&self, db: &TestDatabase, steps: ItemSteps) -> Result<MigratedItems> {
        (self.migrate)(db.database(), steps, None).await
    }
}

/// Checks that all items have the new version.
async fn assert_new(db: &TestDatabase, context: &str) -> usize {
    let items = items(db).await;
    let is_new = |item: &Document| item.get("schemaVersion") == Some(&2.into());
    assert!(items.iter().all(is_new), "{context}: {items:?}");
    items.len()
}

#[tokio::test]
async fn all_items_are_converted_and_the_documents_stay_valid() {
    testkit::run(async |db| {
        for pattern in PATTERNS {
            pattern.begin(db).await;
            let before = items(db).await.len();
            let migrated = (pattern.migrate)(db.database(), steps(), Some(2)).await.unwrap();
            assert_eq!(migrated.items, pattern.items, "{}", pattern.name);
            assert_eq!(assert_new(db, pattern.name).await, before);
            for item in items(db).await {
                let n = item.get_i32("n").unwrap();
                assert_eq!(item.get("amount"), Some(&(i64::from(n % 7) * 100).into()), "{item}");
                let others = (item.get("qty"), item.get("note"));
                assert_eq!(others, (None, Some(&"$qty".into())), "{item}");
            }
            assert_eq!((pattern.findings)(db.database()).await, 0, "{}", pattern.name);
            let again = pattern.migrate(db, steps()).await.unwrap();
            assert_eq!(again, MigratedItems::default());
        }
    })
    .await;
}

#[tokio::test]
async fn a_step_that_changes_what_the_pattern_needs_is_refused() {
    testkit::run(async |db| {
        for pattern in PATTERNS {
            let name = pattern.name;
            pattern.begin(db).await;
            let before = format!("{:?}", contents(db).await);
            let changed = |field: &'static str| {
                ItemSteps::new().step(1, move |mut old: Document| {
                    old.insert(field, "other");
                    Ok(old)
                })
            };
            let failing = |_: Document| Err::<Document, _>(Error::new(ErrorKind::Encode, "no"));
            let gap = steps().step(3, |old: Document| Ok(old));
            for (steps, kind) in [
                (ItemSteps::new().step(1, failing), ErrorKind::Encode),
                (ItemSteps::new(), ErrorKind::Configuration),
                (gap, ErrorKind::Configuration),
                (steps().version_field("a.b"), ErrorKind::Configuration),
            ] {
                let refused = pattern.migrate(db, steps).await.unwrap_err();
                assert_eq!(refused.kind(), kind, "{name}: {refused:?}");
            }
            let refused = (pattern.migrate)(db.database(), steps(), Some(0)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
            if name != "outlier" {
                let refused = pattern.migrate(db, changed("n")).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
            }
            if ["bucket", "subset"].contains(&name) {
                let refused = pattern.migrate(db, changed("date")).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
                let is_of_date = refused.field().unwrap().ends_with("date");
                assert!(is_of_date && refused.document_id().is_some(), "{refused:?}");
            }
            assert_eq!(format!("{:?}", contents(db).await), before);
        }
        let [books, extras] = ["a", "b"].map(|name| db.collection::<Document>(name));
        let unique = OutlierRepository::<Document, Document>::builder(books, extras);
        let unique = unique
            .array_field("customers")
            .parent_field("book_id")
            .unique_elements();
        let unique = unique.build().unwrap();
        let refused = unique.migrate_items(steps()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

/// Writers of the new version add items to the documents that are converted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: cargo xtask ci"]
async fn no_item_is_lost_beside_the_migration() {
    testkit::run(async |db| {
        let new = |n: i32| {
            let mut item = child(1, n);
            item.remove("qty");
            item.extend(doc! { "amount": i64::from(n % 7) * 100, "schemaVersion": 2 });
            item
        };
        for pattern in PATTERNS {
            let name = pattern.name;
            pattern.begin(db).await;
            let before = items(db).await.len();
            let writers = (0..3).map(async |writer| {
                for n in 0..15 {
                    (pattern.add)(db.database(), new(1000 + writer * 100 + n)).await;
                }
            });
            let migration = async {
                let mut items = 0;
                // Until nothing is left, as a conflict can exhaust the retry policy.
                for _ in 0..20 {
                    match (pattern.migrate)(db.database(), steps(), Some(1)).await {
                        Ok(migrated) if migrated.items == 0 => break,
                        Ok(migrated) => items += migrated.items,
                        Err(error) => assert!(error.is_contention(), "{error:?}"),
                    }
                }
                items
            };
            let (converted, _) = join(migration, join_all(writers)).await;
            assert!(converted <= pattern.items, "{name}: {converted}");
            pattern.migrate(db, steps()).await.unwrap();
            // The subset of a product has three reviews, whatever is added.
            assert_eq!(assert_new(db, name).await, before + 45, "{name}");
            assert_eq!((pattern.findings)(db.database()).await, 0, "{name}");
        }
        assert!(!all(&db.plain_collection("mongo_patterns")).await.is_empty());
    })
    .await;
}

/// Another client writes all documents after the migration has read them. The transaction conflicts, and runs again.
#[tokio::test]
async fn a_write_between_the_read_and_the_update_is_kept() {
    testkit::run(async |db| {
        let fields = [
            ("trades", "history.0.late"),
            ("sales", "customers.0.late"),
            ("patron", "addresses.0.late"),
            ("review", "late"),
        ];
        for (pattern, (name, field)) in PATTERNS.into_iter().zip(fields) {
            pattern.begin(db).await;
            let (update, kept) = (doc! { "$set": { field: true } }, doc! { field: true });
            let write = once_elsewhere(db, name, update);
            let steps = ItemSteps::new().step(1, move |old: Old| {
                write();
                let amount = i64::from(old.qty) * 100;
                Ok(New { n: old.n, amount })
            });
            let stored = db.plain_collection::<Document>(name);
            let documents = stored.count_documents(doc! {}).await.unwrap();
            pattern.migrate(db, steps).await.unwrap();
            assert_eq!(stored.count_documents(kept).await.unwrap(), documents, "{name}");
            assert_new(db, name).await;
        }
    })
    .await;
}
