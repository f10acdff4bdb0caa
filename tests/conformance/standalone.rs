//! A standalone server has no transactions: the patterns of two collections refuse it, and those of one collection work.

use std::fmt::Debug;
use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::archive_files::FileArchive;
use mongo_patterns::archive_files::object_store::memory::InMemory;
use mongo_patterns::outlier::{OutlierRepository, Pushed};
use mongo_patterns::reference::OnReferences;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};

use support::common::{SECOND, Trade, Trades, all, at, confirm_settings, same_second, spread};
use support::schema::contacts::{ContactV1, ContactV2, stages, v1, v2};
use support::standalone::standalone;
use support::{embedded, history, outlier, reference, schema, subset};

/// Checks that a call is refused, and names the other kind of server.
#[track_caller]
fn assert_unsupported<T: Debug>(result: Result<T>) {
    let text = unsupported(result).to_string();
    for part in ["nothing was changed", "`--replSet`", "one node", "`rs.initiate()`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[track_caller]
fn unsupported<T: Debug>(result: Result<T>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    error
}

async fn assert_empty(database: &Database) {
    let names = database.list_collection_names().await.unwrap();
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn the_set_up_of_patterns_with_transactions_is_refused_and_creates_nothing() {
    let database = standalone().await;
    let products: subset::Products = subset::builder(&database).build().unwrap();
    let policies = history::builder(&database).build().unwrap();
    let books: outlier::Books = outlier::builder_in(&database).build().unwrap();
    let orders = reference::builder(&database).build().unwrap();
    let prices = support::intervals::builder(&database).build().unwrap();
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
    assert_unsupported(policies.migrate_existing().plan().await);
    assert_unsupported(products.migrate_existing().plan().await);
    assert_empty(&database).await;
}

#[tokio::test]
async fn writes_of_histories_are_refused_and_store_nothing() {
    let database = standalone().await;
    let policies = history::builder(&database).build().unwrap();
    let policy = history::policy(1);
    assert_unsupported(policies.insert(&policy).await);
    assert_unsupported(policies.insert_many(std::slice::from_ref(&policy)).await);
    assert_unsupported(policies.update(1, history::push("watch")).await);
    assert_unsupported(policies.replace(1, &policy).await);
    assert_unsupported(policies.restore(1, 1).await);
    assert_unsupported(policies.delete(1).await);
    let prices = support::intervals::builder(&database).build().unwrap();
    let price = support::intervals::price("pants", 5);
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
    let database = standalone().await;
    let builder = || outlier::builder_in(&database).threshold(5).max_overflow_elements(10);
    let books: outlier::Books = builder().build().unwrap();
    let users = outlier::users;
    assert_unsupported(books.insert(&outlier::book(1, 6)).await);
    assert_unsupported(books.refresh(1).await);
    assert_empty(&database).await;

    books.insert(&outlier::book(1, 4)).await.unwrap();
    assert_eq!(books.push(1, "user04").await.unwrap(), Pushed::Inline);
    assert_unsupported(books.push(1, "user05").await);
    assert_eq!(books.elements(1).await.unwrap(), users(0..5));
    books.insert(&outlier::book(3, 4)).await.unwrap();
    let refused = books.push_many(3, &users(4..7)).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.stored_count()),
        (ErrorKind::Unsupported, Some(1))
    );
    assert_eq!(books.elements(3).await.unwrap(), users(0..5));
    let names = database.list_collection_names().await.unwrap();
    assert_eq!(names, ["sales"]);

    let unique: OutlierRepository<outlier::Book, String> = builder().unique_elements().build().unwrap();
    books.insert(&outlier::book(2, 2)).await.unwrap();
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
    let database = standalone().await;
    let orders = reference::builder(&database).build().unwrap();
    let customers = database.collection::<Document>("customers");
    let customer = reference::customer(1, "Ann");
    customers.insert_one(&customer).await.unwrap();
    assert_unsupported(orders.update_source(1, reference::rename("Bea")).await);
    for rule in [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear] {
        assert_unsupported(orders.delete_source(1).on_references(rule).await);
    }
    assert_unsupported(orders.refresh_copies(1).await);
    assert_unsupported(orders.insert_many(&[reference::order(1, 1)]).await);
    assert_eq!(customers.find_one(doc! {}).await.unwrap(), Some(customer));
    let names = database.list_collection_names().await.unwrap();
    assert_eq!(names, ["customers"]);
}

fn trades(database: &Database, page_size: u32) -> Trades {
    let trades = Trades::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("n");
    trades.page_size(page_size).build().unwrap()
}

async fn numbers(trades: &Trades) -> Vec<i64> {
    let items: Vec<Trade> = trades.items(&123).stream().try_collect().await.unwrap();
    items.iter().map(|item| item.n).collect()
}

#[tokio::test]
async fn buckets_work_without_transactions() {
    let database = standalone().await;
    let trades = trades(&database, 3);
    trades.ensure_indexes().await.unwrap();
    for n in 0..7 {
        trades.append(&123, &same_second(n)).at(at(SECOND)).await.unwrap();
    }
    let mut session = database.client().start_session().await.unwrap();
    let last = same_second(7);
    trades.append(&123, &last).session(&mut session).await.unwrap();
    assert_eq!(trades.page(&123, 3).await.unwrap().unwrap().items.len(), 2);
    assert_eq!(numbers(&trades).await, (0..8).collect::<Vec<_>>());

    // The items of a full page move.
    unsupported(trades.remove_item(&123, 1).await);
    assert_eq!(numbers(&trades).await, (0..8).collect::<Vec<_>>());
    for n in [6, 7] {
        assert!(trades.remove_item(&123, n).await.unwrap().found);
    }
    session.start_transaction().await.unwrap();
    let refused = trades.append(&123, &same_second(8)).session(&mut session).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Driver);
    assert_eq!(numbers(&trades).await, (0..6).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_rewrites_buckets_is_refused() {
    let database = standalone().await;
    let old_size = trades(&database, 10);
    old_size.ensure_indexes().await.unwrap();
    let items: Vec<Trade> = (0..7).map(spread).collect();
    old_size.append_many(&123, &items).await.unwrap();
    let new_size = trades(&database, 3);
    unsupported(new_size.migrate_page_size_from(10).await);
    old_size.append(&123, &spread(7)).await.unwrap();

    let stored = database.collection::<Document>("trades");
    confirm_settings(new_size.ensure_indexes()).await;
    let before = all(&stored).await;
    let error = unsupported(new_size.repair().stream().try_next().await);
    assert_eq!(error.operation(), Some("repair"));
    let planned: Vec<_> = new_size.repair().dry_run().stream().try_collect().await.unwrap();
    assert_eq!(planned[0].written, 3);
    assert_eq!(all(&stored).await, before);
}

#[tokio::test]
async fn children_work_without_transactions() {
    let database = standalone().await;
    let patrons = embedded::Patrons::builder(database.collection::<Document>("patron"));
    let patrons = patrons.children_field("addresses").child_id_field("id").max_children(2);
    let patrons = patrons.build().unwrap();
    let address = embedded::address;
    patrons.insert(&embedded::patron("joe", [address(1)])).await.unwrap();
    patrons.add_child("joe", &address(2)).await.unwrap();
    let full = patrons.add_child("joe", &address(3)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::LimitReached);
    assert!(!patrons.upsert_child("joe", &address(2)).await.unwrap().inserted);
    patrons.reorder_children("joe", [2, 1]).await.unwrap();
}

/// Steps on the server need no transaction.
#[tokio::test]
async fn typed_steps_of_documents_are_refused_and_all_else_works() {
    let database = standalone().await;
    let stored = database.collection::<Document>("contacts");
    let builder = || SchemaRepository::<Document>::builder(stored.clone());
    stored.insert_many([v1(1), v1(2)]).await.unwrap();
    let contacts = builder().step(1, |old: ContactV1| Ok(ContactV2::from(old)));
    let contacts = contacts.build().unwrap();
    contacts.ensure_indexes().await.unwrap();
    contacts.insert(&doc! { "_id": 3, "name": "Ann" }).await.unwrap();
    let set = || doc! { "$set": { "name": "Bea" } };
    contacts.update(3, set()).await.unwrap();
    assert_eq!(contacts.get(1).await.unwrap(), Some(v2(1)));
    unsupported(contacts.update(1, set()).await);
    unsupported(contacts.migrate().await);
    assert_eq!(stored.find_one(doc! { "_id": 1 }).await.unwrap(), Some(v1(1)));
    let contacts = builder().pipeline_step(1, stages()).build().unwrap();
    contacts.update(1, doc! { "$set": { "n": 1 } }).await.unwrap();
    assert_eq!(contacts.migrate().await.unwrap().documents, 1);
}

#[tokio::test]
async fn plain_steps_of_a_service_run() {
    use schema::steps::{assert_error, in_transaction, list};
    let database = standalone().await;
    let error = in_transaction(list(&database, &["a"]), "b").run().await.unwrap_err();
    assert_error(&error, ErrorKind::Unsupported, None);
    assert!(error.to_string().contains("`rs.initiate()`"), "{error}");
    assert_empty(&database).await;
    assert_eq!(list(&database, &["a"]).run().await.unwrap().steps, ["a"]);
    assert_eq!(list(&database, &["a"]).run().await.unwrap().steps, Vec::<String>::new());
}

#[tokio::test]
async fn writes_of_subsets_are_refused_and_store_nothing() {
    use subset::{Products, builder, day, review};
    let database = standalone().await;
    let [parents, children] = ["product", "review"].map(|name| database.collection::<Document>(name));
    parents.insert_one(doc! { "_id": 1 }).await.unwrap();
    let stored = doc! { "review_id": 1, "product_id": 1, "review_author": "Kristina", "published_date": day(1) };
    children.insert_one(stored).await.unwrap();
    let before = (all(&parents).await, all(&children).await);
    let products: Products = builder(&database).build().unwrap();
    for index in products
        .indexes()
        .iter()
        .flat_map(mongo_patterns::index::IndexPlan::indexes)
    {
        children.create_index(index.to_model()).await.unwrap();
    }
    let mut session = database.client().start_session().await.unwrap();
    let set = doc! { "$set": { "stars": 5 } };
    assert_unsupported(products.insert(&review(2)).await);
    assert_unsupported(products.insert(&review(2)).session(&mut session).await);
    assert_unsupported(products.insert_many(&[review(2), review(3)]).await);
    assert_unsupported(products.update(1, 1, set).await);
    assert_unsupported(products.replace(&review(1)).await);
    assert_unsupported(products.delete(1, 1).await);
    assert_unsupported(products.delete_parent(1).await);
    assert_eq!((all(&parents).await, all(&children).await), before);
}

#[tokio::test]
async fn archives_and_trash_are_refused() {
    let database = standalone().await;
    let of = |name: &str| database.collection::<Document>(name);
    let sales = of("sales");
    let sale = doc! { "_id": 1, "date": DateTime::from_millis(0) };
    sales.insert_one(&sale).await.unwrap();
    let age = std::time::Duration::from_secs(1);
    let archive = Archive::<Document>::builder(sales.clone(), of("archived")).age_field("date");
    let archive = archive.older_than(age).build().unwrap();
    unsupported(archive.ensure_indexes().await);
    unsupported(archive.run().await);
    unsupported(archive.restore(1).await);
    let files = FileArchive::<Document>::builder(sales.clone(), Arc::new(InMemory::new()), "").age_field("date");
    let files = files.older_than(age).build().unwrap();
    unsupported(files.ensure_indexes().await);
    unsupported(files.run().await);
    let trash = Trash::<Document>::builder(sales.clone(), of("deleted"))
        .build()
        .unwrap();
    unsupported(trash.ensure_indexes().await);
    unsupported(trash.delete(1).await);
    unsupported(trash.restore(1).await);
    unsupported(trash.delete_before(DateTime::from_millis(0)).await);
    assert_eq!(all(&sales).await, [sale]);
}

/// Without indexes, which nothing creates there. All calls that need transactions, and those of migrations and repairs.
#[tokio::test]
async fn no_call_names_a_remedy_that_a_standalone_does_not_have() {
    let database = standalone().await;
    let of = |name: &str| database.collection::<Document>(name);
    of("product").insert_one(doc! { "_id": 1 }).await.unwrap();
    of("customers").insert_one(reference::customer(1, "Ann")).await.unwrap();
    of("orders").insert_one(doc! { "_id": 1 }).await.unwrap();
    let outlier = outlier::book(1, 4);
    of("sales")
        .insert_one(mongodb::bson::serialize_to_document(&outlier).unwrap())
        .await
        .unwrap();
    let now = DateTime::from_millis(1000);
    let of_price = |key: &str| support::intervals::price(key, 5);
    let set = || doc! { "$set": { "n": 1 } };

    let products: subset::Products = subset::builder(&database).build().unwrap();
    let policies = history::builder(&database).build().unwrap();
    let policy = history::policy(1);
    let prices = support::intervals::builder(&database).build().unwrap();
    let books: OutlierRepository<outlier::Book, String> = outlier::builder_in(&database)
        .threshold(4)
        .max_overflow_elements(10)
        .unique_elements()
        .build()
        .unwrap();
    let orders = reference::builder(&database).build().unwrap();
    let more = [reference::order(2, 1)];
    let review = subset::review(2);
    let archive = Archive::<Document>::builder(of("sales"), of("archived"))
        .age_field("date")
        .older_than(std::time::Duration::from_secs(1))
        .build()
        .unwrap();
    let trash = Trash::<Document>::builder(of("sales"), of("deleted")).build().unwrap();
    let files = FileArchive::<Document>::builder(of("sales"), Arc::new(InMemory::new()), "")
        .age_field("date")
        .older_than(std::time::Duration::from_secs(1))
        .build()
        .unwrap();
    macro_rules! calls {
        ($($call:expr,)+) => {
            vec![$((stringify!($call), $call.await.map(|_| ()))),+]
        };
    }
    let calls: Vec<(&str, Result<()>)> = calls![
        products.insert(&review),
        products.insert_many(std::slice::from_ref(&review)),
        products.update(1, 1, set()),
        products.replace(&review),
        products.delete(1, 1),
        products.delete_parent(1),
        products.refresh(1),
        products.refresh(1).discard_embedded(),
        products.refresh_all(),
        products.repair().stream().try_collect::<Vec<_>>(),
        products.migrate_existing(),
        products.migrate_from_embedded(),
        products.migrate_layout_from(&products),
        products.follow("f"),
        policies.insert(&policy),
        policies.insert_many(std::slice::from_ref(&policy)),
        policies.update(1, set()),
        policies.update_many(doc! {}, set()),
        policies.upsert(&policy),
        policies.replace(1, &policy),
        policies.restore(1, 1),
        policies.delete(1),
        policies.keep_last(1, 1),
        policies.repair().stream().try_collect::<Vec<_>>(),
        policies.migrate_existing(),
        policies.follow("f"),
        prices.insert(&of_price("a")),
        prices.update("a", set()),
        prices.replace("a", &of_price("a")),
        prices.end("a"),
        prices.repair().stream().try_collect::<Vec<_>>(),
        prices.migrate_existing(),
        books.insert(&outlier::book(2, 9)),
        books.push_unique(1, "user05"),
        books.remove(1, "user09"),
        books.refresh(1),
        books.repair().stream().try_collect::<Vec<_>>(),
        books.migrate_existing(),
        orders.insert_many(&more),
        orders.update_source(1, reference::rename("Bea")),
        orders.delete_source(1),
        orders.refresh_copies(1),
        orders.repair().stream().try_collect::<Vec<_>>(),
        orders.migrate_from_references(),
        orders.follow("f"),
        archive.run(),
        archive.restore(1),
        archive.restore_many(doc! {}),
        archive.delete_before(now),
        trash.delete(1),
        trash.restore(1),
        trash.delete_before(now),
        files.run(),
        files.delete_before(now),
    ];
    for (call, result) in calls {
        let error = result.expect_err(call);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{call}: {error:?}");
    }
    let names = database.list_collection_names().await.unwrap();
    assert_eq!(names.len(), 4, "{names:?}");
}
