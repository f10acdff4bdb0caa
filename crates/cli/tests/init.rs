//! Profiles that `init` writes for collections of other programs.

use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
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
                "[[bucket]]",
                "key = \"sensor_id\"",
                "items = \"measurements\"",
                "count = \"transaction_count\"",
                "time = \"at\"",
                "page_size = 5",
                "`bucket repair` writes such `_id`s",
            ] {
                assert!(profile.contains(line), "{line}: {profile}");
            }
            assert!(!profile.contains("[[outlier]]"), "{profile}");

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

        init(&["books", "--json"]).ends(0, json!({ "settings": "outlier books.buyers" }));
        let second = read();
        assert!(second.starts_with(&first), "{second}");
        assert!(second.contains("\n[[outlier]]\ncollection = \"books\""), "{second}");
        let verified = in_folder(&["bucket", "verify"]);
        assert_eq!(verified.code, Some(1), "{verified:?}");

        refused(&init(&["books"]), "has settings of outlier books.buyers already");
        refused(&init(&["readings"]), "has settings of bucket readings already");
        assert_eq!(read(), second);
        refused(&in_folder(&["--db", "other", "init", "books"]), "is empty");
        refused(&init(&[]), "the catalog");
        init(&["books", "--force"]).ok();
        assert!(!read().contains("[[bucket]]"), "{}", read());
    })
    .await;
}

/// An array has one pattern, also when its overflow documents are found.
#[tokio::test]
async fn one_table_is_written_for_one_array() {
    testkit::run(async |db| {
        let reviews = |n: i32| (0..n).map(|id| doc! { "review_id": id }).collect::<Vec<_>>();
        let product = |id: i32| doc! { "_id": id, "reviews": reviews(30), "has_extras": true };
        insert(db, "product", (0..9).map(product)).await;
        let one = || {
            let shown = profile(db, "product");
            let tables: Vec<&str> = shown.out.lines().filter(|line| line.starts_with("[[")).collect();
            assert_eq!(tables, ["[[outlier]]"], "{}", shown.out);
            shown
        };
        one().shows(["# - `embedded --collection product --children reviews`"]);
        let further = |id: i32| doc! { "_id": id, "product": id, "seq": 0, "reviews_extra": reviews(2) };
        insert(db, "product_more", (0..9).map(further)).await;
        one().shows(["extras_collection = \"product_more\""]);
    })
    .await;
}

/// As the policies of an insurance beside sales: small integers are `_id`s of everything.
#[tokio::test]
async fn a_second_collection_is_a_comment_unless_it_has_the_form_of_the_pattern() {
    testkit::run(async |db| {
        let book = |n: i32| doc! { "_id": n, "buyers": vec!["Ann"; 20], "in_stock": true };
        insert(db, "sales", (0..100).map(book)).await;
        let policy = |n: i32| doc! { "_id": n, "policyId": n, "insured": ["house"] };
        insert(db, "policies", (0..100).map(policy)).await;
        let cars = |n: i32| doc! { "_id": n, "carId": n, "parts": [{ "part": 1 }] };
        insert(db, "cars", (0..100).map(cars)).await;
        let shown = profile(db, "sales");
        shown.shows([
            "# - `policyId` of policies has `_id`s of sales",
            "these could be overflow documents",
        ]);
        assert!(
            !shown.out.contains("extras") && !shown.out.contains("cars"),
            "{}",
            shown.out
        );
        let settings: Vec<&str> = shown
            .out
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .collect();
        assert_eq!(
            settings[1..],
            ["[[outlier]]", "collection = \"sales\"", "array = \"buyers\""]
        );
    })
    .await;
}

/// Drops the catalog, as one who restores a part of a backup.
async fn lose(db: &TestDatabase) {
    db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
}

#[tokio::test]
async fn a_lost_catalog_is_read_from_indexes_and_documents() {
    testkit::run(async |db| {
        fill(db, 3, 60).await;
        bucket(db, &["migrate", "--item-id", "n"]).ok();
        let policy =
            |n: i32| doc! { "policyId": n, "insured": ["house"], "revision": 1, "at": DateTime::from_millis(1) };
        insert(db, "policies", (0..20).map(policy)).await;
        let history: [&str; 11] = words(
            "history --collection policies --revisions-collection revisions --id policyId --time at migrate --quiet",
        );
        ran(on(db).args(history)).ok();
        let [sales, extras] = ["sales", "extra_sales"].map(|name| db.plain_collection::<Document>(name));
        let lists = OutlierRepository::<Document, i32>::builder(sales, extras)
            .array_field("buyers")
            .parent_field("book")
            .threshold(3)
            .max_overflow_elements(4)
            .unique_elements();
        let lists = lists.build().unwrap();
        lists.ensure_indexes().await.unwrap();
        for id in 0..3 {
            lists
                .insert(&doc! { "_id": id, "buyers": (0..13).collect::<Vec<i32>>() })
                .await
                .unwrap();
        }
        for id in 3..9 {
            lists.insert(&doc! { "_id": id, "buyers": [1] }).await.unwrap();
        }
        lose(db).await;

        profile(db, "trades").shows(["key = \"customerId\"", "item_id = \"n\"", "page_size = 10"]);
        profile(db, "sales").shows([
            "extras_collection = \"extra_sales\"",
            "parent = \"book\"",
            "threshold = 3",
            "cap = 4",
            "unique = true",
        ]);
        let current = profile(db, "policies");
        current.shows([
            "[[history]]",
            "revisions_collection = \"revisions\"",
            "id = \"policyId\"",
            "time = \"at\"",
        ]);
        assert!(!current.out.contains("[[outlier]]"), "{}", current.out);
        let revisions = profile(db, "revisions");
        revisions.shows(["name the collection of its current documents"]);
        assert!(!revisions.out.contains("[["), "{}", revisions.out);
    })
    .await;
}

#[tokio::test]
async fn one_profile_has_all_of_a_database() {
    testkit::run(async |db| {
        fill(db, 3, 60).await;
        for collection in ["trades", "visits"] {
            bucket(db, &["migrate", "--collection", collection]).ok();
        }
        insert(db, "sales", [doc! { "_id": 1, "date": DateTime::from_millis(1) }]).await;
        let archive: [&str; 11] =
            words("archive --collection sales --archive old --age date --keep {\"a\":1} indexes --create");
        ran(on(db).args(archive)).ok();
        ran(on(db).args(["schema", "indexes", "sales", "--version-field", "v", "--create"])).ok();
        let trash: [&str; 7] = words("trash --collection sales --trash deleted indexes --create");
        ran(on(db).args(trash)).ok();
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |arguments: &[&str]| ran(on(db).current_dir(folder.path()).args(arguments));
        let init = in_folder(&["init", "--json"]);
        init.ends(
            0,
            json!({ "settings": "bucket trades, bucket visits, archive sales, schema sales, trash sales" }),
        );
        lose(db).await;

        refused(
            &in_folder(&["bucket", "verify"]),
            "(trades, visits): choose one by --collection",
        );
        in_folder(&["bucket", "--collection", "visits", "verify"]).ok();
        in_folder(&["archive", "indexes", "--create"]).ok();
        in_folder(&["archive", "run", "--older-than", "1", "--json"]).ends(0, json!({ "documents": 1 }));
        in_folder(&["schema", "indexes", "--create"]).ok();
        in_folder(&["schema", "verify"]).ok();
        in_folder(&["trash", "list"]).ok();
        // An option of another collection takes no table.
        refused(
            &in_folder(&["bucket", "--collection", "flat", "verify"]),
            "--key is missing",
        );
    })
    .await;
}
