//! Arrays of references: orders with their products.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{OnReferences, Problem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::reference::migrate::rename_unnoticed;
use support::reference::*;

/// Returns a repository of orders with products, over the products 1, 2 and 3.
async fn with_products(db: &TestDatabase) -> Orders {
    let builder = bare(db.database())
        .reference_field("products")
        .copied_fields(["name"])
        .array();
    let orders = ready(db, builder).await;
    let products = [(1, "pen"), (2, "ink"), (3, "paper")];
    let products = products.map(|(id, name)| doc! { "_id": id, "name": name, "stock": 10 });
    customers(db).insert_many(products).await.unwrap();
    check_indexes(db, &orders).await;
    orders
}

fn order_of(id: i32, products: &[(i32, i32)]) -> Document {
    let products = products.iter();
    let products: Vec<Document> = products
        .map(|(id, quantity)| doc! { "_id": id, "quantity": quantity })
        .collect();
    doc! { "_id": id, "products": products }
}

/// Returns the products in a stored order.
async fn products(db: &TestDatabase, order: i32) -> Vec<Document> {
    let found = stored(db).find_one(doc! { "_id": order }).await.unwrap().unwrap();
    let products = found.get_array("products").unwrap().iter();
    products.map(|product| product.as_document().unwrap().clone()).collect()
}

#[tokio::test]
async fn each_element_follows_its_own_source() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        orders.insert(&order_of(7, &[(1, 10), (2, 20)])).await.unwrap();
        assert_eq!(names(db), "find insert find");
        orders.insert(&order_of(8, &[(2, 5)])).await.unwrap();
        orders.insert(&order_of(9, &[])).await.unwrap();
        assert_eq!(
            products(db, 7).await,
            [
                doc! { "_id": 1, "name": "pen", "v": 0_i64, "quantity": 10 },
                doc! { "_id": 2, "name": "ink", "v": 0_i64, "quantity": 20 },
            ]
        );
        db.recorder().clear();
        let updated = orders.update_source(2, rename("blue ink")).await.unwrap();
        assert_eq!((updated.version, updated.copies), (1, 2));
        let sweep = db.recorder().commands()[1].essence();
        let statement = sweep.get_array("updates").unwrap()[0].as_document().unwrap();
        assert_eq!(statement.get_str("hint").unwrap(), "products._id_1");
        assert_eq!(
            products(db, 7).await,
            [
                doc! { "_id": 1, "name": "pen", "v": 0_i64, "quantity": 10 },
                doc! { "_id": 2, "name": "blue ink", "v": 1_i64, "quantity": 20 },
            ]
        );
        assert_eq!(products(db, 8).await[0].get_str("name").unwrap(), "blue ink");
        assert_eq!(findings(&orders).await, []);
        // A program stored an element without a version, next to a current one.
        let set = doc! { "$set": { "products.0": { "_id": 1, "name": "?" } } };
        stored(db).update_one(doc! { "_id": 7 }, set).await.unwrap();
        assert_eq!(problems(&orders).await, [Problem::VersionMissing]);
        assert_eq!(repaired(&orders).await.len(), 1);
        assert_eq!(findings(&orders).await, []);
        assert_eq!(products(db, 7).await[1].get_str("name").unwrap(), "blue ink");
    })
    .await;
}

#[tokio::test]
async fn references_are_added_and_removed() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        for new in [
            order_of(1, &[(1, 10)]),
            doc! { "_id": 2 },
            doc! { "_id": 3, "products": null },
            order_of(4, &[]),
        ] {
            orders.insert(&new).await.unwrap();
            let id = new.get_i32("_id").unwrap();
            orders.update_source(3, rename(&format!("paper {id}"))).await.unwrap();
            assert!(orders.add_reference_to(id, 3).await.unwrap().modified, "{id}");
            assert!(!orders.add_reference_to(id, 3).await.unwrap().modified, "{id}");
            let added = products(db, id).await.pop().unwrap();
            assert_eq!(
                added,
                doc! { "_id": 3, "name": format!("paper {id}"), "v": i64::from(id) }
            );
            assert_eq!(findings(&orders).await, []);
        }
        assert!(orders.remove_reference(1, 3).await.unwrap().modified);
        assert!(!orders.remove_reference(1, 3).await.unwrap().modified);
        assert_eq!(products(db, 1).await.len(), 1);
        assert_eq!(products(db, 1).await[0].get_i32("quantity").unwrap(), 10);
        let before = contents(db).await;
        for error in [
            orders.add_reference_to(1, 77).await.unwrap_err(),
            orders.add_reference_to(77, 1).await.unwrap_err(),
            orders.remove_reference(77, 1).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn what_is_no_list_of_different_sources_is_refused_and_not_changed() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        let one = builder(db.database()).build().unwrap();
        let before = contents(db).await;
        for products in [
            Bson::from(vec![doc! { "_id": 1 }, doc! { "_id": 1_i64 }]),
            Bson::from(vec![Bson::from(doc! { "_id": 1 }), Bson::Null]),
            Bson::from("pen"),
        ] {
            let error = orders.insert(&doc! { "_id": 7, "products": products.clone() }).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{products}: {error}");
        }
        // The calls for one reference and for many are not mixed up.
        for error in [
            orders.set_reference(1, 1).await.unwrap_err(),
            orders.clear_reference(1).await.unwrap_err(),
            one.add_reference_to(1, 1).await.unwrap_err(),
            one.remove_reference(1, 1).await.unwrap_err(),
            one.set_reference(1, 1).field("payer").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        let error = orders.insert(&order_of(7, &[(1, 1), (77, 1)])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(contents(db).await, before);
        // Values that another program has stored.
        for (id, products) in [(7, Bson::from("pen")), (8, doc! { "_id": 2 }.into())] {
            let other = doc! { "_id": id, "products": products.clone() };
            stored(db).insert_one(other).await.unwrap();
            let before = contents(db).await;
            let error = orders.add_reference_to(id, 1).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::InvalidArgument),
                "{products}: {error:?}"
            );
            assert_eq!(contents(db).await, before);
        }
        assert_eq!(problems(&orders).await, [Problem::NotAReference; 2]);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_product_is_kept_or_removed_in_every_order() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        for id in 1..=3 {
            orders.insert(&order_of(id, &[(1, id), (2, id)])).await.unwrap();
        }
        let refused = orders.delete_source(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Referenced);
        assert_eq!(delete(&orders, 1, OnReferences::KeepCopy).await, (true, 3));
        let expected = doc! { "_id": 1, "name": "pen", "v": 0_i64, "quantity": 2, "deleted": true };
        assert_eq!(products(db, 2).await[0], expected);
        assert_eq!(delete(&orders, 2, OnReferences::Clear).await, (true, 3));
        assert_eq!(products(db, 2).await, [expected]);
        assert_eq!(findings(&orders).await, []);
        assert!(orders.delete_source(3).await.unwrap().found);
        assert_eq!(all(&customers(db)).await, Vec::<Document>::new());
    })
    .await;
}

#[tokio::test]
async fn a_read_replaces_the_elements_that_are_too_old() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        orders.insert(&order_of(7, &[(1, 10), (2, 20)])).await.unwrap();
        rename_unnoticed(db, 2, "blue ink").await;
        db.recorder().clear();
        let fresh = orders.get(7).max_staleness(0).await.unwrap().unwrap();
        assert_eq!(names(db), "find find");
        let elements = fresh.get_array("products").unwrap();
        assert_eq!(
            elements[1],
            Bson::from(doc! { "_id": 2, "name": "blue ink", "v": 1_i64, "quantity": 20 })
        );
        assert_eq!(elements[0], Bson::from(products(db, 7).await[0].clone()));
        let old = orders.get(7).max_staleness(1).await.unwrap().unwrap();
        assert_eq!(
            Bson::from(old.get_array("products").unwrap().clone()),
            Bson::from(products(db, 7).await)
        );
    })
    .await;
}

/// More sources than the server's first batch has are still one read.
#[tokio::test]
async fn many_sources_are_read_in_one_round_trip() {
    testkit::run(async |db| {
        let orders = with_products(db).await;
        let more = (4..=103).map(|id| doc! { "_id": id, "name": id.to_string() });
        customers(db).insert_many(more).await.unwrap();
        for sources in [101, 103] {
            db.recorder().clear();
            let of: Vec<(i32, i32)> = (1..=sources).map(|id| (id, 1)).collect();
            orders.insert(&order_of(sources, &of)).await.unwrap();
            assert_eq!(names(db), "find insert find", "{sources}");
        }
        // The scan, the sources of a batch, and no more.
        db.recorder().clear();
        assert_eq!(findings(&orders).await, []);
        assert_eq!(names(db), "find find find", "the catalog, the orders, their products");
    })
    .await;
}
