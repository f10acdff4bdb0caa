//! A standalone server has no transactions: the patterns of two collections refuse it, and those of one collection work.

use mongo_patterns::outlier::{OutlierRepository, Pushed};
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use crate::common::support::{Trade, spread};
use crate::{history, outlier, reference, subset};

/// Starts a standalone, with an empty database.
async fn standalone() -> (Mongod, Database) {
    let mongod = Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let database = Client::with_uri_str(mongod.uri()).await.unwrap().database("shop");
    (mongod, database)
}

#[track_caller]
fn assert_unsupported<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    let text = error.to_string();
    for part in ["nothing was changed", "`--replSet`", "one node", "`rs.initiate()`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn assert_empty(database: &Database) {
    let names = database.list_collection_names().await.unwrap();
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn the_set_up_of_patterns_with_transactions_is_refused_and_creates_nothing() {
    let (_mongod, database) = standalone().await;
    let products: subset::support::Products = subset::support::builder(&database).build().unwrap();
    let policies = history::support::builder(&database).build().unwrap();
    let books: outlier::support::Books = outlier::support::builder_in(&database).build().unwrap();
    let orders = reference::support::builder(&database).build().unwrap();
    let prices = history::intervals_support::builder(&database).build().unwrap();
    for replaces in [false, true] {
        let all = [
            products.ensure_indexes(),
            policies.ensure_indexes(),
            books.ensure_indexes(),
            orders.ensure_indexes(),
            prices.ensure_indexes(),
        ];
        for ensure in all {
            let ensure = if replaces { ensure.replace_settings() } else { ensure };
            assert_unsupported(ensure.await);
        }
    }
    assert_unsupported(products.ensure_sharded().await);
    assert_unsupported(policies.ensure_sharded().await);
    assert_unsupported(books.ensure_sharded().await);
    assert_unsupported(orders.ensure_sharded().await);
    assert_unsupported(policies.migrate_existing().await);
    assert_unsupported(policies.migrate_existing().plan().await);
    assert_unsupported(prices.migrate_existing().await);
    assert_unsupported(books.migrate_existing().await);
    assert_unsupported(orders.migrate_from_references().await);
    assert_unsupported(products.follow("f").await);
    assert_unsupported(policies.follow("f").await);
    assert_unsupported(orders.follow("f").await);
    assert_empty(&database).await;
}

#[tokio::test]
async fn writes_of_histories_are_refused_and_store_nothing() {
    let (_mongod, database) = standalone().await;
    let policies = history::support::builder(&database).build().unwrap();
    let policy = history::support::policy(1);
    assert_unsupported(policies.insert(&policy).await);
    assert_unsupported(policies.insert_many(std::slice::from_ref(&policy)).await);
    assert_unsupported(policies.update(1, history::support::push("watch")).await);
    assert_unsupported(policies.replace(1, &policy).await);
    assert_unsupported(policies.restore(1, 1).await);
    assert_unsupported(policies.delete(1).await);
    let prices = history::intervals_support::builder(&database).build().unwrap();
    let price = history::intervals_support::price("pants", 5);
    assert_unsupported(prices.insert(&price).await);
    assert_unsupported(prices.replace("pants", &price).await);
    assert_unsupported(prices.end("pants").await);
    assert_empty(&database).await;
    // In a session too.
    let mut session = database.client().start_session().await.unwrap();
    assert_unsupported(policies.insert(&policy).session(&mut session).await);
    assert_empty(&database).await;
}

/// What one command does works: the pushes that find room in the array, and all calls on documents without overflow
/// documents.
#[tokio::test]
async fn writes_of_outliers_are_refused_and_those_of_typical_documents_work() {
    let (_mongod, database) = standalone().await;
    let builder = || {
        outlier::support::builder_in(&database)
            .threshold(5)
            .max_overflow_elements(10)
    };
    let books: outlier::support::Books = builder().build().unwrap();
    let users = outlier::support::users;
    assert_unsupported(books.insert(&outlier::support::book(1, 6)).await);
    assert_unsupported(books.rebalance(1).await);
    assert_empty(&database).await;

    books.insert(&outlier::support::book(1, 4)).await.unwrap();
    assert_eq!(books.push(1, "user04").await.unwrap(), Pushed::Inline);
    assert_unsupported(books.push(1, "user05").await);
    assert_eq!(books.elements(1).await.unwrap(), users(0..5));
    books.insert(&outlier::support::book(3, 4)).await.unwrap();
    let refused = books.push_many(3, &users(4..7)).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.stored_count()),
        (ErrorKind::Unsupported, Some(1))
    );
    assert_eq!(books.elements(3).await.unwrap(), users(0..5));
    let names = database.list_collection_names().await.unwrap();
    assert_eq!(names, ["sales"]);

    let unique: OutlierRepository<outlier::support::Book, String> = builder().unique_elements().build().unwrap();
    books.insert(&outlier::support::book(2, 2)).await.unwrap();
    assert_eq!(unique.push_unique(2, "user00").await.unwrap(), Pushed::AlreadyThere);
    assert!(books.delete(2).await.unwrap().found);

    // Overflow documents that were restored from a backup.
    let extras = database.collection::<Document>("extra_sales");
    let extra = doc! { "book_id": 1, "seq": 0, "count": 1, "customers_purchased_extra": ["user05"] };
    extras.insert_one(extra).await.unwrap();
    let flag = doc! { "$set": { "has_extras": true } };
    let sales = database.collection::<Document>("sales");
    sales.update_one(doc! { "_id": 1 }, flag).await.unwrap();
    assert_unsupported(books.delete(1).await);
    assert_eq!(books.elements(1).await.unwrap(), users(0..6));
}

/// A reference without its index would be stored, and not be updated.
#[tokio::test]
async fn writes_of_sources_are_refused_and_change_nothing() {
    let (_mongod, database) = standalone().await;
    let orders = reference::support::builder(&database).build().unwrap();
    let customers = database.collection::<Document>("customers");
    let customer = reference::support::customer(1, "Ann");
    customers.insert_one(&customer).await.unwrap();
    assert_unsupported(orders.update_source(1, reference::support::rename("Bea")).await);
    for rule in [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear] {
        assert_unsupported(orders.delete_source(1).on_references(rule).await);
    }
    assert_unsupported(orders.sweep().await);
    assert_unsupported(orders.insert_many(&[reference::support::order(1, 1)]).await);
    assert_eq!(customers.find_one(doc! {}).await.unwrap(), Some(customer));
    let names = database.list_collection_names().await.unwrap();
    assert_eq!(names, ["customers"]);
}

#[tokio::test]
async fn a_pattern_of_one_collection_works() {
    let (_mongod, database) = standalone().await;
    let trades =
        mongo_patterns::bucket::BucketRepository::<i32, Trade>::builder(database.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
    trades.ensure_indexes().await.unwrap();
    trades.append(&1, &spread(0)).await.unwrap();
    assert_eq!(trades.newest(&1, 5).await.unwrap().len(), 1);
}
