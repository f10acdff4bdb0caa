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
    let drugs = (0..30).map(|n| drug(format!("drug{n}"), n % 6 == 0));
    insert(db, "drug", drugs).await;
    let overflow = |n: i32| doc! { "drug": format!("drug{}", n * 6), "seq": 0, "n": 4, "further": [0, 1, 2, 3] };
    insert(db, "drug_more", (0..5).map(overflow)).await;
}

const DRUGS: [&str; 18] = words(
    "outlier --collection drug --extras-collection drug_more --array reviews --parent drug \
        --extras further --flag more --count n --threshold 6 --json",
);

fn outlier(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(DRUGS).args(arguments))
}

/// Whether a setting is missing then, or the collection.
#[tokio::test]
async fn a_wrong_name_of_a_collection_is_answered_by_those_of_the_catalog() {
    testkit::run(async |db| {
        for name in ["trades", "visits"] {
            bucket(db, &["--collection", name, "indexes", "--create"]).ok();
        }
        drugs(db).await;
        outlier(db, &["indexes", "--create"]).ok();
        let names = "no bucket of that name in the catalog: trades, visits; ";
        let verify = |collection: &str| ran(on(db).args(["bucket", "--collection", collection, "verify"]));
        refused(&verify("trade"), &format!("{names}there is no collection"));
        insert(db, "other", [doc! {}]).await;
        refused(&verify("other"), &format!("{names}--key is missing"));
        let drug = "drug has the outlier pattern: `mongo-patterns outlier --collection drug verify`; --key is missing";
        refused(&verify("drug"), drug);
        let none = ran(on(db).args(["bucket", "verify"]));
        refused(&none, "the catalog has trades, visits; --collection is missing");
        let trade = bucket(db, &["--collection", "trade", "verify"]);
        refused(&trade, &format!("{names}there is no collection"));
        // The catalog has the type of the keys too, which no document shows.
        verify("trades").ok();
        let array = ran(on(db).args(["outlier", "--collection", "other", "verify"]));
        refused(
            &array,
            "no outlier of that name in the catalog: drug.reviews; --array is missing",
        );
        for wrong in ["--flat nosuch", "--db nosuch --flat flat"] {
            let arguments = "bucket --collection new --key a --items b --time c migrate";
            let ran = ran(on(db).args(arguments.split(' ')).args(wrong.split(' ')));
            refused(&ran, "there is no collection");
        }
        let key = "bucket --collection new --flat other --key a --items b --time c migrate";
        refused(
            &ran(on(db).args(key.split(' '))),
            "no document of new or other has a value in `a`",
        );
    })
    .await;
}

#[tokio::test]
async fn the_type_of_the_keys_is_that_of_the_catalog() {
    testkit::run(async |db| {
        fill(db, 4, 40).await;
        bucket(db, &["migrate"]).ok();
        let settings = BUCKETS.iter().take_while(|option| **option != "--key-type");
        let settings: Vec<&str> = settings.copied().collect();
        let run = |options: &[&str]| ran(on(db).arg("bucket").args(&settings).args(options));
        refused(&run(&["--key-type", "string", "verify"]), "`key_type`");
        profile(db, "trades").shows(["key_type = \"int\""]);
    })
    .await;
}

#[tokio::test]
async fn settings_that_contradict_the_catalog_are_refused() {
    testkit::run(async |db| {
        fill(db, 6, 60).await;
        bucket(db, &["migrate", "--page-size", "5"]).ok();
        drugs(db).await;
        outlier(db, &["indexes", "--create"]).ok();
        let before = contents(db).await;
        for verb in [
            ["verify", "--json"],
            ["repair", "--json"],
            ["repair", "--dry-run"],
            ["indexes", "--create"],
        ] {
            bucket(db, &[&["--key", "customerID", "--page-size", "5"], &verb[..]].concat()).says(2, "`key`");
            bucket(db, &[&["--page-size", "100"], &verb[..]].concat()).says(2, "`page_size`");
        }
        refused(&bucket(db, &["migrate", "--page-size", "50"]), "`page_size`");
        for (option, value, setting) in [
            ("--parent", "parent_id", "`parent`"),
            ("--extras-collection", "nosuch", "`extras_collection`"),
            ("--threshold", "3", "`threshold`"),
            ("--count", "count", "`count`"),
        ] {
            refused(&outlier(db, &["repair", option, value]), setting);
            refused(
                &outlier(db, &["repair", "--delete-orphans", "--yes", option, value]),
                setting,
            );
        }
        assert_eq!(contents(db).await, before);

        let renamed = ["--page-size", "5", "--time", "day"];
        let replace = ["indexes", "--create", "--replace-settings"];
        bucket(db, &[&replace[..], &renamed].concat()).ok();
        refused(&bucket(db, &["verify", "--page-size", "5"]), "`time`");
    })
    .await;
}

#[tokio::test]
async fn what_rewrites_documents_needs_settings_in_the_catalog() {
    testkit::run(async |db| {
        fill(db, 6, 60).await;
        bucket(db, &["migrate", "--page-size", "5"]).ok();
        drugs(db).await;
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let before = contents(db).await;
        let no_entry = "has no entry in the catalog";
        for settings in [["--page-size", "5"], ["--page-size", "100"]] {
            let refusal = bucket(db, &[&["repair"], &settings[..]].concat());
            refused(&refusal, no_entry);
            assert!(refusal.err.contains("`bucket indexes --create`"), "{refusal:?}");
        }
        refused(&outlier(db, &["repair", "--threshold", "1"]), no_entry);
        refused(&outlier(db, &["repair", "--delete-orphans", "--yes"]), no_entry);
        refused(&outlier(db, &["migrate", "--flag", "has_extras"]), "`has_extras`");
        let create = |settings: &[&'static str]| [&["indexes", "--create"], settings].concat();
        bucket(db, &create(&["--page-size", "5", "--key", "customerID"])).says(2, "`customerID`");
        bucket(db, &create(&["--page-size", "100"])).says(2, "customerId_1_count_lt_5");
        outlier(db, &create(&["--extras-collection", "nosuch"])).says(2, "nosuch");
        outlier(db, &create(&["--parent", "parent_id"])).says(2, "`parent_id`");
        outlier(db, &["repair", "--threshold", "1", "--dry-run"]).ends(1, json!({ "to_repair": 30 }));
        assert_eq!(contents(db).await, before);
        outlier(db, &create(&["--threshold", "1"])).ok();
        outlier(db, &["repair", "--threshold", "1"]).ends(0, json!({ "repaired": 30 }));
    })
    .await;
}

#[tokio::test]
async fn orphans_are_deleted_with_the_catalog() {
    testkit::run(async |db| {
        drugs(db).await;
        let orphans = (0..7).map(|n| doc! { "drug": format!("gone{n}"), "seq": 0, "n": 1, "further": [1] });
        insert(db, "drug_more", orphans).await;
        let delete = ["repair", "--delete-orphans", "--yes"];
        outlier(db, &delete).says(2, "has no entry in the catalog");
        assert_eq!(all(db, "drug_more").await.len(), 12);
        outlier(db, &["indexes", "--create"]).ok();
        assert_eq!(outlier(db, &["repair"]).code, Some(1));
        assert_eq!(all(db, "drug_more").await.len(), 12);
        outlier(db, &delete[..2]).says(2, "--yes");
        assert_eq!(outlier(db, &["repair", "--delete-orphans", "--dry-run"]).code, Some(1));
        assert_eq!(all(db, "drug_more").await.len(), 12);
        outlier(db, &delete).ok();
        assert_eq!(all(db, "drug_more").await.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn init_reads_the_catalog_indexes_and_overflow_documents() {
    testkit::run(async |db| {
        drugs(db).await;
        profile(db, "drug").shows([
            "extras_collection = \"drug_more\"",
            "parent = \"drug\"",
            "extras = \"further\"",
            "count = \"n\"",
            "flag = \"more\"",
            "threshold = 6",
        ]);
        let buckets = (0..3).map(|n| {
            let items: Vec<Document> = (0..4).map(|n| doc! { "n": n }).collect();
            doc! { "_id": format!("{n}_{SECOND}"), "customerId": n, "year": 2013, "size": 4, "history": items }
        });
        insert(db, "trades", buckets).await;
        let below = mongodb::options::IndexOptions::builder().name("customerId_1_size_lt_50".to_owned());
        let below = below
            .unique(true)
            .partial_filter_expression(doc! { "size": { "$lt": 50 } });
        let index = IndexModel::builder()
            .keys(doc! { "customerId": 1 })
            .options(below.build());
        let trades = db.plain_collection::<Document>("trades");
        trades.create_index(index.build()).await.unwrap();
        profile(db, "trades").shows(["key = \"customerId\"", "count = \"size\"", "page_size = 50"]);

        outlier(db, &["indexes", "--create", "--cap", "70"]).ok();
        for collection in ["drug", "drug_more"] {
            profile(db, collection).shows([
                "settings are those of the catalog",
                "collection = \"drug\"",
                "extras_collection = \"drug_more\"",
                "cap = 70",
                "parent = \"drug\"",
            ]);
        }
    })
    .await;
}

/// Runs a command whose settings are those of the catalog.
fn of_catalog(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(["bucket", "--collection", "trades"]).args(arguments))
}

#[tokio::test]
async fn settings_that_are_not_given_are_those_of_the_catalog() {
    testkit::run(async |db| {
        fill(db, 6, 300).await;
        bucket(db, &["migrate", "--page-size", "5"]).ok();
        let short = |arguments: &[&str]| of_catalog(db, arguments);
        short(&["verify", "--json"]).ok();
        short(&["verify", "--items", "trades"]).says(2, "`items`");
        short(&["resize", "--page-size", "20", "--from", "10"]).says(2, "`page_size`");
        let before = all(db, "trades").await;
        let resize = ["resize", "--page-size", "20", "--json", "--from", "5", "--rate", "1000"];
        let planned = short(&[&resize[..], &["--dry-run"]].concat());
        assert_eq!(all(db, "trades").await, before);
        let resized = short(&resize);
        for found in [&planned, &resized] {
            found.ends(0, json!({ "keys": 6, "items": null, "commands": null }));
            assert!(found.summary()["documents"].as_u64() > Some(0), "{found:?}");
        }
        // A line for each pause of the log, and not for each bucket.
        assert!(resized.err.lines().count() <= 5, "{}", resized.err);
        assert_eq!(all(db, "trades").await.len(), 6 * 3);
        short(&["verify"]).ok();

        let miscounted = doc! { "$set": { "count": 12 } };
        update(db, "trades", doc! { "customerId": 4, "count": 10 }, miscounted).await;
        short(&["verify", "--json"]).begins(1, json!({ "related_id": 4 }));
        short(&["repair"]).shows(["wrote 1 document, and deleted 0"]);
    })
    .await;
}

#[test]
fn an_invalid_command_is_an_object_with_json() {
    let invalid = ran(program().args(["--json", "bucket", "--page-size", "many", "verify"]));
    invalid.begins(2, json!({ "type": "error", "exit_code": 2 }));
    let error = invalid.json().remove(0);
    assert!(error["text"].as_str().unwrap().contains("--page-size"), "{error}");
}
