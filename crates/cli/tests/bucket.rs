//! Tests of the bucket commands.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::support::*;

#[tokio::test]
async fn a_flat_collection_is_planned_migrated_verified_and_migrated_back() {
    testkit::run(async |db| {
        let flat = fill(db, 3, 90).await;
        let planned = bucket(db, &["plan", "--chunk", "30"]);
        assert_eq!(planned.code, Some(0), "{planned:?}");
        assert_eq!(
            planned.out.matches("// writes: migrate a chunk").count(),
            4,
            "{}",
            planned.out
        );
        let dry = bucket(db, &["migrate", "--dry-run", "--json"]);
        assert_eq!((dry.code, &dry.summary()["items"]), (Some(0), &90.into()));
        assert!(all(db, "trades").await.is_empty() && all(db, "mongo_patterns").await.is_empty());

        let migrated = bucket(db, &["migrate", "--chunk", "30", "--json"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let summary = migrated.summary();
        assert_eq!(
            (&summary["keys"], &summary["items"], &summary["buckets"]),
            (&3.into(), &90.into(), &9.into())
        );
        assert!(migrated.err.contains("of 90 items"), "{}", migrated.err);
        let verified = bucket(db, &["verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        assert!(
            verified.out.contains("bucket verify") && verified.out.contains(": ok"),
            "{}",
            verified.out
        );

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
async fn a_view_has_a_document_for_each_item() {
    testkit::run(async |db| {
        refused(&bucket(db, &["view", "all_trades"]), "trades");
        fill(db, 3, 90).await;
        assert_eq!(bucket(db, &["migrate"]).code, Some(0));
        for _ in 0..2 {
            let created = bucket(db, &["view", "all_trades", "--json"]);
            assert_eq!(
                (created.code, &created.summary()["view"]),
                (Some(0), &"all_trades".into()),
                "{created:?}"
            );
        }
        assert_eq!(all(db, "all_trades").await.len(), 90);
        refused(&bucket(db, &["view", "flat"]), "choose another name");
        assert_eq!(all(db, "flat").await.len(), 90);
    })
    .await;
}

#[tokio::test]
async fn damage_is_found_printed_and_repaired() {
    testkit::run(async |db| {
        let items = vec![doc! { "n": 1, "date": mongodb::bson::DateTime::from_millis(SECOND * 1000) }; 3];
        let bucket_of = |key: i32, count: i32| doc! { "_id": format!("{key}_{SECOND}"), "customerId": key, "count": count, "history": &items };
        let trades = db.plain_collection::<Document>("trades");
        trades.insert_many([bucket_of(1, 3), bucket_of(2, 7)]).await.unwrap();

        let found = bucket(db, &["verify", "--json"]);
        assert_eq!(found.code, Some(1), "{found:?}");
        let lines = found.json();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["type"], &lines[0]["problem"]), (&"finding".into(), &"Count".into()));
        assert_eq!((&lines[0]["_id"], &lines[0]["related_id"]), (&format!("2_{SECOND}").into(), &2.into()));
        assert_eq!(found.summary()["findings"], 1);
        let shown = bucket(db, &["verify"]);
        let line = format!("trades \"2_{SECOND}\": the count is not 3, the number of items: repair it");
        assert!(shown.out.lines().any(|shown| shown == line), "{}", shown.out);

        let before = all(db, "trades").await;
        let dry = bucket(db, &["repair", "--dry-run"]);
        assert_eq!(dry.code, Some(1), "{dry:?}");
        assert_eq!(all(db, "trades").await, before);
        assert!(
            dry.out.contains("would write 1 document, and delete 0"),
            "{}",
            dry.out
        );
        assert_eq!(bucket(db, &["indexes", "--create"]).code, Some(0));
        let repaired = bucket(db, &["repair", "--json"]);
        assert_eq!((repaired.code, &repaired.summary()["repaired"]), (Some(0), &1.into()), "{repaired:?}");
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
        assert_eq!(all(db, "trades").await[1].get_i32("count").unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn indexes_are_shown_and_created() {
    testkit::run(async |db| {
        let shown = bucket(db, &["indexes"]);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        assert!(
            shown.out.contains("// missing") && shown.out.contains("createIndexes: \"trades\""),
            "{}",
            shown.out
        );
        let created = bucket(db, &["indexes", "--create", "--json"]);
        assert_eq!(
            (created.code, &created.summary()["created"]),
            (Some(0), &1.into()),
            "{created:?}"
        );
        assert_eq!(bucket(db, &["indexes"]).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn options_override_the_profile() {
    testkit::run(async |db| {
        fill(db, 3, 60).await;
        let folder = tempfile::tempdir().unwrap();
        let mut init = on(db);
        let init = ran(init.current_dir(folder.path()).args(["init", "flat"]));
        assert_eq!(init.code, Some(0), "{init:?}");
        let again = ran(on(db).current_dir(folder.path()).args(["init", "flat"]));
        assert_eq!(again.code, Some(2), "{again:?}");
        assert!(again.err.contains("--force"), "{}", again.err);

        let short = |arguments: &[&str]| {
            let mut short = program();
            short
                .env("MONGODB_URI", db.server().uri())
                .current_dir(folder.path())
                .arg("bucket")
                .args(arguments);
            ran(&mut short)
        };
        let migrated = short(&["migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["buckets"]),
            (Some(0), &6.into()),
            "{migrated:?}"
        );
        assert_eq!(all(db, "flat_buckets").await.len(), 6);
        let migrated = short(&["migrate", "--json", "--page-size", "20", "--collection", "other"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["buckets"]),
            (Some(0), &3.into()),
            "{migrated:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn figures_are_migrated_verified_and_computed_again() {
    testkit::run(async |db| {
        fill(db, 3, 90).await;
        let figures = ["--sum", "n", "--max", "n", "--first-and-last"];
        let refused = bucket(db, &["plan", "--sum", "a.b"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("--sum"), "{}", refused.err);
        let migrated = bucket(db, &[&["migrate"][..], &figures].concat());
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let first = all(db, "trades").await.remove(0);
        let figures_of = |bucket: &Document| {
            bucket
                .get_document("figures")
                .unwrap()
                .get_document("n")
                .unwrap()
                .clone()
        };
        assert_eq!(figures_of(&first), doc! { "count": 10, "max": 27_i64, "sum": 135_i64 });

        // The catalog has the settings.
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
        let trades = db.plain_collection::<Document>("trades");
        let wrong = doc! { "$set": { "figures.n.sum": 1 } };
        trades
            .update_one(doc! { "_id": first.get_str("_id").unwrap() }, wrong)
            .await
            .unwrap();
        let found = bucket(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.json()[0]["problem"]),
            (Some(1), &"Figures".into()),
            "{found:?}"
        );
        let written = bucket(db, &["figures", "--json"]);
        assert_eq!(
            (written.code, &written.summary()["buckets_written"]),
            (Some(0), &1.into()),
            "{written:?}"
        );
        assert_eq!(bucket(db, &["verify"]).code, Some(0));

        // Other figures.
        let written = bucket(db, &["figures", "--min", "n", "--json"]);
        assert_eq!(
            (written.code, &written.summary()["buckets_written"]),
            (Some(0), &9.into()),
            "{written:?}"
        );
        let first = all(db, "trades").await.remove(0);
        assert_eq!(
            figures_of(&first),
            doc! { "count": 10, "max": 27_i64, "min": 0_i64, "sum": 135_i64 }
        );
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn windows_are_migrated_verified_and_refused() {
    testkit::run(async |db| {
        fill(db, 3, 90).await;
        let refused = bucket(db, &["plan", "--window-seconds", "7"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("windows"), "{}", refused.err);
        let windows = ["migrate", "--window-seconds", "60", "--window-field", "minute"];
        let migrated = bucket(db, &windows);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        for trades in all(db, "trades").await {
            let start = trades.get_datetime("minute").unwrap().timestamp_millis();
            assert_eq!(start % 60_000, 0, "{trades}");
        }

        // The catalog has the windows.
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
        let other = bucket(db, &["verify", "--window-seconds", "3600"]);
        assert!(other.err.contains("`window`"), "{other:?}");
        let found = ran(on(db).args(["init", "trades", "--out", "-"]));
        assert!(
            found.out.contains("window_seconds = 60") && found.out.contains("window_field = \"minute\""),
            "{found:?}"
        );
        // So has the index.
        db.plain_collection::<Document>("mongo_patterns")
            .delete_many(doc! {})
            .await
            .unwrap();
        let found = ran(on(db).args(["init", "trades", "--out", "-"]));
        assert!(
            found.out.contains("window_seconds = 60") && found.out.contains("window_field = \"minute\""),
            "{found:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn times_in_seconds_are_migrated_as_dates() {
    testkit::run(async |db| {
        let flat = db.plain_collection::<Document>("flat");
        let documents = (0..25).map(|n| doc! { "customerId": n % 2, "date": 1_698_335_223 + n });
        flat.insert_many(documents).await.unwrap();
        let refused = bucket(db, &["migrate", "--no-index"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains("time format"), "{}", refused.err);
        let migrated = bucket(db, &["migrate", "--no-index", "--time-format", "epoch-seconds"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
    })
    .await;
}

/// The order of the bytes of a legacy UUID depends on the driver, so the command line does not guess it.
#[tokio::test]
async fn a_flat_collection_with_uuids_of_the_legacy_subtype_is_refused_with_what_to_do() {
    testkit::run(async |db| {
        let subtype = mongodb::bson::spec::BinarySubtype::UuidOld;
        let key = mongodb::bson::Binary {
            subtype,
            bytes: vec![0; 16],
        };
        let flat = db.plain_collection::<Document>("flat");
        let date = mongodb::bson::DateTime::from_millis(1_698_335_223_000);
        flat.insert_one(doc! { "customerId": key, "date": date }).await.unwrap();
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
