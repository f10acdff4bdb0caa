//! Builder, types of ids and documents, and input that is refused with no effect.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{Reference, ReferenceRepository};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use serde::{Deserialize, Serialize};

use support::common::all;
use support::reference::*;

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        let collection = |name: &str| db.collection::<Document>(name);
        let unacknowledged = || {
            let options = CollectionOptions::builder()
                .write_concern(WriteConcern::builder().w(Acknowledgment::Nodes(0)).build())
                .build();
            db.database()
                .collection_with_options::<Document>("unacknowledged", options)
        };
        let elsewhere = db.client().database("elsewhere").collection::<Document>("customers");
        let named = || Reference::new("payer").copied_fields(["name"]);
        let one = || bare(db.database()).reference_field("customer");
        let valid = || builder(db.database());
        let builders: Vec<Builder> = vec![
            bare(db.database()).copied_fields(["name"]),
            one(),
            Orders::builder(collection("orders"), elsewhere)
                .reference_field("customer")
                .copied_fields(["name"]),
            valid().add_referring(unacknowledged(), named()),
            valid().add_referring(collection("customers"), named()),
            valid().version_field("name"),
            valid().version_field("_id"),
            valid().add_reference(Reference::new("customer").copied_fields(["name"])),
            valid().add_reference(named()).add_reference(named()),
            valid().add_referring(collection("orders"), Reference::new("customer").copied_fields(["name"])),
        ];
        for (number, builder) in builders.into_iter().enumerate() {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{number}: {error}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn invalid_input_is_refused_before_anything_is_sent() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = contents(db).await;
        db.recorder().clear();
        for customer in [Bson::from(1), doc! { "name": "Ann" }.into(), doc! { "_id": [1] }.into()] {
            let new = doc! { "_id": 8, "customer": customer };
            let error = orders.insert(&new).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{new}: {error}");
        }
        for id in [Bson::Null, Bson::Undefined, vec![1].into()] {
            for error in [
                orders.insert(&order(id.clone(), 1)).await.unwrap_err(),
                orders.get(id.clone()).await.unwrap_err(),
                orders.set_reference(id.clone(), 1).await.unwrap_err(),
                orders.set_reference(7, id.clone()).await.unwrap_err(),
                orders.clear_reference(id.clone()).await.unwrap_err(),
                orders.update_source(id.clone(), rename("Bea")).await.unwrap_err(),
                orders.delete_source(id.clone()).await.unwrap_err(),
                orders.refresh_copies(id.clone()).await.unwrap_err(),
            ] {
                assert!(error.is_invalid_input(), "{id}: {error}");
            }
        }
        let updates = [
            doc! {},
            doc! { "$set": {} },
            doc! { "$inc": { "v": 1 } },
            doc! { "$nothing": { "name": 1 } },
            doc! { "$set": { "name": 1, "name.first": 2 } },
            doc! { "$rename": { "name": "title" } },
            doc! { "$inc": { "prices.$": 1 } },
        ];
        for update in updates {
            let shown = update.to_string();
            let error = orders.update_source(1, update).await.unwrap_err();
            assert!(error.is_invalid_input(), "{shown}: {error:?}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// The server compares numbers by value: 1, 1.0 and a long 1 are one id.
#[tokio::test]
async fn a_number_of_another_type_is_the_same_id() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let decimal = Bson::Decimal128("1.0".parse().unwrap());
        for (id, customer) in [
            (7, Bson::from(1.0)),
            (8, Bson::from(1_i64)),
            (9, Bson::from(1)),
            (10, decimal),
        ] {
            orders.insert(&order(id, customer)).await.unwrap();
            assert_eq!(
                copy_in(db, id).await.get("_id"),
                Some(&Bson::from(1)),
                "as the source has it"
            );
        }
        let updated = orders.update_source(1.0, rename("Bea")).await.unwrap();
        assert_eq!(updated.copies, 4);
        assert_eq!(assert_current(db, &orders).await, 4);
        let refused = orders.delete_source(1_i64).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Referenced);
    })
    .await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    customer: Option<Customer>,
    total: i32,
}

/// A copy: an order is created with the id alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Customer {
    #[serde(rename = "_id")]
    id: i32,
    #[serde(default)]
    name: String,
}

#[tokio::test]
async fn documents_are_of_the_callers_type() {
    testkit::run(async |db| {
        with_customers(db).await;
        let orders = ReferenceRepository::<Order, Customer>::builder(
            db.collection::<Document>("orders"),
            db.collection::<Document>("customers"),
        )
        .reference_field("customer")
        .copied_fields(["name"])
        .build()
        .unwrap();
        let mut new = Order {
            id: 7,
            customer: Some(Customer {
                id: 1,
                ..Customer::default()
            }),
            total: 5,
        };
        orders.insert(&new).await.unwrap();
        new.customer = Some(Customer {
            id: 1,
            name: "Ann".to_owned(),
        });
        assert_eq!(orders.get(7).await.unwrap().as_ref(), Some(&new));
        let source = orders.sources_collection().find_one(doc! { "_id": 1 }).await.unwrap();
        assert_eq!(source, new.customer);

        let none = Order {
            id: 8,
            customer: None,
            total: 5,
        };
        orders.insert(&none).await.unwrap();
        assert_eq!(orders.get(8).await.unwrap(), Some(none));
        let set = doc! { "$set": { "total": "five" } };
        stored(db).update_one(doc! { "_id": 7 }, set).await.unwrap();
        assert_eq!(orders.get(7).await.unwrap_err().kind(), ErrorKind::Decode);
    })
    .await;
}

/// A version that no program of the pattern writes.
#[tokio::test]
async fn a_version_that_is_no_number_is_corrupt_and_nothing_is_written() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 2)).await.unwrap();
        for version in [Bson::from("3"), (-1).into(), 1.5.into()] {
            let set = doc! { "$set": { "v": version.clone() } };
            customers(db).update_one(doc! { "_id": 1 }, set).await.unwrap();
            let before = contents(db).await;
            for error in [
                orders.insert(&order(8, 1)).await.unwrap_err(),
                orders.set_reference(7, 1).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{version}: {error}");
                assert_eq!((error.document_id(), error.field()), (Some(&1.into()), Some("v")));
            }
            assert_eq!(contents(db).await, before);
        }
        // Integers of every type count.
        for version in [Bson::from(3), 3_i64.into(), 3.0.into()] {
            let set = doc! { "$set": { "v": version } };
            customers(db).update_one(doc! { "_id": 1 }, set).await.unwrap();
            orders.set_reference(7, 1).await.unwrap();
            assert_eq!(copy_in(db, 7).await.get("v"), Some(&Bson::from(3_i64)));
            orders.set_reference(7, 2).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_large_copy_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let half = "x".repeat(9 << 20);
        let set = doc! { "$set": { "name": &half } };
        customers(db).update_one(doc! { "_id": 1 }, set).await.unwrap();
        let mut large = order(7, 1);
        large.insert("text", &half);
        let before = all(&stored(db)).await;
        let error = orders.insert(&large).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
        assert_eq!(all(&stored(db)).await, before);
        // An order that has no room for a new name: the error reports that the source is updated.
        let mut large = order(8, 2);
        large.insert("text", &half);
        orders.insert(&large).await.unwrap();
        orders.insert(&order(9, 2)).await.unwrap();
        let error = orders.update_source(2, rename(&half)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.stored_count()),
            (ErrorKind::TooLarge, Some(1)),
            "{error:?}"
        );
        orders.update_source(2, rename("Bea")).await.unwrap();
        let copies = [8, 9].map(|id| copy_in(db, id));
        for copy in futures::future::join_all(copies).await {
            assert_eq!(copy.get_str("name").unwrap(), "Bea");
        }
    })
    .await;
}
