//! Tests of the options that choose the documents and the pace of a migration.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use crate::subset::{embed, subset};
use crate::support::*;

/// Adds documents without a valid key or date, of which some values would be operators or code in a shell.
async fn add_invalid(db: &TestDatabase) {
    let date = DateTime::from_millis(SECOND * 1000);
    let invalid = [
        doc! { "_id": 90_000, "date": date },
        doc! { "_id": 90_001, "customerId": "\"}); db.dropDatabase(); ({\"$x\": \"", "date": date },
        doc! { "_id": 90_002, "customerId": 2 },
    ];
    insert(db, "flat", invalid).await;
}

#[tokio::test]
async fn invalid_documents_are_analyzed_skipped_listed_and_counted() {
    testkit::run(async |db| {
        fill(db, 3, 90).await;
        add_invalid(db).await;
        let analyzed = bucket(db, &["analyze", "--json"]);
        analyzed.ends(0, json!({ "invalid": 3, "invalid_of": 93 }));
        let (found, filter) = invalid_documents(&analyzed, ["key", "time", "item_id"]);
        assert_eq!(found, [Some(2), Some(1), None]);
        let flat = db.plain_collection::<Document>("flat");
        assert_eq!(flat.count_documents(filter).await.unwrap(), 3);
        let shown = bucket(db, &["analyze"]);
        shown.shows(["- key: 2 documents with no key", "db.getCollection(\"flat\").find({"]);
        assert!(!shown.out.contains("dropDatabase"), "{}", shown.out);

        bucket(db, &["migrate"]).says(1, "--skip-invalid COLLECTION");

        let skip = ["--skip-invalid", "skipped"];
        bucket(db, &["plan", skip[0], skip[1]]).shows(["// writes: list the skipped documents"]);
        let dry = bucket(db, &["migrate", "--dry-run", "--json", skip[0], skip[1]]);
        assert_eq!([&dry.summary()["items"], &dry.summary()["skipped"]], [90, 3]);
        for collection in ["trades", "skipped", "mongo_patterns"] {
            assert!(all(db, collection).await.is_empty(), "{collection}");
        }

        let migrated = bucket(db, &["migrate", "--json", skip[0], skip[1]]);
        let counts = json!({ "items": 90, "skipped": 3, "skipped_key": 2, "skipped_time": 1 });
        migrated.ends(0, counts);
        let listed = all(db, "skipped").await;
        let reasons: Vec<(i32, &str)> = listed
            .iter()
            .map(|listed| (listed.get_i32("_id").unwrap(), listed.get_str("reason").unwrap()))
            .collect();
        assert_eq!(reasons, [(90_000, "key"), (90_001, "key"), (90_002, "time")]);
        assert_eq!(all(db, "flat").await.len(), 93);
        bucket(db, &["migrate", skip[0], skip[1]]).ok();
        assert_eq!(all(db, "skipped").await, listed);
        bucket(db, &["verify"]).ok();

        db.plain_collection::<Document>("trades").drop().await.unwrap();
        for taken in ["trades", "flat", "mongo_patterns"] {
            let refused = bucket(db, &["migrate", "--skip-invalid", taken]);
            assert_eq!(refused.code, Some(2), "{refused:?}");
        }
        insert(db, "mine", [doc! { "_id": 1 }]).await;
        let refused = bucket(db, &["migrate", "--skip-invalid", "mine"]);
        refused.says(1, "name another collection");
        assert!(!refused.err.contains("--allow-non-empty-target"), "{}", refused.err);
        assert_eq!(all(db, "mine").await, [doc! { "_id": 1 }]);
        assert!(all(db, "trades").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_filter_is_checked_planned_stored_and_the_same_when_the_migration_resumes() {
    testkit::run(async |db| {
        fill(db, 6, 90).await;
        let (no_operator, code) = ("{\"a\": {\"$nosuch\": \"s3cret\"}}", "{\"$where\": \"s3cret\"}");
        for (command, illegal) in [
            (&["migrate"][..], "{"),
            (&["migrate"], "[]"),
            (&["migrate"], "{ year: 2025 }"),
            (&["migrate"], no_operator),
            (&["migrate"], code),
            (&["plan"], no_operator),
            (&["plan"], code),
            (&["migrate", "--dry-run"], no_operator),
            (&["migrate", "--dry-run"], code),
        ] {
            let refused = bucket(db, &[command, &["--where", illegal]].concat());
            assert_eq!(refused.code, Some(2), "{illegal}: {refused:?}");
            assert!(!refused.err.contains("s3cret"), "{}", refused.err);
        }
        let flat = db.plain_collection::<Document>("flat");
        flat.drop_indexes().await.unwrap();
        let refused_first = bucket(db, &["migrate", "--create-index", "--where", "{"]);
        assert_eq!(refused_first.code, Some(2), "{refused_first:?}");
        assert_eq!(flat.list_index_names().await.unwrap(), ["_id_"]);
        let old = ["migrate", "--where", r#"{"date": {"$gte": {"$date": "2024-01-01"}}}"#];
        bucket(db, &old).says(2, "a value of the type `$date` has not the form of Extended JSON");
        assert!(all(db, "trades").await.is_empty() && all(db, "mongo_patterns").await.is_empty());

        let filter = r#"{"customerId": {"$in": [1, 2, {"$numberLong": "3"}]}}"#;
        bucket(db, &["plan", "--where", filter]).shows(["$in: [1, 2, Long(\"3\")]"]);
        let dry = bucket(db, &["migrate", "--dry-run", "--json", "--where", filter]);
        dry.ends(0, json!({ "items": 45, "where": filter }));
        bucket(db, &["migrate", "--json", "--where", filter]).ends(0, json!({ "items": 45 }));

        // As if it were unfinished.
        let records = db.plain_collection::<Document>("mongo_patterns");
        let of = doc! { "_id.kind": "migration" };
        let record = records.find_one(of.clone()).await.unwrap().unwrap();
        let settings = record.get_document("settings").unwrap();
        assert!(settings.get_str("filter").unwrap().contains("$in"), "{settings}");
        let unfinished = doc! { "$unset": { "finished": 1 } };
        records.update_one(of, unfinished).await.unwrap();
        let before = all(db, "trades").await;
        for other in [vec![], vec!["--where", r#"{"customerId": 987654}"#]] {
            let refused = bucket(db, &[&["migrate"], &other[..]].concat());
            refused.says(2, "`filter`");
            assert!(!refused.err.contains("987654"), "{}", refused.err);
        }
        assert_eq!(all(db, "trades").await, before);
        bucket(db, &["migrate", "--json", "--where", filter]).ends(0, json!({ "resumed": true }));
        assert_eq!(all(db, "trades").await, before);
    })
    .await;
}

/// Each key has 100 items, for which the rate demands a pause of 100 seconds.
#[cfg(unix)]
#[tokio::test]
async fn a_pause_of_the_rate_ends_at_ctrl_c_and_several_chunks_need_an_index() {
    testkit::run(async |db| {
        let mut child = paused_migration(db).await;
        assert_eq!(interrupt(&mut child), Some(130));
        assert_eq!(all(db, "trades").await.len(), 10);
        let resumed = bucket(db, &["migrate", "--json", "--rate", "100000"]);
        resumed.ends(0, json!({ "items": 2000, "resumed": true }));

        db.plain_collection::<Document>("trades").drop().await.unwrap();
        db.plain_collection::<Document>("flat").drop_indexes().await.unwrap();
        bucket(db, &["migrate", "--rate", "100"]).says(2, "--create-index");
        let in_chunks = ["--collection", "other", "migrate", "--chunk", "200", "--json"];
        bucket(db, &in_chunks).says(2, "--create-index");
        assert!(all(db, "other").await.is_empty());
        bucket(db, &[&in_chunks[..], &["--create-index"]].concat()).ends(0, json!({ "items": 2000 }));
    })
    .await;
}

const EMBEDDED: [&str; 3] = ["migrate", "--from", "embedded"];

#[cfg(unix)]
#[tokio::test]
async fn a_migration_of_embedded_children_resumes_and_then_changes_nothing() {
    testkit::run(async |db| {
        embed(db, 50).await;
        let mut program = on(db);
        program.arg("subset").args(REVIEWS).args(EMBEDDED);
        program.args(["--rate", "10"]);
        let mut child = until_it_shows(&mut program, "of 100 children");
        assert_eq!(interrupt(&mut child), Some(130));
        let stored = all(db, "review").await.len();
        assert!(0 < stored && stored < 100, "{stored}");

        subset(db, &[&EMBEDDED[..], &["--json"]].concat()).ends(0, json!({ "resumed": true }));
        assert_eq!(all(db, "review").await.len(), 100);
        subset(db, &["verify"]).ok();
        let before = (all(db, "product").await, all(db, "review").await);
        for _ in 0..2 {
            subset(db, &EMBEDDED).ok().shows(["nothing to migrate"]);
            assert_eq!((all(db, "product").await, all(db, "review").await), before);
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_parents_are_analyzed_and_skipped() {
    testkit::run(async |db| {
        embed(db, 50).await;
        let product = db.plain_collection::<Document>("product");
        let invalid = [
            doc! { "_id": 90, "reviews": [{ "date": 1 }] },
            doc! { "_id": 91, "reviews": "none" },
        ];
        product.insert_many(&invalid).await.unwrap();
        let analyzed = subset(db, &["analyze", "--json"]);
        let (found, filter) = invalid_documents(&analyzed, ["no_id", "no_array", "twice"]);
        assert_eq!(found, [Some(1), Some(1), None]);
        assert_eq!(product.count_documents(filter).await.unwrap(), 2);

        subset(db, &EMBEDDED).says(1, "--skip-invalid COLLECTION");
        let wrong_form = subset(db, &["migrate", "--from", "collection", "--skip-invalid", "skipped"]);
        assert_eq!(wrong_form.code, Some(2), "{wrong_form:?}");
        assert!(all(db, "mongo_patterns").await.is_empty());

        let skip = ["--skip-invalid", "skipped", "--json"];
        let counts = json!({ "documents": 50, "skipped": 2, "skipped_no_id": 1, "skipped_no_array": 1 });
        subset(db, &[&EMBEDDED[..], &skip].concat()).ends(0, counts);
        assert_eq!(all(db, "review").await.len(), 100);
        assert_eq!(all(db, "skipped").await.len(), 2);
        subset(db, &[&EMBEDDED[..], &skip[..2]].concat()).shows(["nothing to migrate"]);
        let products = all(db, "product").await;
        assert!(invalid.iter().all(|parent| products.contains(parent)));
    })
    .await;
}

#[tokio::test]
async fn children_without_an_id_are_skipped() {
    testkit::run(async |db| {
        insert(db, "patron", [doc! { "_id": 1 }, doc! { "_id": 2 }]).await;
        let valid = (0..6).map(|n| doc! { "_id": n, "patron_id": 1 + n % 2, "n": n });
        let invalid = [doc! { "_id": 90, "patron_id": 1 }];
        insert(db, "address", valid.chain(invalid)).await;
        index(db, "address", doc! { "patron_id": 1 }).await;
        let embedded = |arguments: &[&str]| ran(on(db).args(PATRONS).args(["--child-id", "n"]).args(arguments));
        embedded(&["migrate"]).says(1, "--skip-invalid COLLECTION");
        let skip = ["migrate", "--skip-invalid", "skipped", "--json"];
        let dry = embedded(&[&skip[..], &["--dry-run"]].concat());
        assert_eq!([&dry.summary()["children"], &dry.summary()["skipped_child_id"]], [6, 1]);
        assert!(all(db, "skipped").await.is_empty() && all(db, "mongo_patterns").await.is_empty());
        let migrated = embedded(&[&skip[..], &["--rate", "1000"]].concat());
        migrated.ends(0, json!({ "children": 6, "skipped": 1 }));
        let listed = all(db, "skipped").await;
        assert_eq!((listed.len(), listed[0].get_str("reason").unwrap()), (1, "child_id"));
    })
    .await;
}

#[tokio::test]
async fn an_invalid_list_does_not_keep_the_outlier_migration_from_finishing() {
    testkit::run(async |db| {
        let book = |id: i32, customers: i32| doc! { "_id": id, "customers": (0..customers).collect::<Vec<_>>() };
        let books = [book(1, 3), book(2, 40), doc! { "_id": 3, "customers": "none" }];
        insert(db, "sales", books).await;
        let outlier = |arguments: &[&str]| {
            let settings = ["--collection", "sales", "--array", "customers", "--threshold", "5"];
            ran(on(db).arg("outlier").args(settings).args(arguments))
        };
        outlier(&["migrate"]).says(1, "--skip-invalid COLLECTION");
        let dry = outlier(&["migrate", "--dry-run", "--skip-invalid", "skipped", "--json"]);
        assert_eq!(dry.summary()["skipped_no_array"], 1, "{dry:?}");
        assert!(all(db, "skipped").await.is_empty());
        outlier(&["migrate", "--rate", "100", "--skip-invalid", "skipped", "--json"]).ends(0, json!({ "skipped": 1 }));
        assert_eq!(all(db, "skipped").await[0].get_i32("_id").unwrap(), 3);
        assert_eq!(all(db, "mongo_patterns").await.len(), 1);
        outlier(&["indexes"]).ok();
    })
    .await;
}
