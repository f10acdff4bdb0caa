//! The migration to references, and the way there and back.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::reference::migrate::*;
use support::reference::*;

async fn fill(db: &TestDatabase, new: impl IntoIterator<Item = Document>) -> Orders {
    unmigrated(db, new).await;
    add_customers(db, 1..=2).await;
    let nested = doc! { "_id": { "_id": 1, "x": 1 }, "name": "x" };
    customers(db).insert_one(nested).await.unwrap();
    several(builder(db.database())).build().unwrap()
}

#[tokio::test]
async fn the_copies_are_dropped_and_the_ids_kept() {
    testkit::run(async |db| {
        let copy = |id: i32| doc! { "_id": id, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 };
        let orders = fill(
            db,
            [
                doc! { "_id": 1, "total": 5, "customer": copy(1), "note": "x" },
                doc! { "_id": 2, "customer": null, "products": [{ "_id": 1, "name": "Ann", "v": 0_i64 }, { "_id": 2 }] },
                doc! { "_id": 3, "customer": 2, "products": [1, { "_id": "2", "deleted": false }, { "x": 1 }] },
                doc! { "_id": 4, "products": [] },
                doc! { "_id": 5, "payer": { "_id": 1 } },
            ],
        )
        .await;
        customers(db).insert_one(doc! { "_id": "2" }).await.unwrap();
        let migrated = orders.migrate_to_references().await.unwrap();
        assert_eq!((migrated.documents, migrated.resumed), (4, false));
        let expected = [
            doc! { "_id": 1, "total": 5, "customer": 1, "note": "x" },
            doc! { "_id": 2, "customer": null, "products": [1, 2] },
            doc! { "_id": 3, "customer": 2, "products": [1, "2", { "x": 1 }] },
            doc! { "_id": 4, "products": [] },
            doc! { "_id": 5, "payer": 1 },
        ];
        assert_same(&raw(db, "orders").await, &encoded(&expected));
        let record = raw(db, "mongo_patterns").await;
        db.recorder().clear();
        assert_eq!(orders.migrate_to_references().await.unwrap().documents, 0);
        assert_eq!(names(db), "find find aggregate");
        assert_same(&raw(db, "mongo_patterns").await, &record);
    })
    .await;
}

#[tokio::test]
async fn the_ids_can_go_to_other_fields() {
    testkit::run(async |db| {
        let copy = doc! { "_id": 1, "name": "Ann", "v": 0_i64 };
        let orders = fill(
            db,
            [
                doc! { "_id": 1, "customer": &copy, "products": [&copy, 2], "total": 5 },
                doc! { "_id": 2, "customer": null, "products": [] },
                doc! { "_id": 3, "customerId": 7 },
                doc! { "_id": 4, "customer": 1, "customerId": 1 },
                doc! { "_id": 5, "customer": &copy, "customerId": null },
            ],
        )
        .await;
        let migration = || {
            let migration = orders.migrate_to_references().to_field("customer", "customerId");
            migration.to_field("products", "productIds")
        };
        assert_eq!(migration().await.unwrap().documents, 4);
        assert_eq!(
            all(&stored(db)).await,
            [
                doc! { "_id": 1, "total": 5, "customerId": 1, "productIds": [1, 2] },
                doc! { "_id": 2, "productIds": [] },
                doc! { "_id": 3, "customerId": 7 },
                doc! { "_id": 4, "customerId": 1 },
                doc! { "_id": 5, "customerId": 1 },
            ]
        );
        assert_eq!(migration().await.unwrap().documents, 0);
    })
    .await;
}

/// Data that no source has.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn what_would_be_lost_is_refused() {
    testkit::run(async |db| {
        use ErrorKind::{Corrupt, InvalidItemId, NotMigrated, TargetNotEmpty};
        let copy = doc! { "_id": 1, "name": "Ann", "v": 0_i64 };
        let with = |name: &str, value: Bson| {
            let mut copy = copy.clone();
            copy.insert(name, value);
            copy
        };
        let orders = fill(db, [doc! { "_id": 1, "customer": &copy }]).await;
        let migration = || orders.migrate_to_references().to_field("products", "productIds");
        for (bad, kind) in [
            (doc! { "customer": with("own", 1.into()) }, NotMigrated),
            (doc! { "products": [&copy, { "_id": 2, "quantity": 2 }] }, NotMigrated),
            (doc! { "customer": { "_id": 2, "$own": Bson::Null } }, NotMigrated),
            (doc! { "payer": &copy }, NotMigrated),
            (doc! { "payer": { "_id": 1, "name": "paid" } }, NotMigrated),
            (doc! { "customer": with("deleted", true.into()) }, NotMigrated),
            (doc! { "customer": { "_id": 8, "name": "x", "v": 1 } }, NotMigrated),
            (doc! { "products": [{ "_id": 8, "name": "x" }] }, NotMigrated),
            (doc! { "products": &copy }, Corrupt),
            (doc! { "customer": [1] }, Corrupt),
            (doc! { "products": [null] }, Corrupt),
            (doc! { "products": [{ "_id": null }] }, Corrupt),
            (
                doc! { "customer": &copy, "productIds": [1], "products": [2] },
                TargetNotEmpty,
            ),
            (doc! { "productIds": 5, "products": [] }, TargetNotEmpty),
            (doc! { "productIds": [1], "products": null }, TargetNotEmpty),
            (doc! { "customer": { "_id": { "_id": 1, "x": 1 } } }, InvalidItemId),
        ] {
            let mut bad = bad;
            bad.insert("_id", "bad");
            stored(db).insert_one(&bad).await.unwrap();
            let before = raw(db, "orders").await;
            for refused in [
                migration().plan().await.map(drop).unwrap_err(),
                migration().await.map(drop).unwrap_err(),
            ] {
                assert_eq!(refused.kind(), kind, "{bad}: {refused}");
                assert_eq!(refused.document_id(), Some(&"bad".into()), "{bad}: {refused}");
                assert!(refused.to_string().contains("nothing was migrated"), "{refused}");
            }
            assert_same(&raw(db, "orders").await, &before);
            stored(db).delete_one(doc! { "_id": "bad" }).await.unwrap();
            assert_eq!(raw(db, "mongo_patterns").await.len(), 0);
        }
    })
    .await;
}

/// The fields of a document in the copy that are not copied are its own.
#[tokio::test]
async fn own_fields_beside_nested_copies_are_refused() {
    testkit::run(async |db| {
        for (address, fits) in [
            (Bson::from(doc! { "city": "Dublin", "zip": "D1" }), true),
            (doc! {}.into(), true),
            (doc! { "city": "Dublin", "note": 1 }.into(), false),
            ("text".into(), false),
        ] {
            let copy = doc! { "_id": 1, "name": "Ann", "address": address, "v": 0_i64 };
            fill(db, [doc! { "_id": 1, "customer": copy }]).await;
            let nested = bare(db.database()).reference_field("customer");
            let nested = nested
                .copied_fields(["address.city", "name", "address.zip"])
                .build()
                .unwrap();
            match nested.migrate_to_references().await {
                Ok(migrated) => assert!(fits && migrated.documents == 1),
                Err(error) => assert!(!fits && error.kind() == ErrorKind::NotMigrated, "{error}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn losses_can_be_allowed() {
    testkit::run(async |db| {
        let of_deleted = [
            doc! { "_id": 1, "customer": { "_id": 8, "name": "x", "v": 1, "deleted": true } },
            doc! { "_id": 2, "products": [{ "_id": 9, "name": "x", "v": 1 }] },
        ];
        let orders = fill(db, of_deleted).await;
        orders.migrate_to_references().drop_snapshots().await.unwrap_err();
        let migrated = orders.migrate_to_references().drop_deleted().await.unwrap();
        assert_eq!(migrated.documents, 2);
        assert_eq!(
            all(&stored(db)).await,
            [doc! { "_id": 1, "customer": 8 }, doc! { "_id": 2, "products": [9] }]
        );

        let snapshot = doc! { "_id": 1, "name": "paid", "v": 0_i64 };
        let orders = fill(db, [doc! { "_id": 1, "payer": snapshot }]).await;
        orders.migrate_to_references().drop_deleted().await.unwrap_err();
        let migrated = orders.migrate_to_references().drop_snapshots().await.unwrap();
        assert_eq!(migrated.documents, 1);
        assert_eq!(all(&stored(db)).await, [doc! { "_id": 1, "payer": 1 }]);
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn there_and_back_gives_the_original() {
    testkit::run(async |db| {
        for in_place in [true, false] {
            let names = match in_place {
                true => ["customer", "payer", "products"],
                false => ["customerId", "payerId", "productIds"],
            };
            let old = |id: i32| {
                let mut old = doc! { "_id": id, "total": 5 };
                let ids = [Bson::from(1 + id % 2), (1 + id % 2).into(), vec![2, 1].into()];
                old.extend(names.iter().map(|name| (*name).to_owned()).zip(ids));
                old
            };
            let orders = fill(db, (0..40).map(old)).await;
            let before = raw(db, "orders").await;
            let from = || {
                let from = orders.migrate_from_references().chunk(12);
                let from = from.from_field("customer", names[0]).from_field("payer", names[1]);
                from.from_field("products", names[2])
            };
            let to = || {
                let to = orders.migrate_to_references().chunk(12).drop_snapshots();
                let to = to.to_field("customer", names[0]).to_field("payer", names[1]);
                to.to_field("products", names[2])
            };
            for _ in 0..2 {
                assert_eq!(number_of(&from().await.unwrap()), 40);
                assert_eq!(findings(&orders).await, []);
                orders.update_source(1, rename("Bea")).await.unwrap();
                assert_eq!(findings(&orders).await, []);
                assert_eq!(to().await.unwrap().documents, 40);
                assert_same(&raw(db, "orders").await, &before);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_chunk_takes_two_round_trips() {
    testkit::run(async |db| {
        let copy = doc! { "_id": 1, "name": "Ann", "v": 0_i64 };
        let orders = fill(db, (0..50).map(|id| doc! { "_id": id, "customer": &copy })).await;
        db.recorder().clear();
        let mut progress = Vec::new();
        let migration = orders.migrate_to_references().chunk(20);
        let migration = migration.on_progress(|at| progress.push((at.done, at.total)));
        migration.await.unwrap();
        assert_eq!(progress, [(20, 50), (40, 50), (50, 50)]);
        let names = names_without_more(db);
        let mut expected = vec!["find", "find", "aggregate", "update", "find"];
        (0..3).for_each(|_| expected.extend(["update", "update"]));
        expected.extend(["aggregate", "update"]);
        assert_eq!(names, expected);
    })
    .await;
}
