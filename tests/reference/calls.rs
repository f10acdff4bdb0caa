//! The calls for one customer of an order, what they store, and their errors.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::reference::*;

#[tokio::test]
async fn the_stored_documents_are_as_documented() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let new = doc! { "_id": 7, "customer": { "_id": 1, "name": "?", "v": 9, "note": "by phone" }, "total": 5 };
        assert_eq!(orders.insert(&new).await.unwrap().id, Bson::from(7));
        let address = doc! { "city": "Dublin" };
        let copy = |name: &str, version: i64| {
            doc! { "_id": 1, "name": name, "address": address.clone(), "v": version, "note": "by phone" }
        };
        assert_eq!(
            all(&stored(db)).await,
            [doc! { "_id": 7, "customer": copy("Ann", 0), "total": 5 }]
        );

        let updated = orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!((updated.version, updated.copies_updated), (1, 1));
        assert_eq!(copy_in(db, 7).await, copy("Bea", 1));
        let mut expected = customer(1, "Bea");
        expected.insert("v", 1_i64);
        assert_eq!(all(&customers(db)).await, [expected, customer(2, "Ann")]);
        assert_eq!(assert_current(db, &orders).await, 1);

        // Without an `_id`, the order gets one.
        let inserted = orders.insert(&doc! { "customer": { "_id": 2 } }).await.unwrap();
        assert!(matches!(inserted.id, Bson::ObjectId(_)));
        assert_eq!(copy_in(db, inserted.id).await.get_str("name").unwrap(), "Ann");
    })
    .await;
}

#[tokio::test]
async fn an_order_can_have_no_customer() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for new in [doc! { "_id": 1, "total": 5 }, doc! { "_id": 2, "customer": null }] {
            orders.insert(&new).await.unwrap();
            assert_eq!(names(db), "insert");
            assert_eq!(orders.get(new.get("_id").unwrap().clone()).await.unwrap(), Some(new));
            db.recorder().clear();
        }
        orders.set_reference(2, 1).await.unwrap();
        assert_eq!(assert_current(db, &orders).await, 1);
    })
    .await;
}

#[tokio::test]
async fn each_call_takes_the_documented_round_trips() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        assert_eq!(names(db), "find insert find");
        orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!(names(db), "findAndModify update");
        orders.update_source(1, doc! { "$inc": { "visits": 1 } }).await.unwrap();
        assert_eq!(names(db), "findAndModify");
        orders.set_reference(7, 2).await.unwrap();
        assert_eq!(names(db), "find update find");
        orders.get(7).await.unwrap();
        assert_eq!(names(db), "find");
        orders.get(7).max_staleness(0).await.unwrap();
        assert_eq!(names(db), "find find");
        orders.delete_source(2).await.unwrap_err();
        assert_eq!(names(db), "update find update");
        orders.clear_reference(7).await.unwrap();
        assert_eq!(names(db), "update");
        orders.delete_source(2).await.unwrap();
        assert_eq!(names(db), "update find delete");
        orders.set_reference(7, 1).await.unwrap();
        db.recorder().clear();
        delete(&orders, 1, OnReferences::KeepCopy).await;
        assert_eq!(names(db), "delete update");
    })
    .await;
}

#[tokio::test]
async fn an_unknown_customer_is_refused_and_nothing_is_stored() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = contents(db).await;
        let visit = doc! { "$inc": { "visits": 1 } };
        for error in [
            orders.insert(&order(8, 3)).await.unwrap_err(),
            orders.set_reference(7, 3).await.unwrap_err(),
            orders.update_source(3, rename("Bea")).await.unwrap_err(),
            orders.update_source(3, visit).await.unwrap_err(),
            // No `_id` has an operator, and it matches none.
            orders
                .update_source(doc! { "$gt": "" }, rename("Bea"))
                .await
                .unwrap_err(),
            // An order that does not exist.
            orders.set_reference(9, 1).await.unwrap_err(),
            orders.clear_reference(9).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert_eq!(error.pattern(), Some("reference"));
            assert!(!error.is_transient() && !error.is_outcome_unknown());
        }
        for rule in [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear] {
            assert_eq!(delete(&orders, 3, rule).await, (false, 0));
        }
        for id in [doc! { "$gt": "" }, doc! { "$eq": 1, "a": 2 }] {
            assert!(orders.insert(&order(8, id.clone())).await.is_err(), "{id}");
        }
        assert_eq!(orders.get(9).await.unwrap(), None);
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn an_existing_order_is_refused_and_not_changed() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = contents(db).await;
        let error = orders.insert(&order(7, 2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn a_reference_is_replaced_and_cleared() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.update_source(2, rename("Bea")).await.unwrap();
        orders.insert(&order(7, 1)).await.unwrap();
        assert!(orders.set_reference(7, 2).await.unwrap().modified);
        let expected = doc! { "_id": 2, "name": "Bea", "address": { "city": "Dublin" }, "v": 1_i64 };
        assert_eq!(copy_in(db, 7).await, expected);
        assert!(!orders.set_reference(7, 2).await.unwrap().modified);
        assert_eq!(orders.update_source(1, rename("Cas")).await.unwrap().copies_updated, 0);
        assert_eq!(orders.update_source(2, rename("Dan")).await.unwrap().copies_updated, 1);
        assert_eq!(assert_current(db, &orders).await, 1);

        assert!(orders.clear_reference(7).await.unwrap().modified);
        assert!(!orders.clear_reference(7).await.unwrap().modified);
        assert_eq!(all(&stored(db)).await, [doc! { "_id": 7, "total": 5 }]);
    })
    .await;
}

#[tokio::test]
async fn an_update_sweeps_if_it_changes_a_copied_field() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = copy_in(db, 7).await;
        for update in [
            doc! { "$inc": { "visits": 1 } },
            doc! { "$set": { "names": 1, "addressee": 2 } },
            doc! { "$unset": { "visits": "" } },
            doc! { "$set": { "prices": [1, 2] } },
            // A position in an array is no positional operator.
            doc! { "$set": { "prices.0": 5 } },
        ] {
            let updated = orders.update_source(1, update).await.unwrap();
            assert_eq!((updated.version, updated.copies_updated), (0, 0));
        }
        assert_eq!(copy_in(db, 7).await, before);
        let source = customers(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(source.get_array("prices").unwrap(), &[Bson::Int32(5), Bson::Int32(2)]);
        for (update, version) in [
            (doc! { "$set": { "address.city": "Cork" } }, 1),
            (doc! { "$unset": { "address": "" } }, 2),
            (doc! { "$set": { "address": { "city": "Cork", "zip": "T12" } } }, 3),
            (doc! { "$set": { "name": "Bea", "visits": 3 } }, 4),
        ] {
            let updated = orders.update_source(1, update.clone()).await.unwrap();
            assert_eq!(
                (updated.version, updated.copies_updated),
                (version, version),
                "{update}"
            );
            // A field that the source does not have is not in its copies either.
            assert_eq!(copy_in(db, 7).await.contains_key("address"), version != 2);
            orders.insert(&order(format!("at {version}"), 1)).await.unwrap();
            assert_eq!(copy_in(db, format!("at {version}")).await, copy_in(db, 7).await);
            assert_eq!(assert_current(db, &orders).await as u64, version + 1);
        }
    })
    .await;
}

/// Writes a newer version of the customer as a process does that dies before its sweep.
async fn died_after_rename(db: &TestDatabase, names: &[&str]) {
    for name in names {
        let update = doc! { "$set": { "name": name }, "$inc": { "v": 1_i64 } };
        customers(db).update_one(doc! { "_id": 1 }, update).await.unwrap();
    }
}

#[tokio::test]
async fn a_read_replaces_copies_that_are_too_old() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        orders.insert(&doc! { "_id": 8, "total": 1 }).await.unwrap();
        died_after_rename(db, &["Bea", "Cas"]).await;
        let name = |order: Option<Document>| {
            let order = order.unwrap();
            let customer = order.get_document("customer").unwrap().clone();
            (customer.get_str("name").unwrap().to_owned(), number(&customer, "v"))
        };
        let old = ("Ann".to_owned(), 0);
        let fresh = ("Cas".to_owned(), 2);
        assert_eq!(name(orders.get(7).await.unwrap()), old);
        for (versions, expected) in [(0, &fresh), (1, &fresh), (2, &old), (u32::MAX, &old)] {
            assert_eq!(name(orders.get(7).max_staleness(versions).await.unwrap()), *expected);
        }
        // The read does not store what it returns.
        assert_eq!(problems(&orders).await.len(), 1);
        let without = orders.get(8).max_staleness(0).await.unwrap().unwrap();
        assert_eq!(without, doc! { "_id": 8, "total": 1 });
        assert_eq!(orders.get(9).max_staleness(0).await.unwrap(), None);
        // A source that was deleted leaves the copy as it is.
        customers(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        assert_eq!(name(orders.get(7).max_staleness(0).await.unwrap()), old);
    })
    .await;
}

#[tokio::test]
async fn a_sweep_updates_what_a_process_left_that_died() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for (id, customer) in [(7, 1), (8, 1), (9, 2)] {
            orders.insert(&order(id, customer)).await.unwrap();
        }
        let nothing = orders.sweep().await.unwrap();
        assert_eq!((nothing.sources, nothing.copies), (0, 0));
        for of_source in [false, true] {
            died_after_rename(db, &["Bea", "Cas"]).await;
            assert_eq!(judge(db).await.stale, 2);
            let other = orders.sweep().source(2).await.unwrap();
            assert_eq!((other.sources, other.copies), (0, 0));
            let swept = match of_source {
                true => orders.sweep().source(1).await.unwrap(),
                false => orders.sweep().await.unwrap(),
            };
            assert_eq!((swept.sources, swept.copies), (1, 2));
            assert_eq!(assert_current(db, &orders).await, 3);
        }
        // Orders that a program stored without a version.
        let unversioned = doc! { "_id": 10, "customer": { "_id": 1, "name": "?" } };
        stored(db).insert_one(unversioned).await.unwrap();
        let swept = orders.sweep().await.unwrap();
        assert_eq!((swept.sources, swept.copies), (1, 1));
        assert_eq!(assert_current(db, &orders).await, 4);
        let unknown = orders.sweep().source(77).await.unwrap();
        assert_eq!((unknown.sources, unknown.copies), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn without_the_index_an_update_of_a_source_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let first = with_customers(db).await;
        first.insert(&order(7, 1)).await.unwrap();
        stored(db).drop_index("customer._id_1_customer.v_1").await.unwrap();
        let orders = builder(db.database()).build().unwrap();
        let before = contents(db).await;
        for error in [
            orders.update_source(1, rename("Bea")).await.unwrap_err(),
            orders.delete_source(1).await.unwrap_err(),
            orders.sweep().await.unwrap_err(),
            orders.sweep().source(1).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");
            assert!(
                error.is_setup_error() && error.to_string().contains("ensure_indexes()"),
                "{error}"
            );
        }
        assert_eq!(contents(db).await, before);

        // A repository that has seen the index: the source is updated, the copies are not.
        let error = first.update_source(1, rename("Bea")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.stored_count()),
            (ErrorKind::IndexMissing, Some(1)),
            "{error}"
        );
        assert_eq!(judge(db).await.stale, 1);
        assert_eq!(
            first.ensure_indexes().await.unwrap().created,
            ["customer._id_1_customer.v_1"]
        );
        first.sweep().source(1).await.unwrap();
        assert_current(db, &first).await;
    })
    .await;
}

#[tokio::test]
async fn concurrent_ensure_indexes_create_each_index_once() {
    testkit::run(async |db| {
        let orders = builder(db.database()).build().unwrap();
        let ensured = join_all((0..4).map(|_| orders.ensure_indexes().into_future())).await;
        assert!(ensured.into_iter().all(|ensured| ensured.is_ok()));
        assert_eq!(orders.ensure_indexes().await.unwrap().created, [""; 0]);
        let indexes = stored(db).list_index_names().await.unwrap();
        assert!(
            indexes.contains(&"customer._id_1_customer.v_1".to_owned()),
            "{indexes:?}"
        );
        assert_eq!(orders.indexes().len(), 1);
    })
    .await;
}
