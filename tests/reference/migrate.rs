//! The migration from references: the stored form, and the commands.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::random::random;
use support::reference::migrate::*;
use support::reference::*;

fn ann() -> Document {
    doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 3 }
}

#[tokio::test]
async fn bare_ids_become_references_with_copies() {
    testkit::run(async |db| {
        let old = [
            doc! { "_id": 1, "total": 5, "customer": 1, "note": "x" },
            doc! { "_id": 2, "customer": { "_id": 1, "own": true, "name": "old" }, "payer": 2 },
            doc! { "_id": 3, "products": [2, { "quantity": 4, "_id": 1 }] },
            // These have nothing to migrate.
            doc! { "_id": 4, "customer": null, "products": [] },
            doc! { "_id": 5 },
            doc! { "_id": 6, "customer": { "_id": 1, "name": "Old", "v": 1_i64 } },
            doc! { "_id": 7, "customer": { "_id": 9, "name": "Old", "deleted": true } },
            // A snapshot of another program.
            doc! { "_id": 8, "payer": { "_id": 2, "name": "paid" } },
        ];
        unmigrated(db, old.clone()).await;
        let pen = doc! { "_id": 2_i64, "name": "pen" };
        customers(db).insert_many([ann(), pen]).await.unwrap();
        let orders = several(builder(db.database())).build().unwrap();
        let migrated = orders.migrate_from_references().await.unwrap();
        assert_eq!((migrated.documents, migrated.skipped.total()), (3, 0));
        assert!(!migrated.resumed);
        assert_eq!(
            migrated.created_indexes,
            ["customer._id_1", "payer._id_1", "products._id_1"]
        );
        let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 3_i64 };
        let mut with_own = copy.clone();
        with_own.insert("own", true);
        let mut expected = vec![
            doc! { "_id": 1, "total": 5, "customer": copy, "note": "x" },
            doc! { "_id": 2, "customer": with_own, "payer": { "_id": 2_i64, "name": "pen", "v": 0_i64 } },
            doc! { "_id": 3, "products": [
                { "_id": 2_i64, "name": "pen", "v": 0_i64 },
                { "_id": 1, "name": "Ann", "v": 3_i64, "quantity": 4 },
            ] },
        ];
        expected.extend_from_slice(&old[3..]);
        assert_same(&raw(db, "orders").await, &encoded(&expected));
        // The settings are in the catalog.
        let entries = all(&db.plain_collection("mongo_patterns")).await;
        let is_ours = |entry: &Document| entry.get_document("_id").unwrap().get_str("kind").unwrap() == "reference";
        assert!(entries.iter().any(is_ours));
    })
    .await;
}

#[tokio::test]
async fn the_ids_can_be_in_other_fields() {
    testkit::run(async |db| {
        let old = [
            doc! { "_id": 1, "customerId": 1, "productIds": [1, 2], "total": 5 },
            doc! { "_id": 2, "customerId": null, "productIds": [] },
            doc! { "_id": 3, "total": 1 },
            // Both forms, of the same source.
            doc! { "_id": 4, "customer": { "_id": 1 }, "customerId": 1.0 },
            doc! { "_id": 5, "customer": { "_id": 1, "name": "Old", "v": 3_i64 }, "customerId": 1 },
            doc! { "_id": 6, "customer": null, "customerId": 1 },
            // The field of the payer is the reference field itself.
            doc! { "_id": 7, "payer": 2 },
        ];
        unmigrated(db, old).await;
        let pen = doc! { "_id": 2, "name": "pen" };
        customers(db).insert_many([ann(), pen]).await.unwrap();
        let orders = several(builder(db.database())).build().unwrap();
        let migration = || {
            let migration = orders.migrate_from_references().from_field("customer", "customerId");
            migration.from_field("products", "productIds")
        };
        assert_eq!(number_of(&migration().await.unwrap()), 6);
        let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 3_i64 };
        let pen = doc! { "_id": 2, "name": "pen", "v": 0_i64 };
        let products = [doc! { "_id": 1, "name": "Ann", "v": 3_i64 }, pen.clone()];
        assert_eq!(
            all(&stored(db)).await,
            [
                doc! { "_id": 1, "total": 5, "customer": &copy, "products": products.to_vec() },
                doc! { "_id": 2, "products": [] },
                doc! { "_id": 3, "total": 1 },
                doc! { "_id": 4, "customer": &copy },
                doc! { "_id": 5, "customer": { "_id": 1, "name": "Old", "v": 3_i64 } },
                doc! { "_id": 6, "customer": &copy },
                doc! { "_id": 7, "payer": pen },
            ]
        );
        assert_eq!(number_of(&migration().await.unwrap()), 0);
    })
    .await;
}

/// Sources of all kinds, with ids of all kinds.
fn sources() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "v": 3, "name": "Ann", "address": { "city": "Dublin", "zip": "D1" }, "mail": "a" },
        doc! { "_id": 2, "name": null, "address": { "zip": "D2" }, "mail": { "work": 1 } },
        doc! { "_id": 3, "name": ["x", { "$gt": 1 }], "address": [{ "city": "Cork" }], "v": 0 },
        doc! { "_id": "$name", "name": "$address", "address": "none", "v": 7_i64 },
        doc! { "_id": { "a": 1, "b": "$x" }, "name": { "$literal": 1 }, "address": {} },
        doc! { "_id": 4_i64, "v": 2.0, "name": f64::NAN, "address": { "city": null } },
        doc! { "_id": "5".parse::<mongodb::bson::Decimal128>().unwrap(), "mail": "$$ROOT" },
        doc! { "_id": "customer", "address": { "city": { "zip": [1] }, "zip": {} } },
    ]
}

/// Returns the id of a random source, numbers with any type.
fn random_id(random: &mut fastrand::Rng) -> Bson {
    let id = sources()[random.usize(..8)].get("_id").unwrap().clone();
    let number = match &id {
        Bson::Int32(number) => f64::from(*number),
        Bson::Int64(number) => *number as f64,
        Bson::Decimal128(_) => 5.0,
        _ => return id,
    };
    match random.u8(..3) {
        0 => number.into(),
        1 => (number as i64).into(),
        _ => (number as i32).into(),
    }
}

/// Returns a reference: an id, or a document with fields of its own.
fn random_reference(random: &mut fastrand::Rng, id: &Bson) -> Bson {
    if random.bool() {
        return id.clone();
    }
    let mut reference = doc! {};
    let own: [(&str, Bson); 8] = [
        ("quantity", 3.into()),
        ("name", "old".into()),
        ("deleted", false.into()),
        ("address", doc! { "note": "$x", "city": "old" }.into()),
        ("contact", doc! { "mail": "old" }.into()),
        ("v", Bson::Null),
        ("own", doc! { "a": [1, { "$set": 1 }] }.into()),
        ("$price", 5.into()),
    ];
    for (name, value) in own {
        if random.u8(..3) == 0 {
            reference.insert(name, value);
        }
        if random.u8(..4) == 0 {
            reference.insert("_id", id);
        }
        if random.u8(..8) == 0 {
            reference.insert("address", "text");
        }
    }
    reference.insert("_id", id);
    reference.into()
}

/// Returns the form of a reference that a program inserts by the repository.
fn to_insert(reference: &Bson, id: &Bson) -> Bson {
    match reference {
        Bson::Document(document) if document.contains_key("_id") => reference.clone(),
        _ => doc! { "_id": id }.into(),
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn random_documents_get_the_form_that_insert_stores() {
    testkit::run(async |db| {
        let with_fields = |orders: &str| {
            let orders = db.database().collection::<Document>(orders);
            let builder = Orders::builder(orders, db.database().collection::<Document>("customers"));
            let builder = builder
                .reference_field("customer")
                .copied_fields(["address.city", "name"]);
            let builder = builder
                .copied_field("contact.mail", "mail")
                .copied_fields(["address.zip"]);
            several(builder.copied_field("contact.work", "mail.work"))
                .build()
                .unwrap()
        };
        let mut random = random(0);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for id in 0..300 {
            let (mut before, mut after) = (doc! { "_id": id, "total": 5 }, doc! { "_id": id, "total": 5 });
            for field in ["customer", "payer"] {
                if random.u8(..3) > 0 {
                    let source = random_id(&mut random);
                    let mut reference = random_reference(&mut random, &source);
                    if let (Bson::Document(snapshot), "payer") = (&mut reference, field) {
                        // It would be a copy.
                        snapshot.remove("name");
                    }
                    after.insert(field, to_insert(&reference, &source));
                    before.insert(field, reference);
                }
            }
            let mut ids: Vec<Bson> = sources()
                .iter()
                .map(|source| source.get("_id").unwrap().clone())
                .collect();
            random.shuffle(&mut ids);
            ids.truncate(random.usize(..5));
            let references: Vec<Bson> = ids.iter().map(|id| random_reference(&mut random, id)).collect();
            let inserted = references
                .iter()
                .zip(&ids)
                .map(|(reference, id)| to_insert(reference, id));
            after.insert("products", inserted.collect::<Vec<_>>());
            before.insert("products", references);
            old.push(before);
            new.push(after);
        }
        unmigrated(db, old).await;
        customers(db).insert_many(sources()).await.unwrap();
        for document in &new {
            with_fields("expected").insert(document).await.unwrap();
        }
        let orders = with_fields("orders");
        orders.migrate_from_references().chunk(70).await.unwrap();
        assert_same(&raw(db, "orders").await, &raw(db, "expected").await);
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}

/// The second one sends the settings, the record and the checks, and writes nothing.
#[tokio::test]
async fn a_migration_is_recorded_and_a_second_one_writes_nothing() {
    testkit::run(async |db| {
        unmigrated(db, (0..10).map(|id| doc! { "_id": id, "customer": 1 })).await;
        add_customers(db, 1..=1).await;
        let orders = builder(db.database()).build().unwrap();
        let migrated = orders.migrate_from_references().chunk(4).await.unwrap();
        assert_eq!(number_of(&migrated), 10);
        let before = raw(db, "orders").await;
        let record = raw(db, "mongo_patterns").await;
        db.recorder().clear();
        let migrated = orders.migrate_from_references().await.unwrap();
        assert_eq!((number_of(&migrated), migrated.created_indexes.len()), (0, 0));
        assert_eq!(names(db), "hello find find aggregate listCollections listIndexes");
        assert_same(&raw(db, "orders").await, &before);
        assert_same(&raw(db, "mongo_patterns").await, &record);

        let database = db.plain_client().database(db.database().name());
        let records = mongo_patterns::migrations(&database).await.unwrap();
        let [record] = &records[..] else { panic!("{records:?}") };
        assert_eq!((record.collection.as_str(), record.migrated), ("orders", 10));
        assert!(record.finished.is_some() && !record.is_running);
        assert_eq!(
            record.settings,
            doc! {
                "pattern": "reference",
                "into": "copies",
                "source": "orders",
                "sources": "customers",
                "version": "v",
                "fields": [{ "field": "customer", "ids": "customer" }],
            }
        );
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_chunk_takes_three_round_trips() {
    testkit::run(async |db| {
        for (chunks, orders) in [(1, 5), (4, 16)] {
            unmigrated(db, (0..orders).map(|id| doc! { "_id": id, "customer": 1 + id % 2 })).await;
            add_customers(db, 1..=2).await;
            let repository = builder(db.database()).build().unwrap();
            repository.ensure_indexes().await.unwrap();
            db.recorder().clear();
            let mut progress = Vec::new();
            let migration = repository.migrate_from_references().chunk(5);
            let migrated = migration.on_progress(|at| progress.push((at.done, at.total))).await;
            assert_eq!(number_of(&migrated.unwrap()), orders as u64);
            let sent = names_without_more(db);
            let before = [
                "hello",
                "find",
                "find",
                "aggregate",
                "listCollections",
                "listIndexes",
                "update",
                "find",
            ];
            let chunk = ["aggregate", "aggregate", "update"];
            let mut expected = before.to_vec();
            (0..chunks).for_each(|_| expected.extend(chunk));
            expected.extend(["aggregate", "update"]);
            assert_eq!(sent, expected);
            assert_eq!(progress.len(), chunks);
            assert_eq!(progress.last(), Some(&(orders as u64, orders as u64)));
            assert_current(db, &repository).await;
        }
    })
    .await;
}
