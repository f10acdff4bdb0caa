//! Items of two versions, in four patterns: a number in a field `qty`, which moves to `amount`.

use futures::future::{join, join_all};
use futures::{Stream, TryStreamExt};
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

/// Removes what is different in each run.
pub fn without_ids(collection: &str, document: &mut Document) {
    if ["review", "extra_sales"].contains(&collection) {
        document.remove("_id");
    }
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

async fn findings<F>(stream: impl Stream<Item = Result<F>>) -> usize {
    stream.try_collect::<Vec<F>>().await.unwrap().len()
}

/// Runs a test for the repository of each pattern, with the number of its items.
macro_rules! each {
    ($db:ident, |$repository:ident, $number:ident| $test:block) => {
        each!(@one $db, fill_trades, trades, 30, $repository, $number, $test);
        each!(@one $db, fill_books, books, 15, $repository, $number, $test);
        each!(@one $db, fill_patrons, patrons, 15, $repository, $number, $test);
        each!(@one $db, fill_products, products, 15, $repository, $number, $test);
    };
    (@one $db:ident, $fill:ident, $build:ident, $items:literal, $repository:ident, $number:ident, $test:block) => {{
        $db.database().drop().await.unwrap();
        $fill($db.database()).await;
        let ($repository, $number) = ($build($db.database()), $items);
        $db.recorder().clear();
        $test
    }};
}

#[tokio::test]
async fn all_items_are_converted_and_the_documents_stay_valid() {
    testkit::run(async |db| {
        each!(db, |repository, number| {
            let before = items(db).await.len();
            let migrated: MigratedItems = repository.migrate_items(steps()).chunk(2).await.unwrap();
            assert_eq!(migrated.items, number, "{repository:?}");
            let items = items(db).await;
            assert_eq!(items.len(), before);
            for item in items {
                let n = item.get_i32("n").unwrap();
                assert_eq!(item.get("schemaVersion"), Some(&2.into()), "{item}");
                assert_eq!(item.get("amount"), Some(&(i64::from(n % 7) * 100).into()), "{item}");
                assert_eq!(
                    (item.get("qty"), item.get("note")),
                    (None, Some(&"$qty".into())),
                    "{item}"
                );
            }
            assert_eq!(findings(repository.verify().stream()).await, 0);
            let again = repository.migrate_items(steps()).await.unwrap();
            assert_eq!(again, MigratedItems::default());
        });
    })
    .await;
}

#[tokio::test]
async fn a_step_that_changes_what_the_pattern_needs_is_refused() {
    testkit::run(async |db| {
        each!(db, |repository, number| {
            let before = format!("{:?}", contents(db).await);
            assert!(number > 0);
            let changed = |field: &'static str| {
                ItemSteps::new().step(1, move |mut old: Document| {
                    old.insert(field, "other");
                    Ok(old)
                })
            };
            let failing =
                ItemSteps::new().step(1, |_: Document| Err::<Document, _>(Error::new(ErrorKind::Encode, "no")));
            let gap = steps().step(3, |old: Document| Ok(old));
            let is_free = repository.pattern() == "outlier";
            let mut refused = vec![
                (repository.migrate_items(failing).await, ErrorKind::Encode),
                (
                    repository.migrate_items(ItemSteps::new()).await,
                    ErrorKind::Configuration,
                ),
                (repository.migrate_items(gap).await, ErrorKind::Configuration),
                (
                    repository.migrate_items(steps().version_field("a.b")).await,
                    ErrorKind::Configuration,
                ),
                (
                    repository.migrate_items(steps()).chunk(0).await,
                    ErrorKind::InvalidArgument,
                ),
            ];
            if !is_free {
                refused.push((repository.migrate_items(changed("n")).await, ErrorKind::InvalidArgument));
            }
            if ["bucket", "subset"].contains(&repository.pattern()) {
                let error = repository.migrate_items(changed("date")).await.unwrap_err();
                assert!(
                    error.field().unwrap().ends_with("date") && error.document_id().is_some(),
                    "{error:?}"
                );
                refused.push((Err(error), ErrorKind::InvalidArgument));
            }
            for (result, kind) in refused {
                assert_eq!(result.unwrap_err().kind(), kind, "{repository:?}");
            }
            assert_eq!(format!("{:?}", contents(db).await), before);
        });
        let unique = OutlierRepository::<Document, Document>::builder(
            db.collection::<Document>("a"),
            db.collection::<Document>("b"),
        )
        .array_field("customers")
        .parent_field("book_id")
        .unique_elements()
        .build()
        .unwrap();
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
            let mut item = item(n);
            item.remove("qty");
            item.extend(doc! { "amount": i64::from(n % 7) * 100, "schemaVersion": 2 });
            item
        };
        each!(db, |repository, number| {
            let before = items(db).await.len();
            let pattern = repository.pattern();
            let writers = (0..3).map(|writer| async move {
                for n in 0..15 {
                    let item = new(1000 + writer * 100 + n);
                    match pattern {
                        "bucket" => drop(trades(db.database()).append(&1, &item).await.unwrap()),
                        "outlier" => drop(books(db.database()).push(2, &item).await.unwrap()),
                        "embedded" => patrons(db.database()).add_child(1, &item).await.unwrap(),
                        _ => {
                            let mut review = item;
                            review.insert("product_id", 1);
                            products(db.database()).insert(&review).await.map(drop).unwrap();
                        }
                    }
                }
            });
            let migration = async {
                let mut items = 0;
                // Until nothing is left, as a conflict can exhaust the retry policy.
                for _ in 0..20 {
                    match repository.migrate_items(steps()).chunk(1).await {
                        Ok(migrated) if migrated.items == 0 => break,
                        Ok(migrated) => items += migrated.items,
                        Err(error) => assert!(error.is_contention(), "{error:?}"),
                    }
                }
                items
            };
            let (converted, _) = join(migration, join_all(writers)).await;
            assert!(converted <= number, "{converted}");
            repository.migrate_items(steps()).await.unwrap();
            let stored = items(db).await;
            assert!(
                stored.iter().all(|item| item.get("schemaVersion") == Some(&2.into())),
                "{pattern}"
            );
            // The subset of a product has three reviews, whatever is added.
            assert_eq!(stored.len(), before + 45, "{pattern}");
            assert_eq!(findings(repository.verify().stream()).await, 0, "{pattern}");
        });
        assert!(!all(&db.plain_collection("mongo_patterns")).await.is_empty());
    })
    .await;
}

/// Another client writes all documents after the migration has read them. The transaction conflicts, and runs again.
#[tokio::test]
async fn a_write_between_the_read_and_the_update_is_kept() {
    testkit::run(async |db| {
        each!(db, |repository, number| {
            assert!(number > 0);
            let (name, field) = match repository.pattern() {
                "bucket" => ("trades", "history.0.late"),
                "outlier" => ("sales", "customers.0.late"),
                "embedded" => ("patron", "addresses.0.late"),
                _ => ("review", "late"),
            };
            let (update, kept) = (doc! { "$set": { field: true } }, doc! { field: true });
            let write = once_elsewhere(db, name, update);
            let steps = ItemSteps::new().step(1, move |old: Old| {
                write();
                let amount = i64::from(old.qty) * 100;
                Ok(New { n: old.n, amount })
            });
            let stored = db.plain_collection::<Document>(name);
            let documents = stored.count_documents(doc! {}).await.unwrap();
            repository.migrate_items(steps).await.unwrap();
            assert_eq!(stored.count_documents(kept).await.unwrap(), documents, "{name}");
            assert!(
                items(db)
                    .await
                    .iter()
                    .all(|item| item.get("schemaVersion") == Some(&2.into())),
                "{name}"
            );
        });
    })
    .await;
}
