//! The migration of references of other forms: DBRefs, and documents with the id in another field than `_id`.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::ReferenceForm;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::reference::migrate::*;
use support::reference::migrate_forms::*;
use support::reference::migrate_refused::{fill, refused};
use support::reference::*;

#[tokio::test]
async fn references_of_other_forms_get_copies_and_keep_their_own_fields() {
    testkit::run(async |db| {
        let mut with_database = db_ref(1);
        with_database.insert("$db", db.database().name());
        with_database.extend(doc! { "name": "old", "note": { "$x": "$name" }, "address": { "zip": "D1" } });
        // No order refers to a customer by this field.
        let other = doc! { "$ref": "sellers", "$id": 5 };
        let own = doc! { "_id": 1, "name": "old", "v": 3_i64 };
        let old = [
            doc! { "_id": 1, "seller": &other, "customer": with_database, "total": 5 },
            doc! { "_id": 2, "customerId": db_ref(1.0), "seller": &other },
            doc! { "_id": 3, "customerId": 2 },
            doc! { "_id": 4, "customer": { "_id": 2 }, "customerId": db_ref(2) },
            doc! { "_id": 5, "payer": { "name": "paid", "id": 1, "city": "Cork" } },
            doc! { "_id": 6, "payer": { "id": 2 } },
            doc! { "_id": 7, "products": [2, { "id": 1, "quantity": 4, "name": "old" }, { "_id": "x" }] },
            doc! { "_id": 8, "products": [{ "_id": 1, "id": 1 }] },
            // These have nothing to migrate.
            doc! { "_id": 9, "customer": null, "products": [], "seller": &other },
            doc! { "_id": 10 },
            doc! { "_id": 11, "customer": { "_id": 1, "name": "Old", "v": 3_i64, "$id": 7 } },
            doc! { "_id": 12, "products": [{ "_id": 9, "name": "Old", "deleted": true, "id": 1 }, &own] },
        ];
        unmigrated(db, old.clone()).await;
        let ann = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 3 };
        let sources = [ann, doc! { "_id": 2_i64, "name": "pen" }, doc! { "_id": "x" }];
        customers(db).insert_many(sources).await.unwrap();
        let orders = several(builder(db.database())).build().unwrap();
        assert_eq!(number_of(&of_forms(&orders).await.unwrap()), 8);
        let name = |name: &str| doc! { "_id": 1, "name": name, "v": 3_i64 };
        let pen = doc! { "_id": 2_i64, "name": "pen", "v": 0_i64 };
        let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 3_i64 };
        let with = |mut copy: Document, own: Document| {
            copy.extend(own);
            copy
        };
        let mut expected = vec![
            doc! {
                "_id": 1, "seller": &other,
                "customer": with(copy.clone(), doc! { "note": { "$x": "$name" } }), "total": 5,
            },
            doc! { "_id": 2, "seller": &other, "customer": &copy },
            doc! { "_id": 3, "customer": &pen },
            doc! { "_id": 4, "customer": &pen },
            // A snapshot keeps what it shows.
            doc! { "_id": 5, "payer": { "_id": 1, "name": "paid", "city": "Cork" } },
            doc! { "_id": 6, "payer": &pen },
            doc! { "_id": 7, "products": [
                &pen, with(name("Ann"), doc! { "quantity": 4 }), { "_id": "x", "v": 0_i64 },
            ] },
            doc! { "_id": 8, "products": [with(name("Ann"), doc! { "id": 1 })] },
        ];
        expected.extend_from_slice(&old[8..]);
        let expected = encoded(&expected);
        assert_same(&raw(db, "orders").await, &expected);
        // Again it changes nothing, and other settings of a finished migration are no obstacle.
        assert_eq!(number_of(&of_forms(&orders).await.unwrap()), 0);
        assert_eq!(number_of(&orders.migrate_from_references().await.unwrap()), 0);
        assert_same(&raw(db, "orders").await, &expected);
    })
    .await;
}

/// A reference of another form gets what the same reference with an `_id` gets.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn random_references_of_other_forms_are_those_with_an_id() {
    testkit::run(async |db| {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let ids: [Bson; 6] = [
            1.into(),
            "$name".into(),
            "$$ROOT".into(),
            doc! { "a": "$_id" }.into(),
            "customer.name".into(),
            true.into(),
        ];
        let own: [(&str, Bson); 6] = [
            ("name", "old".into()),
            ("address", doc! { "city": "old", "$zip": 1 }.into()),
            ("$price", doc! { "$add": [1, 2] }.into()),
            ("a.b", 1.into()),
            ("v", Bson::Null),
            ("", "empty".into()),
        ];
        for (form, field) in [
            (ReferenceForm::DbRef, "$id"),
            (id_in("id"), "id"),
            (id_in("userId "), "userId "),
            (id_in("na$me"), "na$me"),
            (id_in("Ünï"), "Ünï"),
            (id_in("0"), "0"),
        ] {
            let (mut old, mut expected) = (Vec::new(), Vec::new());
            for id in 0..60 {
                let mut reference = |source: &Bson| {
                    let mut with_id = doc! { "_id": source };
                    let mut of_form = match form {
                        ReferenceForm::DbRef => db_ref(source.clone()),
                        _ => doc! { field: source },
                    };
                    for (name, value) in &own {
                        if random.bool() {
                            with_id.insert(*name, value);
                            of_form.insert(*name, value);
                        }
                    }
                    (of_form, with_id)
                };
                let (of_customer, customer) = reference(&ids[id as usize % 6]);
                let products = ids[..id as usize % 7].iter().map(&mut reference);
                let (of_products, products): (Vec<Document>, Vec<Document>) = products.unzip();
                old.push(doc! { "_id": id, "customer": of_customer, "products": of_products });
                expected.push(doc! { "_id": id, "customer": customer, "products": products });
            }
            let migrated = async |orders: Vec<Document>, form: Option<&ReferenceForm>| {
                unmigrated(db, orders).await;
                let sources = ids.iter().map(|id| doc! { "_id": id, "name": { "$x": id }, "v": 1 });
                customers(db).insert_many(sources).await.unwrap();
                let orders = several(builder(db.database())).build().unwrap();
                let mut migration = orders.migrate_from_references().chunk(25);
                for field in ["customer", "products"] {
                    migration = match form {
                        Some(form) => migration.from_form(field, form.clone()),
                        None => migration,
                    };
                }
                assert_eq!(number_of(&migration.await.unwrap()), 60);
                assert_eq!(findings(&orders).await, []);
                raw(db, "orders").await
            };
            let expected = migrated(expected, None).await;
            assert_same(&migrated(old, Some(&form)).await, &expected);
        }
    })
    .await;
}

/// Whether a document is a reference or the id of a source, the form says.
#[tokio::test]
async fn ids_that_are_documents_stay_ids_unless_they_are_of_the_form() {
    testkit::run(async |db| {
        let old = [
            doc! { "_id": 1, "customer": { "shop": 1 } },
            doc! { "_id": 2, "customer": { "id": 1 } },
        ];
        let sources = [1.into(), doc! { "shop": 1 }.into(), Bson::from(doc! { "id": 1 })];
        for (form, of_second) in [(None, &sources[2]), (Some(id_in("id")), &sources[0])] {
            unmigrated(db, old.clone()).await;
            let with_ids = sources.iter().map(|id| doc! { "_id": id });
            customers(db).insert_many(with_ids).await.unwrap();
            let orders = builder(db.database()).build().unwrap();
            let migration = orders.migrate_from_references();
            let migration = match form {
                Some(form) => migration.from_form("customer", form),
                None => migration,
            };
            assert_eq!(number_of(&migration.await.unwrap()), 2);
            for (order, expected) in [(1, &sources[1]), (2, of_second)] {
                assert_eq!(copy_in(db, order).await.get("_id"), Some(expected));
            }
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_reference_that_cannot_be_converted_is_named_and_nothing_is_written() {
    testkit::run(async |db| {
        let orders = fill(db, [doc! { "_id": 1, "customerId": db_ref(1) }]).await;
        for (bad, reason, field) in invalid() {
            let refused = refused(db, || of_forms(&orders), bad.clone(), reason).await;
            assert_eq!(refused.field(), Some(field), "{bad}: {refused}");
        }
    })
    .await;
}

async fn of_both_forms(db: &TestDatabase) -> Orders {
    let old = [
        doc! { "_id": 1, "customer": db_ref(1) },
        doc! { "_id": 2, "customer": { "id": 2, "name": "?" } },
    ];
    unmigrated(db, old).await;
    add_customers(db, 1..=2).await;
    builder(db.database()).build().unwrap()
}

#[tokio::test]
async fn the_errors_and_findings_name_the_form_and_the_option() {
    testkit::run(async |db| {
        let orders = of_both_forms(db).await;
        let refused = orders.migrate_from_references().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidItemId);
        assert_eq!(refused.remedy(), Some(mongo_patterns::Remedy::FromForm));
        let texts = findings(&orders).await;
        let texts = texts.iter().map(|finding| finding.problem.to_string());
        let texts: Vec<String> = texts.chain([refused.to_string()]).collect();
        for (text, form) in texts.iter().zip(["DBRef", "without an `_id`", "DBRef"]) {
            assert!(text.contains(form) && text.contains("from_form(..)"), "{text}");
            assert!(!text.contains("exist"), "{text}");
        }
        assert_eq!(texts.len(), 3);
        // No finding advises what destroys the reference.
        let advises = |text: &String| text.contains("remove") || text.contains("insert");
        assert!(!texts[..2].iter().any(advises), "{texts:?}");
    })
    .await;
}

/// Each call skips the references of the other form.
#[tokio::test]
async fn a_field_with_both_forms_is_migrated_by_two_calls() {
    testkit::run(async |db| {
        let orders = of_both_forms(db).await;
        let list = skip_list(db);
        let migration = |form| orders.migrate_from_references().from_form("customer", form);
        for (form, skipped) in [(ReferenceForm::DbRef, "without_id"), (id_in("id"), "")] {
            let migrated = migration(form).skip_invalid(&list).await.unwrap();
            assert_eq!(migrated.documents, 1);
            let found = migrated.skipped.iter().filter(|(_, number)| *number > 0);
            assert_eq!(found.map(|(reason, _)| reason).collect::<Vec<_>>().join(" "), skipped);
        }
        assert_eq!(assert_current(db, &orders).await, 2);
        let refused = migration(id_in("$id")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Configuration);
        let twice = migration(id_in("id")).from_form("customer", ReferenceForm::DbRef);
        assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

/// The number of a customer can be the `_id` of another one.
#[tokio::test]
async fn references_by_another_field_are_refused_without_its_name() {
    testkit::run(async |db| {
        let old = (0..6).map(|id| doc! { "_id": id, "customerNo": 101 + id % 3, "total": id });
        unmigrated(db, old).await;
        let numbers = [(1, 101), (2, 102), (101, 104), (5, 103)];
        let numbered = numbers.map(|(id, number)| doc! { "_id": id, "no": number, "name": "Ann" });
        customers(db).insert_many(numbered).await.unwrap();
        let migrate = async |builder: Builder| {
            let orders = builder.build().unwrap();
            let migration = orders.migrate_from_references();
            migration.from_field("customer", "customerNo").await
        };
        let refused = migrate(builder(db.database())).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert!(refused.to_string().contains("source_key(..)"), "{refused}");
        let migrated = migrate(builder(db.database()).source_key("no")).await.unwrap();
        assert_eq!(number_of(&migrated), 6);
        for (id, order) in (0..).zip(all(&stored(db)).await) {
            let customer = [1, 2, 5][id as usize % 3];
            let copy = doc! { "_id": customer, "no": 101 + id % 3, "name": "Ann", "v": 0_i64 };
            assert_eq!(order, doc! { "_id": id, "total": id, "customer": copy });
        }
    })
    .await;
}
