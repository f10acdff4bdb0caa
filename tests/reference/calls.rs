//! The calls for one customer of an order, what they store, and their errors.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{Bson, doc};

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
        assert_eq!((updated.version, updated.copies), (1, 1));
        assert_eq!(copy_in(db, 7).await, copy("Bea", 1));
        let mut expected = customer(1, "Bea");
        expected.insert("v", 1_i64);
        assert_eq!(all(&customers(db)).await, [expected, customer(2, "Ann")]);
        assert_eq!(assert_current(db, &orders).await, 1);

        // Without an `_id`, the order gets one.
        let inserted = orders.insert(&doc! { "customer": { "_id": 2 } }).await.unwrap();
        assert!(matches!(inserted.id, Bson::ObjectId(_)));
        assert_eq!(copy_in(db, inserted.id).await.get_str("name").unwrap(), "Ann");
        // An order can have no customer.
        for new in [doc! { "_id": 1, "total": 5 }, doc! { "_id": 2, "customer": null }] {
            db.recorder().clear();
            orders.insert(&new).await.unwrap();
            assert_eq!(names(db), "insert");
            assert_eq!(orders.get(new.get("_id").unwrap().clone()).await.unwrap(), Some(new));
        }
        assert!(orders.set_reference(2, 1).await.unwrap().modified);
        assert!(!orders.set_reference(2, 1).await.unwrap().modified);
        assert_eq!(assert_current(db, &orders).await, 3);
        db.recorder().clear();
        assert!(orders.clear_reference(2).await.unwrap().modified);
        assert_eq!(names(db), "update");
        assert_eq!(orders.get(2).await.unwrap(), Some(doc! { "_id": 2 }));
        assert_eq!(names(db), "find");
    })
    .await;
}

/// No `_id` has an operator, and it matches none.
#[tokio::test]
async fn an_unknown_customer_is_refused_and_nothing_is_stored() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = contents(db).await;
        for error in [
            orders.insert(&order(8, 3)).await.unwrap_err(),
            orders.set_reference(7, 3).await.unwrap_err(),
            orders
                .update_source(doc! { "$gt": "" }, rename("Bea"))
                .await
                .unwrap_err(),
            orders.clear_reference(9).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert_eq!(error.pattern(), Some("reference"));
            assert!(!error.is_transient() && !error.is_outcome_unknown());
        }
        for id in [doc! { "$gt": "" }, doc! { "$eq": 1, "a": 2 }] {
            assert!(orders.insert(&order(8, id.clone())).await.is_err(), "{id}");
        }
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
            assert_eq!((updated.version, updated.copies), (0, 0));
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
            assert_eq!((updated.version, updated.copies), (version, version), "{update}");
            // A field that the source does not have is not in its copies either.
            assert_eq!(copy_in(db, 7).await.contains_key("address"), version != 2);
            orders.insert(&order(format!("at {version}"), 1)).await.unwrap();
            assert_eq!(copy_in(db, format!("at {version}")).await, copy_in(db, 7).await);
            assert_eq!(assert_current(db, &orders).await as u64, version + 1);
        }
    })
    .await;
}

#[tokio::test]
async fn without_the_index_an_update_of_a_source_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let first = with_customers(db).await;
        first.insert(&order(7, 1)).await.unwrap();
        stored(db).drop_index("customer._id_1").await.unwrap();
        let orders = builder(db.database()).build().unwrap();
        let before = contents(db).await;
        for error in [
            orders.update_source(1, rename("Bea")).await.unwrap_err(),
            orders.delete_source(1).await.unwrap_err(),
            orders.refresh_copies(1).await.unwrap_err(),
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
        assert_eq!(first.ensure_indexes().await.unwrap().created, ["customer._id_1"]);
        first.refresh_copies(1).await.unwrap();
        assert_current(db, &first).await;
    })
    .await;
}

/// Processes of an earlier version name the old index in their hints, so it stays until they have ended.
#[tokio::test]
async fn the_index_of_an_earlier_version_is_named_and_stays() {
    testkit::run(async |db| {
        let old = "customer._id_1_customer.v_1";
        let orders = with_customers(db).await;
        stored(db).drop_index("customer._id_1").await.unwrap();
        let model = IndexModel::builder()
            .keys(doc! { "customer._id": 1, "customer.v": 1 })
            .build();
        assert_eq!(stored(db).create_index(model).await.unwrap().index_name, old);
        let earlier = builder(db.database()).build().unwrap();
        let error = earlier.update_source(1, rename("Bea")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");

        let ensured = orders.ensure_indexes().await.unwrap();
        assert_eq!(
            (ensured.created, ensured.unused),
            (vec!["customer._id_1".to_owned()], vec![old.to_owned()])
        );
        orders.insert(&order(7, 1)).await.unwrap();
        earlier.update_source(1, rename("Bea")).await.unwrap();
        assert_current(db, &orders).await;
        stored(db).drop_index(old).await.unwrap();
        let ensured = orders.ensure_indexes().await.unwrap();
        assert_eq!((ensured.created, ensured.unused), (vec![], vec![]));
        orders.update_source(1, rename("Cleo")).await.unwrap();
        assert_current(db, &orders).await;
    })
    .await;
}

/// The manual's recipe has the index too, so it does not prove that a repository has written the versions.
#[tokio::test]
async fn a_number_of_the_application_is_not_taken_for_a_version_because_the_index_exists() {
    testkit::run(async |db| {
        let of_application = doc! { "_id": 1, "name": "Ann", "v": 1999 };
        customers(db).insert_one(&of_application).await.unwrap();
        let manual = IndexModel::builder().keys(doc! { "customer._id": 1 }).build();
        stored(db).create_index(manual).await.unwrap();
        let orders = builder(db.database()).build().unwrap();
        let error = orders.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
        let ensured = orders.ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(
            (ensured.created, ensured.existing),
            (vec![], vec!["customer._id_1".to_owned()])
        );
    })
    .await;
}
