//! The kinds of errors: through the driver's transactions, of unique indexes and validators of the application, and of
//! documents in a second collection.

use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{ClientSession, Collection, IndexModel};

use support::common::*;
use support::{embedded, history, outlier, reference, subset};

/// Runs a call by itself, and in a callback of the driver's transactions.
async fn refused_in_both(
    db: &TestDatabase,
    expected: ErrorKind,
    call: impl AsyncFn(Option<&mut ClientSession>) -> Result<(), Error>,
) {
    let alone = call(None).await.unwrap_err();
    assert_eq!(alone.kind(), expected, "{alone}");
    let mut session = db.client().start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session| {
        call(Some(session)).await?;
        Ok(())
    });
    let driver = run.await.unwrap_err();
    let back = Error::from(driver);
    assert_eq!(back.kind(), expected, "{back}");
    assert!(!back.is_transient() && !back.is_outcome_unknown(), "{back}");
    assert_eq!((back.pattern(), back.operation()), (alone.pattern(), alone.operation()));
}

/// Calls an action in the session, if there is one.
macro_rules! call {
    ($call:expr) => {
        async |session| match session {
            None => $call.await.map(drop),
            Some(session) => $call.session(session).await.map(drop),
        }
    };
}

#[tokio::test]
async fn a_refusal_keeps_its_kind_in_the_drivers_transactions() {
    testkit::run(async |db| {
        use ErrorKind::{AlreadyExists, ChildNotFound, DuplicateKey, NotFound, RevisionMismatch};

        let orders = reference::with_customers(db).await;
        let order = reference::order(1, 1);
        orders.insert(&order).await.unwrap();
        refused_in_both(db, AlreadyExists, call!(orders.insert(&order))).await;
        let of_none = reference::order(2, 9);
        refused_in_both(db, NotFound, call!(orders.insert(&of_none))).await;

        let patrons = embedded::patrons(db);
        let joe = embedded::patron("joe", [embedded::address(1)]);
        embedded::plant(db, &joe).await;
        refused_in_both(db, AlreadyExists, call!(patrons.insert(&joe))).await;
        let address = embedded::address(1);
        refused_in_both(db, AlreadyExists, call!(patrons.add_child("joe", &address))).await;

        let policies = history::policies(db).await;
        let policy = history::policy(1);
        policies.insert(&policy).await.unwrap();
        refused_in_both(db, AlreadyExists, call!(policies.insert(&policy))).await;
        let change = doc! { "$set": { "customerName": "Ann" } };
        refused_in_both(
            db,
            RevisionMismatch,
            call!(policies.update(1, change.clone()).expecting(7)),
        )
        .await;

        let books = outlier::books(db).await;
        let (small, large) = (outlier::book(1, 2), outlier::book(2, 60));
        books.insert(&small).await.unwrap();
        books.insert(&large).await.unwrap();
        refused_in_both(db, AlreadyExists, call!(books.insert(&small))).await;
        refused_in_both(db, AlreadyExists, call!(books.insert(&large))).await;

        let products = subset::products(db).await;
        let review = subset::review(1);
        products.insert(&review).await.unwrap();
        refused_in_both(db, AlreadyExists, call!(products.insert(&review))).await;
        let rated = doc! { "$set": { "rating": 1 } };
        refused_in_both(db, ChildNotFound, call!(products.update(1, 9, rated.clone()))).await;

        if !is_sharded(db) {
            unique(&reference::stored(db), "total").await;
            let same_total = reference::order(3, 1);
            refused_in_both(db, DuplicateKey, call!(orders.insert(&same_total))).await;
        }
    })
    .await;
}

fn is_sharded(db: &TestDatabase) -> bool {
    db.server().topology() == testkit::Topology::Sharded
}

async fn unique(collection: &Collection<Document>, field: &str) {
    let options = IndexOptions::builder().unique(true).sparse(true).build();
    let index = IndexModel::builder().keys(doc! { field: 1 }).options(options).build();
    collection.create_index(index).await.unwrap();
}

/// Asserts that a call is refused by an index of the application, without a retry.
async fn refused_at_once<T: std::fmt::Debug>(db: &TestDatabase, call: impl Future<Output = Result<T, Error>>) -> Error {
    db.recorder().clear();
    let error = call.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert!(!error.is_transient() && error.attempts().is_none(), "{error}");
    let names = db.recorder().names();
    assert!(names.len() <= 8, "{names:?}");
    error
}

/// The races of other writers have duplicate keys too. Those of the application's own indexes are no races.
#[tokio::test]
async fn a_unique_index_of_the_application_is_not_taken_for_a_race() {
    testkit::run(async |db| {
        // A sharded collection has only unique indexes that start with its shard key.
        if is_sharded(db) {
            return;
        }
        let orders = reference::with_customers(db).await;
        let customers = reference::customers(db);
        let rename = reference::rename;
        orders.update_source(1, rename("Ann")).await.unwrap();
        orders.update_source(2, rename("Bob")).await.unwrap();
        for (id, customer) in [(1, 1), (2, 2)] {
            orders.insert(&reference::order(id, customer)).await.unwrap();
        }
        unique(&reference::stored(db), "customer.name").await;
        let error = refused_at_once(db, orders.update_source(2, rename("Ann")).into_future()).await;
        assert_eq!(error.stored_count(), Some(1), "{error}");
        assert!(error.to_string().contains("the source is updated"), "{error}");
        let updated = customers.find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
        assert_eq!(updated.get_str("name").unwrap(), "Ann");
        unique(&customers, "email").await;
        let updated = customers.update_one(doc! { "_id": 1 }, doc! { "$set": { "email": "a@b" } });
        updated.await.unwrap();
        let email = doc! { "$set": { "email": "a@b" } };
        let error = refused_at_once(db, orders.update_source(2, email).into_future()).await;
        assert_eq!(error.stored_count(), None, "{error}");

        let books = outlier::books(db).await;
        books.insert(&outlier::book(1, 1)).await.unwrap();
        books.insert(&outlier::book(2, 0)).await.unwrap();
        books.push(2, &"other".to_owned()).await.unwrap();
        unique(&outlier::sales(db), "customers_purchased").await;
        refused_at_once(db, books.push(2, &"user00".to_owned()).into_future()).await;

        let products = subset::products(db).await;
        let reviews = subset::reviews(db);
        products.insert(&subset::review(1)).await.unwrap();
        products.insert(&subset::review(2)).await.unwrap();
        let nick = |nick: &str| doc! { "$set": { "nick": nick } };
        reviews.update_one(doc! { "review_id": 2 }, nick("b")).await.unwrap();
        unique(&reviews, "nick").await;
        refused_at_once(db, products.update(1, 1, nick("b")).into_future()).await;

        let policies = history::policies(db).await;
        for (id, name) in [(1, "Ann"), (2, "Bob")] {
            let policy = doc! { "policyId": id, "customerName": name, "itemsInsured": [] };
            policies.insert(&policy).await.unwrap();
        }
        unique(&history::current(db), "customerName").await;
        let rename = doc! { "$set": { "customerName": "Bob" } };
        refused_at_once(db, policies.update(1, rename).into_future()).await;
    })
    .await;
}

/// Sets a validator that refuses documents in which a field is 13.
async fn refuse_13(db: &TestDatabase, collection: &str, field: &str) {
    let validator = doc! { field: { "$ne": 13 } };
    let command = doc! { "collMod": collection, "validator": validator };
    db.plain_client()
        .database(db.database().name())
        .run_command(command)
        .await
        .unwrap();
}

fn assert_invalid(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::ValidationFailed, "{error}");
    assert!(error.is_invalid_input() && !error.is_transient(), "{error}");
    assert!(error.to_string().contains("validator"), "{error}");
}

#[tokio::test]
async fn the_validator_of_the_application_refuses_invalid_input() {
    testkit::run(async |db| {
        let trades = trades_of_documents(db).await;
        trades.append(&1, &doc! { "date": at(0), "ticker": 1 }).await.unwrap();
        refuse_13(db, plain(db).name(), "history.ticker").await;
        let item = doc! { "date": at(1), "ticker": 13 };
        assert_invalid(&trades.append(&1, &item).await.unwrap_err());
        // Of joined calls, one is refused.
        let items: Vec<Document> = (10..20).map(|n| doc! { "date": at(n), "ticker": n }).collect();
        let appends = items.iter().map(|item| trades.append(&2, item).into_future());
        for (n, appended) in (10..20).zip(futures::future::join_all(appends).await) {
            match n {
                13 => assert_invalid(&appended.unwrap_err()),
                _ => drop(appended.unwrap()),
            }
        }

        let books = outlier::ready(db, outlier::builder::<Document, Bson>(db)).await;
        books.insert(&doc! { "_id": 1 }).await.unwrap();
        refuse_13(db, "sales", "customers_purchased").await;
        assert_invalid(&books.push(1, &Bson::Int32(13)).await.unwrap_err());

        let products = subset::products(db).await;
        products.insert(&subset::review(1)).await.unwrap();
        refuse_13(db, "review", "rating").await;
        let rated = doc! { "$set": { "rating": 13 } };
        assert_invalid(&products.update(1, 1, rated).await.unwrap_err());

        let policies = history::policies(db).await;
        policies.insert(&history::policy(1)).await.unwrap();
        refuse_13(db, "currentPolicies", "premium").await;
        let premium = doc! { "$set": { "premium": 13 } };
        assert_invalid(&policies.update(1, premium).await.unwrap_err());
        assert_eq!(history::findings(&policies).await, []);

        let orders = reference::with_customers(db).await;
        refuse_13(db, "orders", "total").await;
        let order = doc! { "_id": 1, "customer": { "_id": 1 }, "total": 13 };
        assert_invalid(&orders.insert(&order).await.unwrap_err());

        embedded::plant(db, &embedded::patron("joe", [])).await;
        refuse_13(db, "patron", "addresses.zip").await;
        let address = doc! { "id": 1, "zip": 13 };
        assert_invalid(&embedded::patrons(db).add_child("joe", &address).await.unwrap_err());
    })
    .await;
}

/// The update has changed the source by then, and the error reports it.
#[tokio::test]
async fn an_update_of_a_source_with_an_invalid_version_reports_that_it_is_stored() {
    testkit::run(async |db| {
        let orders = reference::with_customers(db).await;
        let customers = reference::customers(db);
        for version in [Bson::Double(1.5), Bson::Int64(i64::MIN)] {
            let set = doc! { "$set": { "v": version, "name": "Ann" } };
            customers.update_one(doc! { "_id": 1 }, set).await.unwrap();
            let error = orders.update_source(1, reference::rename("Eve")).await.unwrap_err();
            assert!(error.is_corrupt(), "{error}");
            assert_eq!(error.stored_count(), Some(1), "{error}");
            assert!(error.to_string().contains("the source is updated"), "{error}");
            assert_eq!(error.document_namespace().unwrap().coll, "customers");
            let stored = customers.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            assert_eq!(stored.get_str("name").unwrap(), "Eve");
        }
    })
    .await;
}

#[tokio::test]
async fn an_error_names_the_collection_of_its_document() {
    testkit::run(async |db| {
        let at_fault = |error: Error, collection: &str, field: Option<&str>| {
            let named = error.document_namespace().map(|namespace| namespace.coll.as_str());
            assert_eq!((named, error.field()), (Some(collection), field), "{error}");
            let is_other = error.namespace().unwrap().coll != collection;
            assert_eq!(
                error
                    .to_string()
                    .contains(&format!("(document of {}", db.database().name())),
                is_other,
                "{error}"
            );
            error.document_id().cloned().unwrap()
        };
        let policies = history::policies(db).await;
        policies.insert(&history::policy(1)).await.unwrap();
        let foreign = history::revisions(db).insert_one(doc! { "o": "u" }).await.unwrap();
        let error = policies.migrate_existing().await.unwrap_err();
        assert_eq!(
            at_fault(error, "policyRevisions", Some("policyId")),
            foreign.inserted_id
        );

        let books = outlier::managed(db, 2, 5).await;
        books.insert(&outlier::book(1, 1)).await.unwrap();
        let flagged = doc! { "$set": { "has_extras": true } };
        outlier::sales(db).update_one(doc! { "_id": 1 }, flagged).await.unwrap();
        let foreign = doc! { "book_id": 1, "customers_purchased_extra": "x" };
        let foreign = outlier::extra_sales(db).insert_one(foreign).await.unwrap().inserted_id;
        let error = books.elements(1).await.unwrap_err();
        let field = Some("customers_purchased_extra");
        assert_eq!(at_fault(error, "extra_sales", field), foreign);
        assert_eq!(
            at_fault(books.get_full(1).await.unwrap_err(), "extra_sales", field),
            foreign
        );
        assert_eq!(
            at_fault(books.migrate_existing().await.unwrap_err(), "extra_sales", field),
            foreign
        );

        let products = subset::products(db).await;
        let foreign = doc! { "product_id": 1, "review_id": 1, "published_date": subset::day(1) };
        let foreign = subset::reviews(db).insert_one(foreign).await.unwrap().inserted_id;
        let author = Some("review_author");
        assert_eq!(
            at_fault(products.child(1, 1).await.unwrap_err(), "review", author),
            foreign
        );
        assert_eq!(
            at_fault(products.children(1).page().await.unwrap_err(), "review", author),
            foreign
        );
    })
    .await;
}
