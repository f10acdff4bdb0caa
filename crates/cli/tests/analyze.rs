//! Tests of the analysis.

use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};

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
        let flat = db.plain_collection::<Document>("flat");
        flat.insert_many(&documents).await.unwrap();
        let shown = bucket(db, &["analyze"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        for text in [
            "490 items in 100 lists",
            "1 documents have no such field",
            "buckets of 10",
            "Advice",
            "outlier",
            "subset of 10",
        ] {
            assert!(shown.out.contains(text), "{text}: {}", shown.out);
        }
        assert!(
            shown.out.lines().all(|line| line.chars().count() <= 80),
            "{}",
            shown.out
        );

        let machine = bucket(db, &["analyze", "--json"]);
        let lines = machine.json();
        let ranges: Vec<(u64, u64)> = lines
            .iter()
            .filter(|line| line["type"] == "range" && line["lists"] != 0)
            .map(|line| (line["from"].as_u64().unwrap(), line["lists"].as_u64().unwrap()))
            .collect();
        assert_eq!(ranges, [(1, 95), (50, 5)]);
        let design = lines.iter().find(|line| line["name"] == "buckets of 10").unwrap();
        assert_eq!(
            (&design["documents"], &design["page_documents"]),
            (&125.into(), &1.into())
        );
        let sampled = bucket(db, &["analyze", "--sample", "50", "--json"]);
        assert!(sampled.code == Some(2) && sampled.err.contains("index"), "{sampled:?}");
        flat.create_index(IndexModel::builder().keys(doc! { "customerId": 1 }).build())
            .await
            .unwrap();
        let sampled = bucket(db, &["analyze", "--sample", "400", "--json"]);
        let lists = sampled.summary()["lists"].as_u64().unwrap();
        assert!((70..=130).contains(&lists), "{sampled:?}");
    })
    .await;
}

/// The estimate for buckets agrees with a migration of the same items.
#[tokio::test]
async fn estimates_are_close_to_the_stored_sizes() {
    testkit::run(async |db| {
        fill(db, 20, 5000).await;
        let machine = bucket(db, &["analyze", "--json"]);
        let design = machine
            .json()
            .into_iter()
            .find(|line| line["name"] == "buckets of 50")
            .unwrap();
        assert_eq!(bucket(db, &["migrate", "--page-size", "50"]).code, Some(0));
        let statistics = db.database().run_command(doc! { "collStats": "trades" }).await.unwrap();
        assert_eq!(
            design["documents"].as_i64().unwrap(),
            i64::from(statistics.get_i32("count").unwrap())
        );
        let (estimated, stored) = (
            design["bytes"].as_f64().unwrap(),
            f64::from(statistics.get_i32("size").unwrap()),
        );
        assert!(
            (0.8..1.25).contains(&(estimated / stored)),
            "estimated {estimated}, stored {stored}"
        );
    })
    .await;
}

#[tokio::test]
async fn lists_of_documents_are_analyzed() {
    testkit::run(async |db| {
        let book = |id: i32| doc! { "_id": id, "customers": (0..if id < 99 { 5 } else { 900 }).collect::<Vec<_>>() };
        db.plain_collection::<Document>("sales")
            .insert_many((0..100).map(book))
            .await
            .unwrap();
        let ran = ran(on(db).args([
            "outlier",
            "--collection",
            "sales",
            "--array",
            "customers",
            "analyze",
            "--json",
        ]));
        assert_eq!(
            (ran.code, &ran.summary()["recommended"]),
            (Some(0), &"outlier".into()),
            "{ran:?}"
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
        database
            .collection::<Document>("stored")
            .insert_many(&documents)
            .await
            .unwrap();
        database.create_collection("flat").view_on("stored").await.unwrap();
        let lists = ["outlier", "--collection", "flat", "--array", "a", "analyze"];
        for analyzed in [bucket(db, &["analyze"]), ran(on(db).args(lists))] {
            refused(&analyzed, ".flat: the collection is a view");
            assert!(
                analyzed.err.contains("use the collection that the view reads"),
                "{analyzed:?}"
            );
        }
        for options in [&["--create-index"][..], &["--chunk", "5"], &["--rate", "5"]] {
            let migrated = bucket(db, &[&["migrate"], options].concat());
            refused(&migrated, "pass --no-index");
        }
        assert!(all(db, "trades").await.is_empty());
        let migrated = bucket(db, &["migrate", "--no-index", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["items"]),
            (Some(0), &30.into()),
            "{migrated:?}"
        );
    })
    .await;
}
