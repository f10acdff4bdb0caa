//! Tests of the analysis.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::support::*;

#[tokio::test]
async fn groups_are_counted_and_fit_80_columns() {
    testkit::run(async |db| {
        // 95 customers with 2 trades, 5 with 60.
        let mut documents = Vec::new();
        for key in 0..100 {
            for n in 0..if key < 95 { 2 } else { 60 } {
                documents.push(doc! { "customerId": key, "n": n, "date": DateTime::now(), "note": "x".repeat(100) });
            }
        }
        documents.push(doc! { "n": 0 });
        insert(db, "flat", documents).await;
        let shown = bucket(db, &["analyze"]).ok();
        shown.shows([
            "490 items in 100 lists",
            "1 document has no such field",
            "buckets of 10",
            "Advice",
            "outlier",
            "subset of 10",
        ]);
        shown.fits_80_columns();

        let machine = bucket(db, &["analyze", "--json"]);
        let lines = machine.json();
        let ranges = lines
            .iter()
            .filter(|line| line["type"] == "range" && line["lists"] != 0);
        let ranges: Vec<_> = ranges.map(|line| [&line["from"], &line["lists"]]).collect();
        assert_eq!(ranges, [[1, 95], [50, 5]]);
        let design = lines.iter().find(|line| line["name"] == "buckets of 10").unwrap();
        assert_eq!([&design["documents"], &design["page_documents"]], [125, 1]);
        bucket(db, &["analyze", "--sample", "50", "--json"]).says(2, "index");
        index(db, "flat", doc! { "customerId": 1 }).await;
        let sampled = bucket(db, &["analyze", "--sample", "400", "--json"]);
        let lists = sampled.summary()["lists"].as_u64().unwrap();
        assert!((70..=130).contains(&lists), "{sampled:?}");
    })
    .await;
}

/// Returns the lines about stored documents, by collection and field.
fn stored(analyzed: &Ran) -> Vec<Value> {
    assert_eq!(analyzed.code, Some(0), "{analyzed:?}");
    analyzed.lines("stored")
}

/// The collection and its settings in the catalog are enough.
#[tokio::test]
async fn managed_buckets_are_measured_and_analyzed_without_a_flat_collection() {
    testkit::run(async |db| {
        fill(db, 4, 100).await;
        bucket(db, &["migrate", "--page-size", "10"]).ok();
        let managed = ["bucket", "--collection", "trades", "analyze"];
        let analyze = |options: &[&str]| ran(on(db).args(managed).args(options));
        let shown = analyze(&[]);
        shown.shows([
            "trades: 12 documents",
            "page_size = 10: 8 documents have as many, and 0 have more",
            "page_size fits",
            "100 items in 4 lists",
            "Advice",
        ]);
        shown.fits_80_columns();
        for options in [&["--json"][..], &["--json", "--sample", "1000"]] {
            let machine = analyze(options);
            let line = &stored(&machine)[0];
            let numbers = ["documents", "limit", "longest", "at_limit", "above_limit"].map(|name| line[name].as_u64());
            assert_eq!(numbers, [12, 10, 10, 8, 0].map(Some), "{machine:?}");
            let items = machine.summary()["items"].as_u64();
            assert_eq!(items, (options.len() == 1).then_some(100), "{machine:?}");
            let largest = all(db, "trades").await;
            let largest = largest.iter().map(|bucket| bucket.to_vec().unwrap().len() as u64).max();
            assert_eq!(line["largest_document"].as_u64(), largest);
        }
        // A page that another program made too long.
        let item = doc! { "n": 1, "date": DateTime::now() };
        let longer = doc! { "$push": { "history": { "$each": vec![item; 50] } } };
        let buckets = db.plain_collection::<Document>("trades");
        buckets.update_one(doc! { "count": 10 }, longer).await.unwrap();
        let line = &stored(&analyze(&["--json"]))[0];
        let found = json!([line["fits"], line["above_limit"], line["longest"]]);
        assert_eq!(found, json!([false, 1, 60]));
        // A page size with which a full bucket would be too large.
        let large = doc! { "$set": { "history.$[].note": "x".repeat(10_000) } };
        buckets.update_many(doc! {}, large).await.unwrap();
        ran(on(db).args(["bucket", "--collection", "trades", "--page-size", "1000", "analyze"]))
            .shows(["page_size does not fit: choose a smaller one"]);
    })
    .await;
}

#[tokio::test]
async fn stored_documents_of_the_other_patterns_are_measured() {
    testkit::run(async |db| {
        let patron = |n: i32| {
            let address = |id: i32| doc! { "_id": id, "zip": "12345" };
            doc! { "_id": n, "addresses": (0..n).map(address).collect::<Vec<_>>() }
        };
        insert(db, "patron", (0..=5).map(patron)).await;
        let embedded = |options: &[&str]| ran(on(db).args(["embedded", "--collection", "patron"]).args(options));
        let settings = ["--children", "addresses", "--max-children", "5"];
        embedded(&[&settings[..], &["indexes", "--create"]].concat()).ok();
        let analyzed = embedded(&["analyze", "--json"]);
        let line = &stored(&analyzed)[0];
        let numbers = ["documents", "limit", "longest", "at_limit", "above_limit"].map(|name| line[name].as_u64());
        assert_eq!(numbers, [6, 5, 5, 1, 0].map(Some), "{analyzed:?}");
        assert_eq!([&analyzed.summary()["items"], &line["largest_id"]], [15, 5]);

        let book = |n: i32| doc! { "_id": n, "buyers": (0..n).collect::<Vec<_>>() };
        insert(db, "books", (1..20).map(book)).await;
        let names = ["outlier", "--collection", "books", "--array", "buyers"];
        let bounds = ["--threshold", "10", "--cap", "5"];
        let outlier = |options: &[&str]| ran(on(db).args(names).args(bounds).args(options));
        let above = || -> Vec<Value> {
            let lines = stored(&outlier(&["analyze", "--json"]));
            lines.iter().map(|line| line["above_limit"].clone()).collect()
        };
        assert_eq!(above(), [9]);
        outlier(&["migrate"]).ok();
        assert_eq!(above(), [0, 0]);

        let book = |id: i32| doc! { "_id": id, "customers": (0..if id < 99 { 5 } else { 900 }).collect::<Vec<_>>() };
        insert(db, "sales", (0..100).map(book)).await;
        let lists: [&str; 5] = words("outlier --collection sales --array customers");
        ran(on(db).args(lists).args(["analyze", "--json"])).ends(0, json!({ "recommended": "outlier" }));
    })
    .await;
}

/// The estimate for buckets agrees with a migration of the same items.
#[tokio::test]
async fn estimates_are_close_to_the_stored_sizes() {
    testkit::run(async |db| {
        fill(db, 4, 1000).await;
        let machine = bucket(db, &["analyze", "--json"]).json();
        let design = machine.iter().find(|line| line["name"] == "buckets of 50").unwrap();
        bucket(db, &["migrate", "--page-size", "50"]).ok();
        let statistics = db.database().run_command(doc! { "collStats": "trades" }).await.unwrap();
        assert_eq!(design["documents"], statistics.get_i32("count").unwrap());
        let estimated = design["bytes"].as_f64().unwrap();
        let stored = f64::from(statistics.get_i32("size").unwrap());
        assert!(
            (0.8..1.25).contains(&(estimated / stored)),
            "estimated {estimated}, stored {stored}"
        );
    })
    .await;
}

/// A view has neither a size nor an index. It can be migrated.
#[tokio::test]
async fn a_view_is_migrated_but_neither_analyzed_nor_indexed() {
    testkit::run(async |db| {
        let documents = fill(db, 3, 30).await;
        let database = db.plain_client().database(db.database().name());
        database.collection::<Document>("flat").drop().await.unwrap();
        insert(db, "stored", &documents).await;
        database.create_collection("flat").view_on("stored").await.unwrap();
        let lists = ["outlier", "--collection", "flat", "--array", "a", "analyze"];
        for analyzed in [bucket(db, &["analyze"]), ran(on(db).args(lists))] {
            refused(&analyzed, ".flat: the collection is a view");
            refused(&analyzed, "use the collection that the view reads");
        }
        for options in [&["--create-index"][..], &["--chunk", "5"], &["--rate", "5"]] {
            refused(&bucket(db, &[&["migrate"], options].concat()), "pass --no-index");
        }
        assert!(all(db, "trades").await.is_empty());
        bucket(db, &["migrate", "--no-index", "--json"]).ends(0, json!({ "items": 30 }));
    })
    .await;
}
