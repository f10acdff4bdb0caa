//! Tests of the settings of the reference commands: in the catalog, in profiles, and in an analysis.

use mongo_patterns_core::Repository;
use mongo_patterns_reference::{Reference, ReferenceRepository};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use crate::reference::{filled, reference, update};
use crate::support::*;

#[tokio::test]
async fn the_catalog_has_all_settings() {
    testkit::run(async |db| {
        let [orders, customers, invoices] =
            ["orders", "customers", "invoices"].map(|name| db.plain_collection::<Document>(name));
        let repository = ReferenceRepository::<Document, Document>::builder(orders, customers)
            .reference_field("buyers")
            .copied_field("mail", "contact.email")
            .copied_fields(["name", "address.city"])
            .array()
            .version_field("version")
            .add_reference(Reference::new("payer").copied_fields(["name"]).snapshot())
            .add_referring(invoices, Reference::new("customer").copied_field("n", "name"));
        let repository = repository.build().unwrap();
        repository.ensure_indexes().await.unwrap();
        repository
            .sources_collection()
            .insert_one(doc! { "_id": 1, "name": "Ann" })
            .await
            .unwrap();
        repository
            .insert(&doc! { "_id": 1, "buyers": [{ "_id": 1 }], "payer": { "_id": 1 } })
            .await
            .unwrap();
        let short = |arguments: &[&str]| ran(on(db).args(["reference", "--collection", "orders"]).args(arguments));
        for verb in [
            &["verify"][..],
            &["indexes"],
            &["sweep"],
            &["repair"],
            &["indexes", "--create"],
            &["analyze"],
        ] {
            let done = short(verb);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
        let shown = short(&["indexes", "--json"]).json();
        let names = shown.iter().filter_map(|line| line["name"].as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                "buyers._id_1_buyers.version_1",
                "payer._id_1",
                "customer._id_1_customer.version_1"
            ]
        );
        refused(&short(&["verify", "--version-field", "v"]), "`version`");
        refused(&short(&["verify", "--array=false"]), "`references`");
        refused(
            &short(&["repair", "--add-reference", r#"{"field": "other", "copy": ["name"]}"#]),
            "`references`",
        );

        // The profile of `init` has the same settings, whichever of the collections it is asked for.
        let folder = tempfile::tempdir().unwrap();
        db.plain_collection::<Document>("invoices")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        for collection in ["orders", "customers", "invoices"] {
            let profile = folder.path().join(format!("{collection}.toml"));
            let profile = profile.to_str().unwrap();
            assert_eq!(ran(on(db).args(["init", collection, "--out", profile])).code, Some(0));
            let text = std::fs::read_to_string(profile).unwrap();
            for line in [
                "collection = \"orders\"",
                "source_collection = \"customers\"",
                "reference = \"buyers\"",
                "\"mail=contact.email\"",
                "version_field = \"version\"",
            ] {
                assert!(text.contains(line), "{line}: {text}");
            }
            let of_profile = ran(on(db).args(["--profile", profile, "reference", "verify"]));
            assert_eq!(of_profile.code, Some(0), "{of_profile:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn sources_are_named_by_another_field() {
    testkit::run(async |db| {
        let [orders, customers] = ["orders", "customers"].map(|name| db.plain_collection::<Document>(name));
        let ann = doc! { "_id": 1, "username": "ann", "name": "Ann" };
        customers.insert_one(ann).await.unwrap();
        let old = [
            doc! { "_id": 1, "customer": "ann" },
            doc! { "_id": 2, "customer": { "username": "ann" } },
        ];
        orders.insert_many(old).await.unwrap();
        let migrated = reference(db, &["--source-key", "username", "migrate"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let copy = doc! { "_id": 1, "username": "ann", "name": "Ann", "v": 0_i64 };
        let stored = orders.find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
        assert_eq!(stored.get_document("customer").unwrap(), &copy);
        // The catalog has the setting.
        let short = |arguments: &[&str]| ran(on(db).args(["reference", "--collection", "orders"]).args(arguments));
        for verb in [&["verify"][..], &["indexes"], &["migrate", "--back"]] {
            let done = short(verb);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
        let stored = orders.find_one(doc! { "_id": 2 }).await.unwrap().unwrap();
        assert_eq!(stored.get_str("customer").unwrap(), "ann");
        refused(&short(&["verify", "--source-key", "name"]), "`source_key`");
    })
    .await;
}

#[tokio::test]
async fn an_analysis_shows_the_state_of_the_references() {
    testkit::run(async |db| {
        filled(db).await;
        update(db, "customers", doc! { "_id": 2 }, doc! { "$set": { "v": 3 } }).await;
        update(db, "orders", doc! { "_id": 2 }, doc! { "$set": { "customer._id": 77 } }).await;
        update(db, "orders", doc! { "_id": 3 }, doc! { "$set": { "customer": 1 } }).await;
        update(db, "orders", doc! { "_id": 4 }, doc! { "$set": { "customer": [1] } }).await;
        update(
            db,
            "orders",
            doc! { "_id": 5 },
            doc! { "$set": { "customerId": 3 }, "$unset": { "customer": "" } },
        )
        .await;
        update(
            db,
            "orders",
            doc! { "_id": 6 },
            doc! { "$set": { "customer": { "_id": 1 } } },
        )
        .await;
        let others = [doc! { "_id": null }, doc! { "_id": [1] }].map(|customer| doc! { "customer": customer });
        db.plain_collection::<Document>("orders")
            .insert_many(others)
            .await
            .unwrap();
        let analyzed = reference(db, &["analyze", "--from-field", "customer=customerId", "--json"]);
        assert_eq!(analyzed.code, Some(0), "{analyzed:?}");
        let lines = analyzed.lines("reference");
        let of_field = &lines[0];
        for (name, expected) in [
            ("references", json!(9)),
            ("copies", json!(6)),
            ("ids_alone", json!(3)),
            ("other_values", json!(3)),
            ("distinct_ids", json!(4)),
            ("sources_without_references", json!(0)),
            ("without_source", json!(1)),
            ("stale", json!(1)),
            ("most_references_of_a_source", json!(6)),
            ("largest_source", json!(1)),
        ] {
            assert_eq!(of_field[name], expected, "{name}: {analyzed:?}");
        }
        let summary = analyzed.summary();
        assert_eq!(
            [&summary["copies_of_the_largest_source"], &summary["recommended"]],
            [&json!(6), &json!("reference")]
        );
        let without = reference(db, &["analyze", "--json"]).lines("reference").remove(0);
        assert_eq!(
            [&without["references"], &without["sources_without_references"]],
            [&json!(8), &json!(1)]
        );
        let text = reference(db, &["analyze"]);
        for part in [
            "8 references with 3 distinct ids",
            "1 (12%) without a source",
            "up to 6 copies",
            "reference with",
        ] {
            assert!(text.out.contains(part), "{part}: {}", text.out);
        }
        let mut lines = text.out.lines().filter(|line| !line.contains(": customer of "));
        let wide = lines.find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
    })
    .await;
}

#[tokio::test]
async fn an_analysis_of_a_sample_estimates_all_documents() {
    testkit::run(async |db| {
        let [orders, customers] = ["orders", "customers"].map(|name| db.plain_collection::<Document>(name));
        customers
            .insert_many((0..10).map(|id| doc! { "_id": id, "name": "Ann" }))
            .await
            .unwrap();
        orders
            .insert_many((0..500).map(|id| doc! { "_id": id, "customer": id % 10 }))
            .await
            .unwrap();
        refused(
            &reference(db, &["analyze", "--sample", "100"]),
            "starts with `customer`",
        );
        let index = mongodb::IndexModel::builder().keys(doc! { "customer": 1 }).build();
        orders.create_index(index).await.unwrap();
        let sampled = reference(db, &["analyze", "--sample", "100", "--json"])
            .lines("reference")
            .remove(0);
        assert_eq!(
            [
                &sampled["distinct_ids"],
                &sampled["most_references_of_a_source"],
                &sampled["ids_alone"]
            ],
            [&json!(10), &json!(50), &json!(500)],
            "{sampled}"
        );

        let array = |id: i32| {
            let copy = doc! { "_id": id % 10, "name": "Ann", "v": 0 };
            doc! { "_id": id, "customer": [Bson::from(copy), Bson::from((id + 1) % 10), Bson::from(vec![3])] }
        };
        orders.delete_many(doc! {}).await.unwrap();
        orders.insert_many((0..500).map(array)).await.unwrap();
        let index = mongodb::IndexModel::builder().keys(doc! { "customer._id": 1 }).build();
        orders.create_index(index).await.unwrap();
        for (arguments, most) in [(&["analyze"][..], 100), (&["analyze", "--sample", "100"], 50)] {
            let of_arrays = reference(db, &[&["--array", "--json"], arguments].concat())
                .lines("reference")
                .remove(0);
            assert_eq!(
                [
                    &of_arrays["copies"],
                    &of_arrays["ids_alone"],
                    &of_arrays["other_values"]
                ],
                [&json!(500), &json!(500), &json!(500)],
                "{of_arrays}"
            );
            assert_eq!(of_arrays["distinct_ids"], 10, "{of_arrays}");
            // Of a sample, the references of the more common form are counted.
            assert_eq!(of_arrays["most_references_of_a_source"], most, "{of_arrays}");
        }
    })
    .await;
}

#[tokio::test]
async fn init_recognizes_copies() {
    testkit::run(async |db| {
        filled(db).await;
        let others = (1..4).map(|id| doc! { "_id": id, "total": 1 });
        db.plain_collection::<Document>("all_products")
            .insert_many(others)
            .await
            .unwrap();
        let more = doc! { "payers": [{ "_id": 2, "name": "Ann", "v": 0, "share": 0.5 }] };
        update(db, "orders", doc! { "_id": 3 }, doc! { "$set": more }).await;
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let guessed = ran(on(db).args(["init", "orders", "--out", "-"])).out;
        for line in [
            "[reference]",
            "source_collection = \"customers\"",
            "reference = \"customer\"",
            "copy = [\"name\"]",
            r#"add_reference = ['{"field":"payers","copy":["name"],"array":true}']"#,
        ] {
            assert!(guessed.contains(line), "{line}: {guessed}");
        }
    })
    .await;
}

#[tokio::test]
async fn wrong_settings_are_named() {
    testkit::run(async |db| {
        let short = |arguments: &[&str]| ran(on(db).arg("reference").args(arguments));
        refused(&short(&["verify"]), "--collection");
        refused(&short(&["verify", "--collection", "a"]), "--source-collection");
        let two = ["verify", "--collection", "a", "--source-collection", "b"];
        refused(&short(&two), "--reference");
        refused(&short(&[&two[..], &["--reference", "c"]].concat()), "--copy");
        refused(
            &short(&["verify", "--collection", "a", "--source-collection", "a"]),
            "same collection",
        );
        for (option, value) in [
            ("--reference", "a.b"),
            ("--reference", "0"),
            ("--copy", "a..b"),
            ("--copy", "$a"),
            ("--copy", "a=b.$c"),
            ("--version-field", "a.b"),
            ("--source-key", "a.b"),
            ("--add-reference", "payer"),
            ("--add-reference", r#"{"field": "$payer", "copy": ["name"]}"#),
            ("--add-referring", r#"{"field": "payer", "copy": ["name"]}"#),
        ] {
            refused(&reference(db, &["verify", option, value]), &format!("{option}: "));
        }
        refused(&reference(db, &["verify", "--copy", "v"]), "`v`");
        refused(&reference(db, &["verify"]), "there is no collection");
        db.plain_collection::<Document>("customers")
            .insert_one(doc! {})
            .await
            .unwrap();
        db.plain_collection::<Document>("orders")
            .insert_one(doc! {})
            .await
            .unwrap();
        let other = r#"{"collection": "invoices", "field": "c", "copy": ["name"]}"#;
        refused(&reference(db, &["verify", "--add-referring", other]), ".invoices");
        for bad in ["customer", "payer=payerId", "customer=a.b"] {
            refused(&reference(db, &["plan", "--from-field", bad]), "--from-field: ");
            refused(&reference(db, &["analyze", "--from-field", bad]), "--from-field: ");
            refused(&reference(db, &["plan", "--back", "--to-field", bad]), "--to-field: ");
        }
        refused(&reference(db, &["plan", "--to-field", "customer=customerId"]), "--back");
        refused(&reference(db, &["plan", "--drop-snapshots"]), "--back");
        refused(&reference(db, &["plan", "--back", "--where", "{}"]), "--where");
    })
    .await;
}
