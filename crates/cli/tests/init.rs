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
            let collection = db.plain_collection::<Document>("readings");
            collection.insert_many(buckets).await.unwrap();
            let folder = tempfile::tempdir().unwrap();
            let in_folder = |arguments: &[&str]| ran(on(db).current_dir(folder.path()).args(arguments));
            let init = in_folder(&["init", "readings"]);
            assert_eq!(init.code, Some(0), "{init:?}");
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
            let created = in_folder(&["bucket", "indexes", "--create"]);
            assert_eq!(created.code, Some(0), "{created:?}");
            let repaired = in_folder(&["bucket", "repair"]);
            assert_eq!(repaired.code, Some(0), "{repaired:?}");
            assert_eq!(in_folder(&["bucket", "verify"]).code, Some(0));
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
        let collection = db.plain_collection::<Document>("readings");
        collection.insert_many(buckets).await.unwrap();
        let book = |n: i32| doc! { "_id": n, "buyers": (0..n).collect::<Vec<_>>() };
        let books = db.plain_collection::<Document>("books");
        books.insert_many((1..20).map(book)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let init = |arguments: &[&str]| ran(on(db).current_dir(folder.path()).arg("init").args(arguments));
        let read = || std::fs::read_to_string(folder.path().join("mongo-patterns.toml")).unwrap();
        assert_eq!(init(&["readings"]).code, Some(0));
        let first = format!("{}# mine", read());
        std::fs::write(folder.path().join("mongo-patterns.toml"), &first).unwrap();

        let added = init(&["books", "--json"]);
        assert_eq!(added.code, Some(0), "{added:?}");
        assert_eq!(added.summary()["patterns"], "outlier", "{added:?}");
        let second = read();
        assert!(second.starts_with(&first), "{second}");
        assert!(second.contains("\n[outlier]\ncollection = \"books\""), "{second}");
        let verified = ran(on(db).current_dir(folder.path()).args(["bucket", "verify"]));
        assert_eq!(verified.code, Some(1), "{verified:?}");

        refused(&init(&["books"]), "has [outlier] already");
        refused(&init(&["readings"]), "has [bucket] already");
        let other = std::fs::read_to_string(folder.path().join("mongo-patterns.toml")).unwrap();
        assert_eq!(other, second);
        refused(
            &ran(on(db)
                .current_dir(folder.path())
                .args(["--db", "other", "init", "books"])),
            "is empty",
        );
        assert_eq!(init(&["books", "--force"]).code, Some(0));
        assert!(!read().contains("[bucket]"), "{}", read());
    })
    .await;
}

#[tokio::test]
async fn a_field_that_does_not_group_the_documents_is_not_the_key() {
    testkit::run(async |db| {
        let documents = (0..100_i32).map(|n| {
            doc! { "_id": n, "orderId": n, "shopId": i32::from(n == 0), "year": 2024, "date": DateTime::from_millis(n.into()) }
        });
        let collection = db.plain_collection::<Document>("sales");
        collection.insert_many(documents).await.unwrap();
        let profile = ran(on(db).args(["init", "sales", "--out", "-"])).out;
        assert!(profile.contains("no field is a candidate for the key"), "{profile}");
        assert!(!profile.contains("\nkey ="), "{profile}");
    })
    .await;
}
