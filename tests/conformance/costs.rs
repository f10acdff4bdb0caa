//! The round trips that the documentation of the crates promises, at default sizes and after the first check of the indexes.

use mongo_patterns::Repository;
use mongo_patterns::reference::{OnReferences, Reference};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, doc};

use support::archive::{sales, users};
use support::{embedded, history, intervals, outlier, reference, schema};

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
