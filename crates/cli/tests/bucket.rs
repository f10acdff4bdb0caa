//! Tests of the bucket commands.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::support::*;

#[tokio::test]
async fn a_flat_collection_is_planned_migrated_verified_and_migrated_back() {
    testkit::run(async |db| {
        let flat = fill(db, 3, 90).await;
        let planned = bucket(db, &["plan", "--chunk", "30"]).ok();
        let chunks = planned.out.matches("// writes: migrate a chunk");
        assert_eq!(chunks.count(), 4, "{}", planned.out);
        bucket(db, &["migrate", "--dry-run", "--json"]).ends(0, json!({ "items": 90 }));
        assert!(all(db, "trades").await.is_empty() && all(db, "mongo_patterns").await.is_empty());

        let migrated = bucket(db, &["migrate", "--chunk", "30", "--json"]);
        migrated.ends(0, json!({ "keys": 3, "items": 90, "documents": 9 }));
        migrated.says(0, "of 90 items");
        bucket(db, &["verify"]).ok().shows(["bucket verify", ": ok"]);

        db.plain_collection::<Document>("flat").drop().await.unwrap();
        let back = bucket(db, &["migrate", "--back", "--quiet"]);
        assert_eq!((back.code, back.err.as_str()), (Some(0), ""), "{back:?}");
        let again = all(db, "flat").await;
        assert_eq!(again.len(), flat.len());
        assert!(again.iter().all(|document| document.contains_key("customerId")));
    })
    .await;
}

#[tokio::test]
async fn damage_and_missing_indexes_are_found_and_repaired() {
    testkit::run(async |db| {
        let items = vec![doc! { "n": 1, "date": mongodb::bson::DateTime::from_millis(SECOND * 1000) }; 3];
        let bucket_of = |key: i32, count: i32| doc! { "_id": format!("{key}_{SECOND}"), "customerId": key, "count": count, "history": &items };
        insert(db, "trades", [bucket_of(1, 3), bucket_of(2, 7)]).await;

        let found = bucket(db, &["verify", "--json"]);
        assert_eq!(found.lines("finding").len(), 2);
        assert_eq!(found.lines("finding")[1]["problem"], "IndexMissing");
        let id = format!("2_{SECOND}");
        found.begins(1, json!({ "type": "finding", "problem": "Count", "_id": id, "related_id": 2 }));
        found.ends(1, json!({ "findings": 2 }));
        let shown = bucket(db, &["verify"]);
        let line = format!("trades \"2_{SECOND}\": the count is not 3, the number of items: run `bucket repair`");
        assert!(shown.out.lines().any(|shown| shown == line), "{}", shown.out);

        let before = all(db, "trades").await;
        let dry = bucket(db, &["repair", "--dry-run"]);
        assert_eq!(dry.code, Some(1), "{dry:?}");
        assert_eq!(all(db, "trades").await, before);
        dry.shows(["would write 1 document, and delete 0"]);
        let missing = bucket(db, &["indexes"]);
        assert_eq!(missing.code, Some(1), "{missing:?}");
        missing.shows(["// missing", "createIndexes: \"trades\""]);
        bucket(db, &["indexes", "--create", "--json"]).ends(0, json!({ "created": 1 }));
        bucket(db, &["indexes"]).ok();
        bucket(db, &["repair", "--json"]).ends(0, json!({ "repaired": 1 }));
        bucket(db, &["verify"]).ok();
        assert_eq!(all(db, "trades").await[1].get_i32("count").unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn options_override_the_profile() {
    testkit::run(async |db| {
        fill(db, 3, 60).await;
        let folder = tempfile::tempdir().unwrap();
        let init = || ran(on(db).current_dir(folder.path()).args(["init", "flat"]));
        init().ok();
        init().says(2, "--force");

        let short = |arguments: &[&str]| {
            let mut short = program();
            short.env("MONGODB_URI", db.server().uri()).current_dir(folder.path());
            ran(short.arg("bucket").args(arguments))
        };
        short(&["migrate", "--json"]).ends(0, json!({ "documents": 6 }));
        assert_eq!(all(db, "flat_buckets").await.len(), 6);
        db.plain_collection::<Document>("flat_buckets").drop().await.unwrap();
        short(&["migrate", "--json", "--page-size", "20"]).ends(0, json!({ "documents": 3 }));
        // Another collection has other settings.
        let other = short(&["migrate", "--page-size", "20", "--collection", "other"]);
        other.says(2, "--key is missing");
    })
    .await;
}

#[tokio::test]
async fn figures_are_migrated_verified_and_computed_again() {
    testkit::run(async |db| {
        fill(db, 3, 90).await;
        let figures = ["--sum", "n", "--max", "n", "--first-and-last"];
        bucket(db, &["plan", "--sum", "a.b"]).says(2, "--sum");
        bucket(db, &[&["migrate"][..], &figures].concat()).ok();
        let first = all(db, "trades").await.remove(0);
        let figures_of = |bucket: &Document| {
            let figures = bucket.get_document("figures").unwrap();
            figures.get_document("n").unwrap().clone()
        };
        assert_eq!(figures_of(&first), doc! { "count": 10, "max": 27_i64, "sum": 135_i64 });

        // The catalog has the settings.
        bucket(db, &["verify"]).ok();
        let trades = db.plain_collection::<Document>("trades");
        let wrong = doc! { "$set": { "figures.n.sum": 1 } };
        let of_first = doc! { "_id": first.get_str("_id").unwrap() };
        trades.update_one(of_first, wrong).await.unwrap();
        bucket(db, &["verify", "--json"]).begins(1, json!({ "problem": "Figures" }));
        bucket(db, &["refresh-figures", "--json"]).ends(0, json!({ "documents": 1 }));
        bucket(db, &["verify"]).ok();

        // Other figures.
        bucket(db, &["refresh-figures", "--min", "n", "--json"]).ends(0, json!({ "documents": 9 }));
        let expected = doc! { "count": 10, "max": 27_i64, "min": 0_i64, "sum": 135_i64 };
        assert_eq!(figures_of(&all(db, "trades").await[0]), expected);
        bucket(db, &["verify"]).ok();
    })
    .await;
}

#[tokio::test]
async fn windows_are_migrated_verified_and_refused() {
    testkit::run(async |db| {
        fill(db, 3, 90).await;
        bucket(db, &["plan", "--window-seconds", "7"]).says(2, "windows");
        let windows = ["migrate", "--window-seconds", "60", "--window-field", "minute"];
        bucket(db, &windows).ok();
        for trades in all(db, "trades").await {
            let start = trades.get_datetime("minute").unwrap().timestamp_millis();
            assert_eq!(start % 60_000, 0, "{trades}");
        }

        // The catalog has the windows.
        bucket(db, &["verify"]).ok();
        let other = bucket(db, &["verify", "--window-seconds", "3600"]);
        assert!(other.err.contains("`window`"), "{other:?}");
        let windows = ["window_seconds = 60", "window_field = \"minute\""];
        profile(db, "trades").shows(windows);
        // So has the index.
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        catalog.delete_many(doc! {}).await.unwrap();
        profile(db, "trades").shows(windows);
    })
    .await;
}

#[tokio::test]
async fn times_in_seconds_are_migrated_as_dates() {
    testkit::run(async |db| {
        let documents = (0..25).map(|n| doc! { "customerId": n % 2, "date": 1_698_335_223 + n });
        insert(db, "flat", documents).await;
        bucket(db, &["migrate", "--no-index"]).says(1, "time format");
        bucket(db, &["migrate", "--no-index", "--time-format", "epoch-seconds"]).ok();
        bucket(db, &["verify"]).ok();
    })
    .await;
}

/// The order of the bytes of a legacy UUID depends on the driver, so the command line does not guess it.
#[tokio::test]
async fn a_flat_collection_with_uuids_of_the_legacy_subtype_is_refused_with_what_to_do() {
    testkit::run(async |db| {
        let key = mongodb::bson::Binary {
            subtype: mongodb::bson::spec::BinarySubtype::UuidOld,
            bytes: vec![0; 16],
        };
        let date = mongodb::bson::DateTime::from_millis(1_698_335_223_000);
        insert(db, "flat", [doc! { "customerId": key, "date": date }]).await;
        let settings = BUCKETS.iter().take_while(|option| **option != "--key-type");
        let refused = ran(on(db).arg("bucket").args(settings).arg("migrate"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for part in ["`customerId`", "legacy subtype 3", "subtype 4", "javaLegacy"] {
            assert!(refused.err.contains(part), "{part}: {}", refused.err);
        }
        assert!(!refused.err.contains("check --key"), "{}", refused.err);
    })
    .await;
}

#[tokio::test]
async fn a_finished_migration_says_what_a_new_item_needs_and_a_new_one_what_it_does_not_keep() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        for verb in ["plan", "migrate"] {
            bucket(db, &[verb, "--json"]).says(0, "pass --keep-ids");
        }
        let before = all(db, "trades").await;
        insert(
            db,
            "flat",
            [doc! { "customerId": 1, "date": mongodb::bson::DateTime::from_millis(SECOND * 1000) }],
        )
        .await;
        bucket(db, &["migrate"]).says(1, "the migration has finished, and 1 of 3 keys");
        assert_eq!(all(db, "trades").await, before);
        let kept = bucket(db, &["migrate", "--collection", "kept", "--keep-ids", "--json"]).ok();
        assert!(!kept.err.contains("--keep-ids"), "{kept:?}");
    })
    .await;
}
