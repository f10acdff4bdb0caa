//! Wrong settings: what each command refuses, with the catalog and without it.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};

use crate::support::*;

async fn contents(db: &TestDatabase) -> Vec<Vec<Document>> {
    let mut contents = Vec::new();
    for name in ["trades", "drug", "drug_more", "mongo_patterns"] {
        contents.push(all(db, name).await);
    }
    contents
}

/// Drugs with reviews, some of which are in overflow documents, as another program names them.
async fn drugs(db: &TestDatabase) {
    let drug = |id: String, more: bool| doc! { "_id": id, "reviews": (0..if more { 6 } else { 2 }).collect::<Vec<i32>>(), "more": more };
    let drugs = (0..60).map(|n| drug(format!("drug{n}"), n % 6 == 0));
    db.plain_collection::<Document>("drug")
        .insert_many(drugs)
        .await
        .unwrap();
    let overflow = (0..10)
        .map(|n| doc! { "drug": format!("drug{}", n * 6), "seq": 0, "n": 4, "further": (0..4).collect::<Vec<i32>>() });
    let overflowing = db.plain_collection::<Document>("drug_more");
    overflowing.insert_many(overflow).await.unwrap();
}

const DRUGS: [&str; 18] = [
    "outlier",
    "--collection",
    "drug",
    "--extras-collection",
    "drug_more",
    "--array",
    "reviews",
    "--parent",
    "drug",
    "--extras",
    "further",
    "--flag",
    "more",
    "--count",
    "n",
    "--threshold",
    "6",
    "--json",
];

fn outlier(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(DRUGS).args(arguments))
}

/// Whether a setting is missing then, or the collection.
#[tokio::test]
async fn a_wrong_name_of_a_collection_is_answered_by_those_of_the_catalog() {
    testkit::run(async |db| {
        for name in ["trades", "visits"] {
            let create = ["--collection", name, "indexes", "--create"];
            assert_eq!(bucket(db, &create).code, Some(0));
        }
        drugs(db).await;
        assert_eq!(outlier(db, &["indexes", "--create"]).code, Some(0));
        let names = "no bucket of that name in the catalog: trades, visits; ";
        let verify = |collection: &str| ran(on(db).args(["bucket", "--collection", collection, "verify"]));
        refused(&verify("trade"), &format!("{names}--key is missing"));
        refused(&verify("drug"), &format!("{names}--key is missing"));
        refused(
            &bucket(db, &["--collection", "trade", "verify"]),
            &format!("{names}there is no collection"),
        );
        // The catalog has the type of the keys too, which no document shows.
        assert_eq!(verify("trades").code, Some(0), "{:?}", verify("trades"));
        let array = ran(on(db).args(["outlier", "--collection", "drugs", "verify"]));
        refused(
            &array,
            "no outlier of that name in the catalog: drug.reviews; --array is missing",
        );
    })
    .await;
}

/// An entry of an earlier version has no type: documents show it, and `indexes --create` stores it.
#[tokio::test]
async fn the_type_of_the_keys_is_that_of_the_catalog() {
    testkit::run(async |db| {
        fill(db, 4, 40).await;
        assert_eq!(bucket(db, &["migrate"]).code, Some(0));
        let settings = BUCKETS.iter().take_while(|option| **option != "--key-type");
        let settings: Vec<&str> = settings.copied().collect();
        let run = |options: &[&str]| ran(on(db).arg("bucket").args(&settings).args(options));
        let key_type = async || {
            let entries = all(db, "mongo_patterns").await;
            let entry = entries
                .iter()
                .find(|entry| entry.contains_key("settings") && entry.contains_key("format"));
            entry
                .unwrap()
                .get_document("settings")
                .unwrap()
                .get_str("key_type")
                .ok()
                .map(str::to_owned)
        };
        assert_eq!(key_type().await.as_deref(), Some("int"));
        refused(&run(&["--key-type", "string", "verify"]), "`key_type`");
        let profile = run_init(db);
        assert!(profile.contains("key_type = \"int\""), "{profile}");

        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let unset = doc! { "$unset": { "settings.key_type": "" } };
        catalog.update_one(doc! { "_id.kind": "bucket" }, unset).await.unwrap();
        assert_eq!(run(&["verify"]).code, Some(0));
        assert_eq!(key_type().await, None);
        assert_eq!(run(&["indexes", "--create"]).code, Some(0));
        assert_eq!(key_type().await.as_deref(), Some("int"));
    })
    .await;
}

fn run_init(db: &TestDatabase) -> String {
    ran(on(db).args(["init", "trades", "--out", "-"])).out
}

#[tokio::test]
async fn settings_that_contradict_the_catalog_are_refused() {
    testkit::run(async |db| {
        fill(db, 60, 1200).await;
        assert_eq!(bucket(db, &["migrate", "--page-size", "5"]).code, Some(0));
        drugs(db).await;
        assert_eq!(outlier(db, &["indexes", "--create"]).code, Some(0));
        let before = contents(db).await;
        for verb in [
            ["verify", "--json"],
            ["repair", "--json"],
            ["repair", "--dry-run"],
            ["indexes", "--create"],
        ] {
            refused(
                &bucket(db, &[&["--key", "customerID", "--page-size", "5"], &verb[..]].concat()),
                "`key`",
            );
            refused(
                &bucket(db, &[&["--page-size", "100"], &verb[..]].concat()),
                "`page_size`",
            );
        }
        refused(&bucket(db, &["migrate", "--page-size", "50"]), "`page_size`");
        for (option, value, setting) in [
            ("--parent", "parent_id", "`parent`"),
            ("--extras-collection", "nosuch", "`extras_collection`"),
            ("--threshold", "3", "`threshold`"),
            ("--count", "count", "`count`"),
        ] {
            refused(&outlier(db, &["repair", option, value]), setting);
            refused(&outlier(db, &["repair", "--delete-orphans", option, value]), setting);
        }
        assert_eq!(contents(db).await, before);

        let renamed = bucket(
            db,
            &[
                "indexes",
                "--create",
                "--replace-settings",
                "--page-size",
                "5",
                "--time",
                "day",
            ],
        );
        assert_eq!(renamed.code, Some(0), "{renamed:?}");
        refused(&bucket(db, &["verify", "--page-size", "5"]), "`time`");
    })
    .await;
}

#[tokio::test]
async fn what_rewrites_documents_needs_settings_in_the_catalog() {
    testkit::run(async |db| {
        fill(db, 60, 1200).await;
        assert_eq!(bucket(db, &["migrate", "--page-size", "5"]).code, Some(0));
        drugs(db).await;
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let before = contents(db).await;
        let no_entry = "has no entry in the catalog";
        for settings in [["--page-size", "5"], ["--page-size", "100"]] {
            let refusal = bucket(db, &[&["repair"], &settings[..]].concat());
            refused(&refusal, no_entry);
            assert!(refusal.err.contains("`indexes --create`"), "{refusal:?}");
        }
        refused(&outlier(db, &["repair", "--threshold", "1"]), no_entry);
        refused(&outlier(db, &["repair", "--delete-orphans"]), no_entry);
        refused(&outlier(db, &["migrate", "--flag", "has_extras"]), "`has_extras`");
        refused(
            &bucket(db, &["indexes", "--create", "--page-size", "5", "--key", "customerID"]),
            "`customerID`",
        );
        refused(
            &bucket(db, &["indexes", "--create", "--page-size", "100"]),
            "customerId_1_count_lt_5",
        );
        refused(
            &outlier(db, &["indexes", "--create", "--extras-collection", "nosuch"]),
            "nosuch",
        );
        refused(
            &outlier(db, &["indexes", "--create", "--parent", "parent_id"]),
            "`parent_id`",
        );
        let low = outlier(db, &["repair", "--threshold", "1", "--dry-run"]);
        assert_eq!(
            (low.code, &low.summary()["to_repair"]),
            (Some(1), &60.into()),
            "{low:?}"
        );
        assert_eq!(contents(db).await, before);
        assert_eq!(outlier(db, &["indexes", "--create", "--threshold", "1"]).code, Some(0));
        let repaired = outlier(db, &["repair", "--threshold", "1"]);
        assert_eq!(
            (repaired.code, &repaired.summary()["repaired"]),
            (Some(0), &60.into()),
            "{repaired:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn orphans_are_deleted_with_the_catalog() {
    testkit::run(async |db| {
        drugs(db).await;
        let orphans = (0..7).map(|n| doc! { "drug": format!("gone{n}"), "seq": 0, "n": 1, "further": [1] });
        let overflowing = db.plain_collection::<Document>("drug_more");
        overflowing.insert_many(orphans).await.unwrap();
        refused(
            &outlier(db, &["repair", "--delete-orphans"]),
            "has no entry in the catalog",
        );
        assert_eq!(all(db, "drug_more").await.len(), 17);
        assert_eq!(outlier(db, &["indexes", "--create"]).code, Some(0));
        assert_eq!(outlier(db, &["repair"]).code, Some(1));
        assert_eq!(all(db, "drug_more").await.len(), 17);
        assert_eq!(outlier(db, &["repair", "--delete-orphans"]).code, Some(0));
        assert_eq!(all(db, "drug_more").await.len(), 10);
    })
    .await;
}

#[tokio::test]
async fn init_reads_the_catalog_indexes_and_overflow_documents() {
    testkit::run(async |db| {
        drugs(db).await;
        let init = |collection: &str| ran(on(db).args(["init", collection, "--out", "-"])).out;
        let guessed = init("drug");
        for line in [
            "extras_collection = \"drug_more\"",
            "parent = \"drug\"",
            "extras = \"further\"",
            "count = \"n\"",
            "flag = \"more\"",
            "threshold = 6",
        ] {
            assert!(guessed.contains(line), "{line}: {guessed}");
        }
        let buckets = (0..3).map(|n| {
            let items: Vec<Document> = (0..4).map(|n| doc! { "n": n }).collect();
            doc! { "_id": format!("{n}_{SECOND}"), "customerId": n, "year": 2013, "size": 4, "history": items }
        });
        db.plain_collection::<Document>("trades")
            .insert_many(buckets)
            .await
            .unwrap();
        let below = mongodb::options::IndexOptions::builder()
            .name("customerId_1_size_lt_50".to_owned())
            .unique(true)
            .partial_filter_expression(doc! { "size": { "$lt": 50 } });
        let index = IndexModel::builder()
            .keys(doc! { "customerId": 1 })
            .options(below.build())
            .build();
        db.plain_collection::<Document>("trades")
            .create_index(index)
            .await
            .unwrap();
        let guessed = init("trades");
        for line in ["key = \"customerId\"", "count = \"size\"", "page_size = 50"] {
            assert!(guessed.contains(line), "{line}: {guessed}");
        }

        assert_eq!(outlier(db, &["indexes", "--create", "--cap", "70"]).code, Some(0));
        for collection in ["drug", "drug_more"] {
            let stored = init(collection);
            assert!(stored.contains("settings are those of the catalog"), "{stored}");
            for line in [
                "collection = \"drug\"",
                "extras_collection = \"drug_more\"",
                "cap = 70",
                "parent = \"drug\"",
            ] {
                assert!(stored.contains(line), "{line}: {stored}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_migration_of_several_chunks_needs_an_index() {
    testkit::run(async |db| {
        fill(db, 6, 1200).await;
        db.plain_collection::<Document>("flat").drop_indexes().await.unwrap();
        refused(&bucket(db, &["migrate", "--chunk", "200"]), "--create-index");
        assert!(all(db, "trades").await.is_empty());
        let migrated = bucket(db, &["migrate", "--chunk", "200", "--create-index", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["items"]),
            (Some(0), &1200.into()),
            "{migrated:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn settings_that_are_not_given_are_those_of_the_catalog() {
    testkit::run(async |db| {
        fill(db, 6, 300).await;
        assert_eq!(bucket(db, &["migrate", "--page-size", "5"]).code, Some(0));
        let short = |arguments: &[&str]| ran(on(db).args(["bucket", "--collection", "trades"]).args(arguments));
        let verified = short(&["verify", "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        refused(&short(&["verify", "--items", "trades"]), "`items`");

        let resized = short(&["resize", "--page-size", "20", "--from", "10"]);
        refused(&resized, "`page_size`");
        let before = all(db, "trades").await;
        let resize = ["resize", "--page-size", "20", "--json", "--from", "5", "--rate", "100"];
        let planned = short(&[&resize[..], &["--dry-run"]].concat());
        assert_eq!(all(db, "trades").await, before);
        let resized = short(&resize);
        for found in [&planned, &resized] {
            let summary = found.summary();
            assert_eq!((found.code, &summary["keys"]), (Some(0), &6.into()), "{found:?}");
            assert!(
                summary["buckets"].as_u64() > Some(0) && summary["items"].is_null(),
                "{summary}"
            );
            assert!(summary["commands"].is_null(), "{summary}");
        }
        // A line for each pause of the log, and not for each bucket.
        assert!(resized.err.lines().count() <= 5, "{}", resized.err);
        assert_eq!(all(db, "trades").await.len(), 6 * 3);
        assert_eq!(short(&["verify"]).code, Some(0));

        let trades = db.plain_collection::<Document>("trades");
        trades
            .update_one(doc! { "customerId": 4, "count": 10 }, doc! { "$set": { "count": 12 } })
            .await
            .unwrap();
        let found = short(&["verify", "--json"]);
        assert_eq!(
            (found.code, &found.json()[0]["related_id"]),
            (Some(1), &4.into()),
            "{found:?}"
        );
        let repaired = short(&["repair"]);
        assert!(repaired.out.contains("wrote 1 document, and deleted 0"), "{repaired:?}");
    })
    .await;
}

#[tokio::test]
async fn a_bound_of_bytes_is_introduced_and_changed() {
    testkit::run(async |db| {
        fill(db, 6, 300).await;
        assert_eq!(bucket(db, &["migrate", "--page-size", "20"]).code, Some(0));
        let short = |arguments: &[&str]| ran(on(db).args(["bucket", "--collection", "trades"]).args(arguments));
        // The old bound is that of the catalog, and other commands have the new one.
        for bound in ["400", "200"] {
            let resized = short(&["resize", "--max-bucket-bytes", bound, "--json"]);
            assert_eq!(resized.code, Some(0), "{resized:?}");
            assert_eq!(short(&["verify"]).code, Some(0));
            let largest = all(db, "trades")
                .await
                .iter()
                .map(|bucket| bucket.get_i32("bytes").unwrap())
                .max();
            assert_eq!(largest.unwrap().to_string(), bound);
        }
    })
    .await;
}

#[test]
fn an_invalid_command_is_an_object_with_json() {
    let invalid = ran(program().args(["--json", "bucket", "--page-size", "many", "verify"]));
    assert_eq!(invalid.code, Some(2));
    let error = invalid.json().remove(0);
    assert_eq!((&error["type"], &error["exit_code"]), (&"error".into(), &2.into()));
    assert!(error["text"].as_str().unwrap().contains("--page-size"), "{error}");
}
