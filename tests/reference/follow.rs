//! Another program writes customers and orders by the driver, and a follower updates the copies.

use mongo_patterns::reference::{OnReferences, Problem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::reference::follow::*;
use support::reference::*;

/// Three orders of customer 1 and one of customer 2.
async fn four_orders(db: &TestDatabase, orders: &Orders) {
    for id in 1..=3 {
        orders.insert(&order(id, 1)).await.unwrap();
    }
    orders.insert(&order(4, 2)).await.unwrap();
    assert_eq!(settled(db, orders, "inserted").await, 0);
}

async fn source(db: &TestDatabase, id: i32) -> Document {
    customers(db).find_one(doc! { "_id": id }).await.unwrap().unwrap()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_change_of_a_source_reaches_its_copies() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        four_orders(db, &orders).await;
        let set = |field: &str, value: Bson| doc! { "$set": { field: value } };
        let updates = [
            (rename("Bea"), 3),
            (set("address.city", "Cork".into()), 3),
            (set("address.zip", "D1".into()), 3),
            (set("address", "none".into()), 3),
            (set("name", doc! { "$gt": "$name" }.into()), 3),
            (doc! { "$unset": { "name": "" } }, 3),
            (doc! { "$push": { "name": "Cas" } }, 3),
            (doc! { "$set": { "name.0": "Dan" } }, 3),
            (set("visits", 7.into()), 0),
            (set("names", "Eve".into()), 0),
            (set("mongo_patterns_deleting", true.into()), 0),
            // By a program that knows the pattern, and by an `update_source` that died.
            (doc! { "$set": { "name": "Fay" }, "$inc": { "v": 1 } }, 3),
            // There and back: a version that is not needed.
            (doc! { "$inc": { "v": 1 } }, 3),
            (doc! { "$unset": { "v": "" } }, 3),
            (doc! { "$set": { "v": 0, "name": "Gus" } }, 3),
            (doc! { "$set": { "v": 100.0 } }, 3),
        ];
        for (update, copies) in updates {
            update_plainly(db, 1, update.clone()).await;
            assert_eq!(corrected(db, &orders, &update.to_string()).await, copies, "{update}");
        }
        let pipeline = vec![doc! { "$set": { "name": { "$concat": ["$name", "tav"] } } }];
        customers(db).update_one(doc! { "_id": 1 }, pipeline).await.unwrap();
        assert_eq!(corrected(db, &orders, "a pipeline").await, 3);
        assert_eq!(copy_in(db, 1).await.get_str("name").unwrap(), "Gustav");
        assert_eq!(number(&copy_in(db, 4).await, "v"), 0, "other sources stay");
    })
    .await;
}

/// Programs that store whole documents, with or without the version, whether it has changed or not.
#[tokio::test]
async fn a_replaced_source_is_copied_if_a_copy_differs() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        four_orders(db, &orders).await;
        orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!(settled(db, &orders, "a repository").await, 0);
        let with = |name: &str, version: Option<Bson>| {
            let mut customer = customer(1, name);
            if let Some(version) = version {
                customer.insert("v", version);
            }
            customer
        };
        for (name, version, copies) in [
            ("Bea", Some(Bson::from(1_i64)), 0),
            ("Cas", Some(1.into()), 3),
            // Copies may be read before the source, so the number has an effect.
            ("Cas", None, 3),
            ("Dan", None, 3),
            ("Dan", Some(1.0.into()), 3),
            ("Eve", Some(90.into()), 3),
        ] {
            let replaced = with(name, version.clone());
            customers(db).replace_one(doc! { "_id": 1 }, replaced).await.unwrap();
            let context = format!("{name} {version:?}");
            assert_eq!(corrected(db, &orders, &context).await, copies, "{context}");
        }
        // The version is lost, and repositories have incremented it up to that of the copies again.
        let version = number(&source(db, 1).await, "v");
        let fay = with("Fay", None);
        customers(db).replace_one(doc! { "_id": 1 }, fay).await.unwrap();
        for _ in 0..version {
            orders.update_source(1, rename("Gus")).await.unwrap();
        }
        assert_eq!(judge(db).await.stale, 3);
        assert_eq!(corrected(db, &orders, "a version that was used before").await, 3);
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_change_of_a_document_is_corrected() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        orders.update_source(1, rename("Bea")).await.unwrap();
        let with = |copy: Document| doc! { "_id": 7, "customer": copy, "total": 1 };
        let city = doc! { "city": "Dublin" };
        for copy in [
            doc! { "_id": 1 },
            doc! { "_id": 1, "note": "own" },
            doc! { "_id": 1, "name": "Ann", "address": city.clone(), "v": 0 },
            doc! { "_id": 1, "name": "wrong", "v": 1 },
            doc! { "_id": 1, "name": "Bea", "address": city.clone(), "v": 1_i64, "deleted": true },
            doc! { "_id": 1, "v": 0, "deleted": true },
            doc! { "_id": 1.0, "v": 9 },
            doc! { "_id": 1, "v": 7.5 },
            doc! { "_id": 1, "v": f64::NAN },
            doc! { "_id": 1, "v": f64::INFINITY },
            doc! { "_id": 1, "v": i64::MAX },
            doc! { "_id": 1, "v": "newest" },
            doc! { "_id": 1, "v": null },
            doc! { "_id": 1, "v": -1 },
        ] {
            let context = copy.to_string();
            stored(db).insert_one(with(copy.clone())).await.unwrap();
            corrected(db, &orders, &format!("inserted {context}")).await;
            assert_eq!(copy_in(db, 7).await.get("note"), copy.get("note"));
            stored(db).replace_one(doc! { "_id": 7 }, with(copy)).await.unwrap();
            corrected(db, &orders, &format!("replaced by {context}")).await;
            stored(db).delete_one(doc! { "_id": 7 }).await.unwrap();
        }
        assert!(
            number(&source(db, 1).await, "v") < 100,
            "no copy can exhaust the versions"
        );
        stored(db).insert_one(doc! { "_id": 7, "total": 1 }).await.unwrap();
        update_plainly(db, 3, rename("Eve")).await;
        for (update, copies) in [
            (doc! { "$set": { "customer": { "_id": 2 } } }, 1),
            (doc! { "$set": { "customer._id": 3 } }, 1),
            (doc! { "$set": { "customer.name": "wrong" } }, 1),
            (doc! { "$unset": { "customer.address": "" } }, 1),
            (doc! { "$unset": { "customer.v": "" } }, 1),
            (doc! { "$set": { "customer.own": "kept" } }, 0),
            (doc! { "$set": { "total": 2, "customers": 5 } }, 0),
            (doc! { "$unset": { "customer": "" } }, 0),
        ] {
            stored(db).update_one(doc! { "_id": 7 }, update.clone()).await.unwrap();
            let corrected = corrected(db, &orders, &update.to_string()).await;
            assert_eq!(corrected, copies, "{update}");
        }
    })
    .await;
}

/// Ids of any type, values that look like operators, and values that are no reference.
#[tokio::test]
async fn ids_are_values_and_other_values_are_ignored() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let ids: [Bson; 8] = [
            Bson::Int64(77),
            1.5.into(),
            "$name".into(),
            ".*".into(),
            doc! { "b": "$name" }.into(),
            doc! { "a": 1 }.into(),
            doc! { "a": 2 }.into(),
            mongodb::bson::oid::ObjectId::new().into(),
        ];
        for id in &ids {
            customers(db).insert_one(customer(id.clone(), "Ann")).await.unwrap();
            stored(db).insert_one(order(id.clone(), id.clone())).await.unwrap();
        }
        assert_eq!(corrected(db, &orders, "inserted").await, 8);
        for id in &ids {
            update_plainly(db, id.clone(), rename("Bea")).await;
        }
        assert_eq!(corrected(db, &orders, "renamed").await, 8);
        let none: [Bson; 7] = [
            1.into(),
            "Ann".into(),
            Bson::Null,
            doc! {}.into(),
            doc! { "_id": null }.into(),
            doc! { "_id": [1] }.into(),
            vec![doc! { "_id": 1 }].into(),
        ];
        for (n, value) in (0..).zip(none) {
            let other = doc! { "_id": format!("none {n}"), "customer": value };
            stored(db).insert_one(other).await.unwrap();
        }
        let before = contents(db).await;
        assert_eq!(settled(db, &orders, "no references").await, 0);
        assert_eq!(contents(db).await, before);
        update_plainly(db, 1, rename("Cas")).await;
        assert_eq!(settled(db, &orders, "no references").await, 0);
    })
    .await;
}

/// Two reference fields, one of them an array, a snapshot, and another collection.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn every_reference_follows_except_snapshots() {
    testkit::run(async |db| {
        let orders = followed(db, of_all_kinds(db)).await;
        let invoices = db.plain_collection::<Document>("invoices");
        let new = doc! {
            "_id": 7,
            "customer": { "_id": 1 },
            "products": [{ "_id": 1, "quantity": 3 }, { "_id": 2 }, { "_id": 3, "quantity": 1 }],
            "soldAs": { "_id": 1 },
        };
        orders.insert(&new).await.unwrap();
        let other = doc! { "_id": 8, "products": [{ "_id": 2 }] };
        stored(db).insert_one(other).await.unwrap();
        let invoice = doc! { "_id": 7, "customer": { "_id": 1 } };
        invoices.insert_one(invoice).await.unwrap();
        assert_eq!(corrected(db, &orders, "inserted").await, 2);
        let update = doc! { "$set": { "name": "Bea", "mail": "bea@example.com" } };
        update_plainly(db, 1, update).await;
        update_plainly(db, 2, rename("Cas")).await;
        // Orders 7 as customer and with both products, order 8, and the invoice.
        assert_eq!(corrected(db, &orders, "renamed").await, 5);
        let order = stored(db).find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
        let products = order
            .get_array("products")
            .unwrap()
            .iter()
            .filter_map(Bson::as_document);
        let products = products.map(|product| (product.get_str("name").unwrap(), number(product, "quantity")));
        let products: Vec<(&str, i64)> = products.collect();
        assert_eq!(products, [("Bea", 3), ("Cas", 0), ("Ann", 1)]);
        let contact = order.get_document("customer").unwrap().get_document("contact");
        assert_eq!(contact.unwrap(), &doc! { "mail": "bea@example.com" });
        assert_eq!(order.get_document("soldAs").unwrap().get_str("name").unwrap(), "Ann");
        let invoice = invoices.find_one(doc! {}).await.unwrap().unwrap();
        let copy = invoice.get_document("customer").unwrap();
        assert_eq!(copy.get_str("name").unwrap(), "Bea");

        // Elements that another program adds, changes, or leaves.
        for update in [
            doc! { "$push": { "products": { "_id": 1, "name": "wrong" } } },
            doc! { "$set": { "products.0.name": "wrong" } },
            doc! { "$set": { "products.0": { "_id": 3, "v": 50 } } },
            doc! { "$push": { "products": { "$each": [], "$slice": 1 } } },
            doc! { "$set": { "soldAs": { "_id": 1 } } },
        ] {
            stored(db).update_one(doc! { "_id": 8 }, update.clone()).await.unwrap();
            corrected(db, &orders, &update.to_string()).await;
        }
        // Values on the way to a nested field, and an array where there should be none, which stays.
        for contact in [
            Bson::from(5),
            Bson::Null,
            vec![doc! { "mail": 1 }].into(),
            doc! { "own": 1 }.into(),
        ] {
            let blocked = doc! { "_id": 1, "name": "wrong", "contact": contact };
            let blocked = doc! { "$set": { "customer": blocked } };
            stored(db).update_one(doc! { "_id": 8 }, blocked.clone()).await.unwrap();
            corrected(db, &orders, &blocked.to_string()).await;
        }
        let array = doc! { "_id": 9, "customer": [{ "_id": 1, "name": "wrong" }], "products": [[{ "_id": 1 }]] };
        stored(db).insert_one(array.clone()).await.unwrap();
        update_plainly(db, 1, rename("Dan")).await;
        // Of a reference with an array, the attempt that the array ends counts nothing.
        assert_eq!(settled(db, &orders, "an array").await, 2);
        assert_eq!(orders.update_source(1, rename("Eve")).await.unwrap().copies, 2);
        let eves = doc! { "$or": [{ "customer.name": "Eve" }, { "products.name": "Eve" }] };
        assert_eq!(stored(db).count_documents(eves).await.unwrap(), 2);
        assert_eq!(
            invoices.count_documents(doc! { "customer.name": "Eve" }).await.unwrap(),
            1
        );
        assert_eq!(stored(db).find_one(doc! { "_id": 9 }).await.unwrap().unwrap(), array);
        stored(db).delete_one(doc! { "_id": 9 }).await.unwrap();
        assert_eq!(corrected(db, &orders, "without it").await, 0);
        // Of a snapshot the source alone is checked.
        let sold = stored(db).find_one(doc! { "_id": 8 }).await.unwrap().unwrap();
        assert_eq!(sold.get_document("soldAs").unwrap(), &doc! { "_id": 1 });
        // A field of one reference: a higher version of its source is in the copies of the others too.
        update_plainly(db, 1, doc! { "$set": { "mail": "c@example.com" } }).await;
        assert_eq!(corrected(db, &orders, "a field of one reference").await, 4);
        update_plainly(db, 3, doc! { "$set": { "mail": "c@example.com" } }).await;
        assert_eq!(corrected(db, &orders, "a field that no copy has").await, 0);
    })
    .await;
}

/// A source that is deleted, and inserted again.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn references_without_a_source_stay_kept_or_are_removed() {
    testkit::run(async |db| {
        for rule in [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear] {
            let orders = followed(db, of_all_kinds(db)).await;
            let follow = || async { orders.follow(NAME).on_missing(rule).run_until_current().await.unwrap() };
            orders.update_source(1, rename("Bea")).await.unwrap();
            let new = doc! { "_id": 1, "customer": { "_id": 1 }, "products": [{ "_id": 1 }, { "_id": 2 }], "soldAs": { "_id": 1 } };
            orders.insert(&new).await.unwrap();
            orders.insert(&doc! { "_id": 2, "customer": { "_id": 2 } }).await.unwrap();
            follow().await;
            let before = contents(db).await;
            customers(db).delete_one(doc! { "_id": 1 }).await.unwrap();
            // Nothing refers to it.
            customers(db).delete_one(doc! { "_id": 3 }).await.unwrap();
            // By a program that does not know that its customer is deleted.
            stored(db).insert_one(doc! { "_id": 3, "customer": { "_id": 1 } }).await.unwrap();
            let deleted = follow().await;
            assert_eq!(follow().await.written, 0);
            let found = problems(&orders).await;
            match rule {
                OnReferences::Restrict => {
                    assert_eq!((deleted.written, found), (0, vec![Problem::SourceMissing; 4]));
                    assert_eq!(contents(db).await[0][..2], before[0][..2]);
                }
                OnReferences::KeepCopy => {
                    assert_eq!((deleted.written, found), (4, vec![]));
                    assert!(copy_in(db, 1).await.get_bool("deleted").unwrap());
                    assert_eq!(copy_in(db, 1).await.get_str("name").unwrap(), "Bea");
                }
                _ => {
                    assert_eq!((deleted.written, found), (4, vec![]));
                    let order = stored(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
                    assert_eq!(order.get_array("products").unwrap().len(), 1);
                    assert!(!order.contains_key("customer") && !order.contains_key("soldAs"));
                }
            }
            // It starts at version 0 again, behind the copies, or with a higher one.
            for version in [None, Some(50)] {
                customers(db).delete_one(doc! { "_id": 1 }).await.unwrap();
                let mut again = customer(1, "Cas");
                again.extend(version.map(|version| ("v".to_owned(), Bson::Int32(version))));
                customers(db).insert_one(again).await.unwrap();
                follow().await;
                assert_eq!(findings(&orders).await, [], "{rule:?} {version:?}");
                assert_eq!(follow().await.written, 0);
                if rule != OnReferences::Clear {
                    assert!(!copy_in(db, 1).await.contains_key("deleted"));
                    assert_eq!(copy_in(db, 1).await.get_str("name").unwrap(), "Cas");
                }
            }
        }
    })
    .await;
}

/// A source whose version cannot be read is left alone, and the others are followed.
#[tokio::test]
async fn a_source_with_an_invalid_version_does_not_end_it() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        four_orders(db, &orders).await;
        for version in [Bson::from("1"), 7.5.into(), (-1).into(), Bson::Null] {
            update_plainly(db, 1, doc! { "$set": { "v": version, "name": "Bea" } }).await;
            update_plainly(db, 2, rename(&format!("{}", number(&source(db, 2).await, "v")))).await;
            stored(db).replace_one(doc! { "_id": 3 }, order(3, 1)).await.unwrap();
            assert_eq!(settled(db, &orders, "invalid").await, 1);
        }
        update_plainly(db, 1, doc! { "$set": { "v": 1 } }).await;
        assert_eq!(corrected(db, &orders, "corrected").await, 3);
    })
    .await;
}
