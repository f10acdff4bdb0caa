//! The round trips that the documentation of the crates promises, at default sizes and after the first check of the indexes.

use std::future::IntoFuture;

use mongo_patterns::counters::Counters;
use mongo_patterns::reference::{OnReferences, Reference};
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, Document, doc};

use support::archive::{files, sales, users};
use support::common::{builder, spread};
use support::{embedded, history, intervals, outlier, reference, schema, subset};

/// Makes each call, also one that is refused, and counts its round trips.
macro_rules! check {
    ($db:expr, $($call:expr => $round_trips:expr),+ $(,)?) => {$(
        $db.recorder().clear();
        let _ = $call.await;
        let names = $db.recorder().names();
        assert_eq!($db.recorder().round_trips(), $round_trips, "{} {names:?}", stringify!($call));
    )+};
}

#[tokio::test]
async fn archives_and_trashes() {
    testkit::run(async |db| {
        let archive = sales::archive(db).await;
        sales::plant(db, [1, 2].map(|id| sales::sale(id, sales::old(0)))).await;
        let archived = sales::archived(db);
        archived.insert_one(sales::sale(3, sales::old(0))).await.unwrap();
        let trash = users::trash(db).await;
        users::users(db).insert_one(users::user(1)).await.unwrap();
        check!(
            db,
            archive.get(1) => 1,
            archive.get(3) => 2,
            archive.get(9) => 3,
            archive.list(doc! {}).page() => 2,
            archive.due() => 1,
            archive.restore(3) => 4,
            archive.run() => 4 + 4,
            archive.restore_many(doc! { "customer_name": "Claire" }) => 5 + 4,
            archive.run() => 4 + 4,
            archive.delete_before(sales::old(9)) => 4 + 1,
            trash.delete(1) => 3,
            trash.list().page() => 1,
            trash.restore(1) => 4,
        );
        // Two chunks, of which each is one batch.
        sales::plant(db, (1000..2000).map(|id| sales::sale(id, sales::old(0)))).await;
        check!(
            db,
            archive.run() => 4 + 4 + 4,
            archive.restore_many(doc! {}) => 4 + 4 + 4,
        );
    })
    .await;
}

#[tokio::test]
async fn archives_in_files() {
    testkit::run(async |db| {
        let archive = files::archive(db).await;
        files::plant(db, (1000..2000).map(|id| sales::sale(id, sales::old(0)))).await;
        check!(db, archive.run() => 4 + 6, archive.run() => 4);
    })
    .await;
}

#[tokio::test]
async fn histories_and_intervals() {
    testkit::run(async |db| {
        let policies = history::with_policy(db).await;
        let prices = intervals::prices(db).await;
        prices.insert(&intervals::price("pants", 1)).await.unwrap();
        check!(
            db,
            policies.insert(&history::policy(2)) => 4,
            policies.insert_many(&[history::policy(3), history::policy(4)]) => 5,
            policies.replace(1, &history::policy(1)) => 3,
            policies.update(1, vec![doc! { "$set": { "n": 1 } }]) => 3,
            policies.upsert(&history::policy(1)) => 3,
            policies.get(1) => 1,
            policies.at(1, 1) => 1,
            policies.as_of(1, DateTime::now()) => 1,
            policies.diff(1, 1, 2) => 2,
            policies.revisions(1).page() => 1,
            policies.restore(1, 1) => 4,
            policies.keep_last(1, 1) => 2,
            policies.delete(1) => 4,
            prices.insert(&intervals::price("hat", 1)) => 3,
            prices.update("hat", intervals::to(2)) => 3,
            prices.replace("hat", &intervals::price("hat", 3)) => 3,
            prices.get("hat") => 1,
            prices.as_of("hat", DateTime::now()) => 1,
            prices.intervals("hat").page() => 1,
            prices.end("hat") => 1,
        );
    })
    .await;
}

#[tokio::test]
async fn references() {
    testkit::run(async |db| {
        let members = Reference::new("members").copied_fields(["name"]).array();
        let builder = reference::builder(db.database()).add_reference(members);
        let orders = reference::ready(db, builder).await;
        reference::add_customers(db, 1..=4).await;
        reference::check_indexes(db, &orders).await;
        check!(
            db,
            orders.insert(&reference::order(1, 1)) => 3,
            orders.get(1) => 1,
            orders.get(1).max_staleness(0) => 2,
            orders.set_reference(1, 2).field("customer") => 3,
            orders.add_reference_to(1, 3).field("members") => 3,
            // It has the reference already.
            orders.add_reference_to(1, 3).field("members") => 3,
            orders.remove_reference(1, 3).field("members") => 1,
            orders.update_source(2, reference::rename("Bea")) => 1 + 2,
            orders.update_source(2, doc! { "$inc": { "visits": 1 } }) => 1,
            orders.clear_reference(1).field("customer") => 1,
            orders.delete_source(2) => 2 + 2,
            orders.delete_source(3).on_references(OnReferences::KeepCopy) => 1 + 2,
        );
    })
    .await;
}

#[tokio::test]
async fn single_documents() {
    testkit::run(async |db| {
        let contacts = schema::contacts::on_server(db);
        contacts.ensure_indexes().await.unwrap();
        schema::contacts::plant(db, [schema::contacts::v2(1), schema::contacts::v1(2)]).await;
        let patrons = embedded::patrons(db);
        embedded::plant(db, &embedded::patron(1, [])).await;
        let books = outlier::books(db).await;
        books.insert(&outlier::book(1, 5)).await.unwrap();
        check!(
            db,
            contacts.insert(&doc! { "_id": 3, "name": "Ann" }) => 1,
            contacts.get(1) => 1,
            contacts.get(2) => 2,
            contacts.update(1, doc! { "$set": { "n": 1 } }) => 1,
            contacts.update(2, doc! { "$set": { "n": 1 } }) => 4,
            contacts.update(9, doc! { "$set": { "n": 1 } }) => 2,
            contacts.replace(1, &doc! { "name": "Ann" }) => 1,
            contacts.delete(1) => 1,
            contacts.versions() => 1,
            patrons.add_child(1, &embedded::address("home")) => 1,
            patrons.get(1) => 1,
            patrons.child(1, "home") => 1,
            patrons.update_child(1, "home", doc! { "$set": { "zip": "1" } }) => 1,
            patrons.update_child(1, "work", doc! { "$set": { "zip": "1" } }) => 2,
            patrons.remove_child(1, "home") => 1,
            books.push(1, &"ann".to_owned()) => 1,
            books.get(1) => 1,
            books.count(1) => 1,
            books.contains(1, &"ann".to_owned()) => 1,
            books.remove(1, &"ann".to_owned()) => 1,
            books.delete(1) => 1,
        );
    })
    .await;
}

/// A migration that fails would take fewer.
async fn migrated<T>(migration: impl IntoFuture<Output = Result<T>>) {
    migration.await.unwrap();
}

#[tokio::test]
async fn counts() {
    testkit::run(async |db| {
        let views = Counters::builder(db.collection::<Document>("articles"))
            .field("views")
            .upsert();
        let views = views.build().unwrap();
        check!(db, views.flush() => 0);
        for article in 0..1001 {
            views.add(article, 1).unwrap();
        }
        check!(db, views.flush() => 2, views.flush() => 0);
    })
    .await;
}

#[tokio::test]
async fn migrations_of_times_and_versions() {
    testkit::run(async |db| {
        let policies = history::migrate::by_the_recipe(db).await;
        intervals::by_the_recipe(&intervals::stored(db), "pants", 1002).await;
        let prices = intervals::builder(db.database()).build().unwrap();
        check!(
            db,
            // One number is stored twice.
            migrated(policies.migrate_existing()) => 21 + 2,
            migrated(policies.migrate_existing()) => 10 + 1,
            migrated(prices.migrate_existing()) => 10 + 2 + 2,
            migrated(prices.migrate_existing()) => 6 + 2,
        );
        for (contacts, of_chunk) in schema::contacts::both(db).into_iter().zip([3, 1]) {
            contacts.ensure_indexes().await.unwrap();
            schema::contacts::stored(db).delete_many(doc! {}).await.unwrap();
            schema::contacts::plant(db, (0..900).map(schema::contacts::v1)).await;
            check!(db, migrated(contacts.migrate()) => 3 + 2 * of_chunk, migrated(contacts.migrate()) => 3);
        }
    })
    .await;
}

#[tokio::test]
async fn migrations_of_lists() {
    testkit::run(async |db| {
        let books: outlier::Books = outlier::builder(db).build().unwrap();
        let lists = vec![outlier::damage::main_of(1, 0..60)];
        outlier::damage::plant(db, lists, vec![]).await;
        subset::migration::fill(db, 5).await;
        let products = subset::migration::unmigrated(db);
        check!(
            db,
            migrated(books.migrate_existing()) => 4 + 12,
            migrated(books.migrate_existing()) => 4,
            books.refresh(1) => 3,
            migrated(products.migrate_from_embedded()) => 20 + 4,
            migrated(products.migrate_existing()) => 9 + 1,
        );
    })
    .await;
}

#[tokio::test]
async fn buckets() {
    testkit::run(async |db| {
        let trades = builder(db).build().unwrap();
        trades.ensure_indexes().await.unwrap();
        trades.append(&1, &spread(0)).await.unwrap();
        let many: Vec<_> = (1..30).map(spread).collect();
        check!(
            db,
            trades.append(&1, &spread(0)) => 1,
            trades.append_many(&1, &many[..3]) => 1,
            trades.append_many(&1, &many) => 2,
            trades.page(&1, 2) => 1,
            trades.buckets(&1).page() => 1,
            trades.items(&1).page() => 1,
            trades.newest(&1, 5) => 1,
            trades.counts(&1) => 1,
            trades.count_pages(&1) => 1,
            trades.keys() => 1,
            trades.find_items(doc! { "history.n": 3 }) => 1,
            trades.delete_key_before(&1, spread(5).date) => 1,
            trades.delete_before(spread(20).date) => 2 + 1,
            trades.delete_key(&1) => 2,
        );
    })
    .await;
}

#[tokio::test]
async fn subsets() {
    testkit::run(async |db| {
        let products = subset::products(db).await;
        let reviews: Vec<_> = (10..20).map(subset::review).collect();
        products.insert(&subset::review(1)).await.unwrap();
        check!(
            db,
            products.insert(&subset::review(2)) => 4,
            products.insert_many(&reviews) => 4,
            products.update(1, 2, doc! { "$set": { "review_author": "Ann" } }) => 4,
            products.replace(&subset::review(2)) => 4,
            products.delete(1, 2) => 4,
            products.get(1) => 1,
            products.child(1, 1) => 1,
            products.children(1).page() => 1,
            products.refresh(1) => 3,
            products.refresh_all() => 2,
            products.delete_parent(1) => 3,
        );
    })
    .await;
}
