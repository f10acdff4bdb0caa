//! Profiles that `init` writes for collections of other programs.

use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::support::*;

/// Returns the measurements of a sensor: in each bucket as many as its number.
fn bucket_of(id: Bson, sensor: i32, first: i64) -> Document {
    let item = |n: i64| doc! { "at": DateTime::from_millis((SECOND + n) * 1000), "temperature": n };
    let items: Vec<Document> = (first..first + 5).map(item).collect();
    doc! { "_id": id, "sensor_id": sensor, "transaction_count": 5, "measurements": items }
}

/// The profile is one with which the commands work on these buckets.
#[tokio::test]
async fn buckets_of_other_programs_are_verified_and_repaired_with_their_profile() {
    type Id = fn(i32, i64) -> Bson;
    let ids: [Id; 3] = [
        |_, _| ObjectId::new().into(),
        |sensor, first| doc! { "sensor": sensor, "first": first }.into(),
        |sensor, first| format!("{sensor}_{}", (SECOND + first) * 1000).into(),
    ];
    for id in ids {
        testkit::run(async |db| {
            let buckets = (0..20_i32).map(|n| {
                let (sensor, first) = (n % 4, i64::from(n) * 5);
                bucket_of(id(sensor, first), sensor, first)
            });
            insert(db, "readings", buckets).await;
            let folder = tempfile::tempdir().unwrap();
            let in_folder = |arguments: &[&str]| ran(on(db).current_dir(folder.path()).args(arguments));
            in_folder(&["init", "readings"]).ok();
            let profile = std::fs::read_to_string(folder.path().join("mongo-patterns.toml")).unwrap();
            for line in [
                "[bucket]",
                "key = \"sensor_id\"",
                "items = \"measurements\"",
                "count = \"transaction_count\"",
                "time = \"at\"",
                "page_size = 5",
                "`bucket repair` writes such `_id`s",
            ] {
                assert!(profile.contains(line), "{line}: {profile}");
            }
            assert!(!profile.contains("[outlier]"), "{profile}");

            let verified = in_folder(&["bucket", "verify", "--json"]);
            assert_eq!(verified.code, Some(1), "{verified:?}");
            in_folder(&["bucket", "indexes", "--create"]).ok();
            in_folder(&["bucket", "repair"]).ok();
            in_folder(&["bucket", "verify"]).ok();
            let repaired = all(db, "readings").await;
            let items = |bucket: &Document| bucket.get_array("measurements").unwrap().len();
            assert_eq!(repaired.iter().map(items).sum::<usize>(), 100);
        })
        .await;
    }
}

/// A second collection is added to the file, in which nothing else changes.
#[tokio::test]
async fn a_second_pattern_is_added_to_the_profile() {
    testkit::run(async |db| {
        let buckets = (0..4_i32).map(|n| bucket_of(ObjectId::new().into(), n % 2, i64::from(n) * 5));
        insert(db, "readings", buckets).await;
        let book = |n: i32| doc! { "_id": n, "buyers": (0..n).collect::<Vec<_>>() };
        insert(db, "books", (1..20).map(book)).await;
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |arguments: &[&str]| ran(on(db).current_dir(folder.path()).args(arguments));
        let init = |arguments: &[&str]| in_folder(&[&["init"], arguments].concat());
        let read = || std::fs::read_to_string(folder.path().join("mongo-patterns.toml")).unwrap();
        init(&["readings"]).ok();
        let first = format!("{}# mine", read());
        std::fs::write(folder.path().join("mongo-patterns.toml"), &first).unwrap();

        init(&["books", "--json"]).ends(0, json!({ "patterns": "outlier" }));
        let second = read();
        assert!(second.starts_with(&first), "{second}");
        assert!(second.contains("\n[outlier]\ncollection = \"books\""), "{second}");
        let verified = in_folder(&["bucket", "verify"]);
        assert_eq!(verified.code, Some(1), "{verified:?}");

        refused(&init(&["books"]), "has [outlier] already");
        refused(&init(&["readings"]), "has [bucket] already");
        assert_eq!(read(), second);
        refused(&in_folder(&["--db", "other", "init", "books"]), "is empty");
        init(&["books", "--force"]).ok();
        assert!(!read().contains("[bucket]"), "{}", read());
    })
    .await;
}
