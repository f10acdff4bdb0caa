//! Tests of the settings of the reference commands: in the catalog, in profiles, and in an analysis.

use std::path::Path;

use mongo_patterns_core::Repository;
use mongo_patterns_reference::{Reference, ReferenceRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::reference::{filled, reference};
use crate::support::*;

/// Writes a profile with a further reference, and returns its path.
fn profile_with(folder: &Path, field: &str) -> String {
    let file = folder.join("further.toml");
    std::fs::write(
        &file,
        format!("[[reference]]\n[[reference.further]]\n{field}\ncopy = [\"name\"]\n"),
    )
    .unwrap();
    file.display().to_string()
}

/// Runs a command whose settings are those of the catalog.
fn of_catalog(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(["reference", "--collection", "orders"]).args(arguments))
}

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
        insert(db, "customers", [doc! { "_id": 1, "name": "Ann" }]).await;
        let order = doc! { "_id": 1, "buyers": [{ "_id": 1 }], "payer": { "_id": 1 } };
        repository.insert(&order).await.unwrap();
        let short = |arguments: &[&str]| of_catalog(db, arguments);
        let folder = tempfile::tempdir().unwrap();
        for verb in ["verify", "indexes", "repair", "indexes --create", "analyze"] {
            short(&verb.split(' ').collect::<Vec<_>>()).ok();
        }
        let shown = short(&["indexes", "--json"]).json();
        let names = shown.iter().filter_map(|line| line["name"].as_str());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["buyers._id_1", "payer._id_1", "customer._id_1"]
        );
        refused(&short(&["verify", "--version-field", "v"]), "`version`");
        refused(&short(&["verify", "--array=false"]), "`references`");
        let other = profile_with(folder.path(), "field = \"other\"");
        refused(&short(&["--profile", &other, "repair"]), "`references`");

        // The profile of `init` has the same settings, whichever of the collections it is asked for.
        insert(db, "invoices", [doc! { "_id": 1 }]).await;
        for collection in ["orders", "customers", "invoices"] {
            let profile = folder.path().join(format!("{collection}.toml"));
            let profile = profile.to_str().unwrap();
            ran(on(db).args(["init", collection, "--out", profile])).ok();
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
            ran(on(db).args(["--profile", profile, "reference", "verify"])).ok();
        }
    })
    .await;
}

#[tokio::test]
async fn sources_are_named_by_another_field() {
    testkit::run(async |db| {
        insert(db, "customers", [doc! { "_id": 1, "username": "ann", "name": "Ann" }]).await;
        let old = [
            doc! { "_id": 1, "customer": "ann" },
            doc! { "_id": 2, "customer": { "username": "ann" } },
        ];
        insert(db, "orders", old).await;
        reference(db, &["--source-key", "username", "migrate"]).ok();
        let copy = doc! { "_id": 1, "username": "ann", "name": "Ann", "v": 0_i64 };
        assert_eq!(all(db, "orders").await[1].get_document("customer").unwrap(), &copy);
        // The catalog has the setting.
        for verb in ["verify", "indexes"] {
            of_catalog(db, &[verb]).ok();
        }
        refused(&of_catalog(db, &["verify", "--source-key", "name"]), "`source_key`");
    })
    .await;
}

#[tokio::test]
async fn an_analysis_shows_the_state_of_the_references() {
    testkit::run(async |db| {
        filled(db).await;
        update(db, "customers", doc! { "_id": 2 }, doc! { "$set": { "v": 3 } }).await;
        let changes = [
            doc! { "$set": { "customer._id": 77 } },
            doc! { "$set": { "customer": 1 } },
            doc! { "$set": { "customer": [1] } },
            doc! { "$set": { "customerId": 3 }, "$unset": { "customer": "" } },
            doc! { "$set": { "customer": { "_id": 1 } } },
        ];
        for (id, change) in (2..).zip(changes) {
            update(db, "orders", doc! { "_id": id }, change).await;
        }
        let others = [doc! { "_id": null }, doc! { "_id": [1] }].map(|customer| doc! { "customer": customer });
        insert(db, "orders", others).await;
        let analyzed = reference(db, &["analyze", "--from-field", "customer=customerId", "--json"]);
        let of_field = analyzed.lines("reference").remove(0);
        for (name, expected) in [
            ("references", 9),
            ("copies", 6),
            ("ids_alone", 3),
            ("other_values", 3),
            ("distinct_ids", 4),
            ("sources_without_references", 0),
            ("without_source", 1),
            ("stale", 1),
            ("most_references_of_a_source", 6),
            ("largest_source", 1),
        ] {
            assert_eq!(of_field[name], expected, "{name}: {analyzed:?}");
        }
        analyzed.ends(
            0,
            json!({ "copies_of_the_largest_source": 6, "recommended": "reference" }),
        );
        let without = reference(db, &["analyze", "--json"]).lines("reference").remove(0);
        assert_eq!([&without["references"], &without["sources_without_references"]], [8, 1]);
        let text = reference(db, &["analyze"]);
        text.shows([
            "8 references with 3 distinct ids",
            "1 (12%) without a source",
            "up to 6 copies",
            "reference with",
        ]);
        let mut lines = text.out.lines().filter(|line| !line.contains(": customer of "));
        let wide = lines.find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
    })
    .await;
}

#[tokio::test]
async fn an_analysis_of_a_sample_estimates_all_documents() {
    testkit::run(async |db| {
        insert(db, "customers", (0..10).map(|id| doc! { "_id": id, "name": "Ann" })).await;
        insert(db, "orders", (0..500).map(|id| doc! { "_id": id, "customer": id % 10 })).await;
        reference(db, &["analyze", "--sample", "100"]).says(2, "starts with `customer`");
        index(db, "orders", doc! { "customer": 1 }).await;
        let analyze = |arguments: &[&str]| reference(db, arguments).lines("reference").remove(0);
        let sampled = analyze(&["analyze", "--sample", "100", "--json"]);
        let figures = ["distinct_ids", "most_references_of_a_source", "ids_alone"].map(|name| &sampled[name]);
        assert_eq!(figures, [10, 50, 500], "{sampled}");

        let array = |id: i32| {
            let copy = doc! { "_id": id % 10, "name": "Ann", "v": 0 };
            doc! { "_id": id, "customer": [Bson::from(copy), Bson::from((id + 1) % 10), Bson::from(vec![3])] }
        };
        let orders = db.plain_collection::<Document>("orders");
        orders.delete_many(doc! {}).await.unwrap();
        insert(db, "orders", (0..500).map(array)).await;
        index(db, "orders", doc! { "customer._id": 1 }).await;
        for (arguments, most) in [(&["analyze"][..], 100), (&["analyze", "--sample", "100"], 50)] {
            let of_arrays = analyze(&[&["--array", "--json"], arguments].concat());
            let figures = ["copies", "ids_alone", "other_values"].map(|name| &of_arrays[name]);
            assert_eq!(figures, [500; 3], "{of_arrays}");
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
        insert(db, "all_products", others).await;
        let more = doc! { "payers": [{ "_id": 2, "name": "Ann", "v": 0, "share": 0.5 }] };
        update(db, "orders", doc! { "_id": 3 }, doc! { "$set": more }).await;
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let shown = profile(db, "orders");
        for field in ["customer", "payers"] {
            let copies = "reference --collection orders --source-collection customers --reference";
            shown.shows([&format!(
                "these could be copies, for `{copies} {field} --copy name verify`"
            )]);
        }
        assert!(
            !shown.out.contains("all_products") && !shown.out.contains("[[reference]]"),
            "{}",
            shown.out
        );
    })
    .await;
}

#[tokio::test]
async fn wrong_settings_are_named() {
    testkit::run(async |db| {
        let short = |arguments: &[&str]| ran(on(db).arg("reference").args(arguments));
        refused(&short(&["verify"]), "--collection");
        insert(db, "a", [doc! {}]).await;
        refused(&short(&["verify", "--collection", "a"]), "--source-collection");
        refused(
            &short(&["verify", "--collection", "a", "--source-collection", "b"]),
            "there is no collection",
        );
        insert(db, "b", [doc! {}]).await;
        let two = ["verify", "--collection", "a", "--source-collection", "b"];
        refused(&short(&two), "--reference");
        refused(&short(&[&two[..], &["--reference", "c"]].concat()), "--copy");
        let same = ["verify", "--collection", "a", "--source-collection", "a"];
        refused(&short(&same), "same collection");
        for (option, value) in [
            ("--reference", "a.b"),
            ("--reference", "0"),
            ("--copy", "a..b"),
            ("--copy", "$a"),
            ("--copy", "a=b.$c"),
            ("--version-field", "a.b"),
            ("--source-key", "a.b"),
        ] {
            refused(&reference(db, &["verify", option, value]), &format!("{option}: "));
        }
        refused(&reference(db, &["verify"]), "there is no collection");
        insert(db, "customers", [doc! {}]).await;
        insert(db, "orders", [doc! {}]).await;
        refused(&reference(db, &["verify", "--copy", "v"]), "`v`");
        let folder = tempfile::tempdir().unwrap();
        let further = |field: &str| reference(db, &["--profile", &profile_with(folder.path(), field), "verify"]);
        refused(&further("field = \"c\"\ncollection = \"invoices\""), ".invoices");
        refused(&further("field = \"$payer\""), "$payer");
        refused(&further("field = \"payer\"\nversion = \"v\""), "version");
        for bad in ["customer", "payer=payerId", "customer=a.b"] {
            refused(&reference(db, &["plan", "--from-field", bad]), "--from-field: ");
        }
        refused(
            &reference(db, &["analyze", "--from-field", "customer"]),
            "--from-field: ",
        );
    })
    .await;
}
