//! Tests of the file of rejected rows.

use std::path::Path;

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use crate::support::*;

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the lines and reasons of rejected rows, sorted.
fn reasons(rejected: &[Value]) -> Vec<(u64, String)> {
    let mut reasons: Vec<_> = rejected
        .iter()
        .map(|row| {
            (
                row["line"].as_u64().unwrap(),
                row["reason"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    reasons.sort();
    reasons
}

/// Loads a text with a file of rejected rows, and returns its rows.
#[track_caller]
fn load(db: &TestDatabase, pattern: &[&str], file: (&str, &str), options: &[&str]) -> (Ran, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), file.0, file.1);
    let rejects = folder.path().join("rejects.jsonl");
    let mut load = on(db);
    load.args(pattern)
        .args(["load", &path, "--json", "--reject-file"])
        .arg(&rejects)
        .args(options);
    let ran = ran(&mut load);
    let rows = if rejects.exists() { read(&rejects) } else { Vec::new() };
    (ran, rows)
}

#[tokio::test]
async fn rejected_rows_have_line_reason_and_text_and_the_others_are_stored() {
    testkit::run(async |db| {
        let oversized = format!("7,2023-10-26,{}\r\n", "x".repeat(17 * 1024 * 1024));
        let text = [
            "customerId,date,note\r\n",
            "7,2023-10-26,first\r\n",
            "7,2023-10-26\r\n",
            "seven,2023-10-26,\"a\r\nb\"\r\n",
            "7,26.10.2023,x\r\n",
            ",2023-10-26,x\r\n",
            &oversized,
            "7,2023-10-26,last\r\n",
        ]
        .concat();
        let pattern = [&["bucket"][..], &BUCKETS].concat();
        let (ran, rejected) = load(db, &pattern, ("a.csv", &text), &[]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let expected = [
            (3, "columns"),
            (4, "invalid"),
            (6, "type"),
            (7, "missing_field"),
            (8, "too_large"),
        ];
        assert_eq!(
            reasons(&rejected),
            expected.map(|(line, reason)| (line, reason.to_owned()))
        );
        assert_eq!(rejected[0]["row"], "7,2023-10-26");
        assert_eq!(rejected[1]["row"], "seven,2023-10-26,\"a\r\nb\"");
        let advice = rejected[2]["text"].as_str().unwrap();
        assert!(
            advice.contains("`date`") && advice.contains("'date=%d.%m.%Y'"),
            "{advice}"
        );
        let summary = ran.summary();
        for (name, count) in [
            ("items", 2),
            ("rejected", 5),
            ("rejected_columns", 1),
            ("rejected_type", 1),
            ("rejected_too_large", 1),
            ("exit_code", 1),
        ] {
            assert_eq!(summary[name], json!(count), "{name}: {summary}");
        }
        let history = all(db, "trades").await.remove(0);
        let notes: Vec<_> = history.get_array("history").unwrap().iter().collect();
        let notes: Vec<_> = notes
            .iter()
            .map(|item| item.as_document().unwrap().get_str("note").unwrap())
            .collect();
        assert_eq!(notes, ["first", "last"]);
    })
    .await;
}

#[tokio::test]
async fn rows_of_json_are_rejected_one_by_one() {
    testkit::run(async |db| {
        for (name, text) in [
            ("a.json", "{\"_id\": 1}\n{\"_id\": x}\n{\"_id\": [1]}\n{\"_id\": 2}\n"),
            (
                "b.json",
                "[{\"_id\": 1},\n{\"_id\": x},\n{\"_id\": [1]},\n{\"_id\": 2}]\n",
            ),
        ] {
            let (ran, rejected) = load(db, &[], (name, text), &["--collection", name]);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert_eq!(
                reasons(&rejected),
                [(2, "unreadable".to_owned()), (3, "invalid".to_owned())]
            );
            assert_eq!(rejected[0]["row"], "{\"_id\": x}");
            assert_eq!(all(db, name).await, [doc! { "_id": 1 }, doc! { "_id": 2 }]);
        }
    })
    .await;
}

/// The server and the library refuse rows that the command cannot check.
#[tokio::test]
async fn rows_that_are_refused_when_they_are_stored_are_rejected() {
    testkit::run(async |db| {
        let validator = doc! { "n": { "$lt": 3 } };
        db.database()
            .create_collection("few")
            .validator(validator)
            .await
            .unwrap();
        let rows = "_id,n\n1,1\n2,7\n3,2\n1,1\n";
        let (ran, rejected) = load(db, &[], ("a.csv", rows), &["--collection", "few"]);
        assert_eq!(reasons(&rejected), [(3, "validation".to_owned())], "{ran:?}");
        assert_eq!(
            (&ran.summary()["items"], &ran.summary()["stored_before"]),
            (&2.into(), &1.into())
        );

        let lists = ["outlier", "--collection", "books", "--array", "buyers"];
        let books = db.plain_collection::<Document>("books");
        books.insert_one(doc! { "_id": 1, "buyers": [] }).await.unwrap();
        let elements = ["--elements-of", "book", "--element", "user"];
        let (ran, rejected) = load(db, &lists, ("a.csv", "book,user\n1,a\n2,b\n1,c\n"), &elements);
        assert_eq!(reasons(&rejected), [(3, "not_found".to_owned())], "{ran:?}");
        assert_eq!(rejected[0]["row"], "2,b");
        assert_eq!(all(db, "books").await, [doc! { "_id": 1, "buyers": ["a", "c"] }]);

        let patrons = [
            "embedded",
            "--collection",
            "patrons",
            "--children",
            "addresses",
            "--max-children",
            "2",
        ];
        let joe = doc! { "_id": "joe", "addresses": [] };
        db.plain_collection::<Document>("patrons")
            .insert_one(joe)
            .await
            .unwrap();
        let options = ["--children-of", "p", "--child-id", "id"];
        let (ran, rejected) = load(
            db,
            &patrons,
            ("a.csv", "p,id\njoe,1\njoe,2\njoe,3\nann,1\njoe,2\n"),
            &options,
        );
        let expected = [(4, "limit_reached".to_owned()), (5, "not_found".to_owned())];
        assert_eq!(reasons(&rejected), expected, "{ran:?}");
        assert_eq!(
            (&ran.summary()["items"], &ran.summary()["stored_before"]),
            (&2.into(), &1.into())
        );

        db.plain_collection::<Document>("product")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let reviews = [&["subset"][..], &REVIEWS].concat();
        let rows = "product_id,review_id,date\n1,1,2023-10-26\n5,2,2023-10-26\n1,3,2023-10-26\n";
        let (ran, rejected) = load(db, &reviews, ("a.csv", rows), &[]);
        assert_eq!(reasons(&rejected), [(3, "not_found".to_owned())], "{ran:?}");
        assert_eq!((all(db, "review").await.len(), &ran.summary()["items"]), (2, &2.into()));
    })
    .await;
}

#[tokio::test]
async fn a_bucket_that_is_refused_rejects_only_its_rows() {
    testkit::run(async |db| {
        // A page of these items would exceed 16 MiB, but each fits.
        let large = "x".repeat(9 * 1024 * 1024);
        let text = format!(
            "customerId,date,note\n7,2023-10-26,{large}\n7,2023-10-26,{large}\n7,2023-10-26,x\n8,2023-10-26,y\n"
        );
        let pattern = [&["bucket"][..], &BUCKETS].concat();
        let (ran, rejected) = load(db, &pattern, ("a.csv", &text), &[]);
        assert_eq!(reasons(&rejected), [(3, "too_large".to_owned())], "{}", ran.err);
        assert_eq!((ran.code, &ran.summary()["items"]), (Some(1), &3.into()));
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn the_file_of_rejected_rows_is_not_overwritten_and_not_left_empty() {
    testkit::run(async |db| {
        let (valid, rejected) = load(db, &[], ("a.csv", "a\n1\n"), &["--collection", "rows"]);
        assert_eq!(
            (valid.code, &valid.summary()["rejected"]),
            (Some(0), &0.into()),
            "{valid:?}"
        );
        assert_eq!(rejected, Vec::<Value>::new());
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "a.csv", "a\n1\n");
        let existing = write(folder.path(), "empty", "");
        let empty = ran(on(db).args(["load", "--collection", "rows", &file, "--reject-file", &existing]));
        assert!(empty.code == Some(0) && Path::new(&existing).exists(), "{empty:?}");
        let arguments = ["load", "--collection", "other", &file, "--reject-file", &file];
        let refused = ran(on(db).args(arguments));
        assert!(
            refused.code == Some(2) && refused.err.contains("has content"),
            "{refused:?}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n1\n");
        assert!(all(db, "other").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_writes_rejected_rows_and_stores_nothing() {
    testkit::run(async |db| {
        let options = ["--collection", "rows", "--types", "a:int", "--dry-run"];
        let (ran, rejected) = load(db, &[], ("a.csv", "a\n1\nx\n2\n"), &options);
        assert_eq!(
            (ran.code, reasons(&rejected)),
            (Some(1), vec![(3, "type".to_owned())]),
            "{ran:?}"
        );
        assert_eq!(
            (&ran.summary()["items"], &ran.summary()["rejected_type"]),
            (&2.into(), &1.into())
        );
        assert!(all(db, "rows").await.is_empty());
    })
    .await;
}
