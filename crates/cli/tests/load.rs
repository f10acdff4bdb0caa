//! Tests of loading files into buckets.

use std::process::Stdio;

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::support::*;

fn csv(rows: i64) -> String {
    let mut text = "customerId,tradeId,date,qty,note\n".to_owned();
    for n in 0..rows {
        text.push_str(&format!(
            "{},t{n},2023-10-26T15:47:{:02}Z,{n},\"a, \"\"b\"\"\"\n",
            n % 2,
            n % 60
        ));
    }
    text
}

#[tokio::test]
async fn loading_a_csv_file_is_idempotent() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "trades.csv", &csv(50));
        let load = ["--item-id", "tradeId", "load", &file, "--types", "qty=int", "--json"];
        let loaded = bucket(db, &load);
        assert_eq!(
            (loaded.code, &loaded.summary()["items"]),
            (Some(0), &50.into()),
            "{loaded:?}"
        );
        let stored = all(db, "trades").await;
        assert_eq!(stored.len(), 6);
        let first = stored[0].get_array("history").unwrap()[0].as_document().unwrap();
        let date = DateTime::from_millis(SECOND * 1000 - 3000);
        assert_eq!(
            first,
            &doc! { "tradeId": "t0", "date": date, "qty": 0, "note": "a, \"b\"" }
        );
        assert_eq!(stored[0].get("customerId"), Some(&Bson::Int32(0)));
        let again = bucket(db, &load);
        assert_eq!(
            (&again.summary()["items"], &again.summary()["stored_before"]),
            (&0.into(), &50.into())
        );
        assert_eq!(all(db, "trades").await, stored);
        assert_eq!(bucket(db, &["verify"]).code, Some(0));
    })
    .await;
}

#[tokio::test]
async fn the_error_for_an_invalid_line_names_it_and_nothing_is_stored() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text, line, what) in [
            (
                "a.csv",
                "customerId,date\n1,2023-10-26\nsecret,2023-10-26\n",
                "line 3",
                "customerId",
            ),
            ("b.csv", "customerId,date\n1,2023-10-26\n1,secret\n", "line 3", "date"),
            ("c.csv", "customerId,date\n1\n", "line 2", "columns"),
            (
                "d.ndjson",
                "{\"customerId\": 1, \"date\": {\"$date\": \"2023-10-26T00:00:00Z\"}}\n{\"date\": \"secret\"}\n",
                "line 2",
                "customerId",
            ),
            ("e.ndjson", "{\"customerId\": secret}\n", "line 1", "JSON"),
        ] {
            let file = write(folder.path(), name, text);
            let ran = bucket(db, &["load", &file]);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(
                ran.err.contains(line) && ran.err.contains(what) && !ran.err.contains("secret"),
                "{}",
                ran.err
            );
        }
        assert!(all(db, "trades").await.is_empty());
        let ran = bucket(db, &["load", "nowhere.csv"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    })
    .await;
}

#[tokio::test]
async fn standard_input_is_loaded_up_to_an_invalid_line() {
    testkit::run(async |db| {
        let line = |n: i64| format!("{{\"customerId\": 7, \"n\": {n}, \"date\": \"2023-10-26T15:47:03Z\"}}\n");
        let text: String = (0..25).map(line).chain(["nonsense\n".to_owned()]).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "in", &text);
        let mut load = on(db);
        load.arg("bucket")
            .args(BUCKETS)
            .args(["load", "-", "--format", "ndjson", "--json"]);
        let loaded = ran(load.stdin(Stdio::from(std::fs::File::open(file).unwrap())));
        assert_eq!(
            (loaded.code, &loaded.json()[0]["items"]),
            (Some(1), &25.into()),
            "{loaded:?}"
        );
        assert!(
            loaded.err.contains("line 26") && loaded.err.contains("stored"),
            "{}",
            loaded.err
        );
        let stored: usize = all(db, "trades")
            .await
            .iter()
            .map(|bucket| bucket.get_array("history").unwrap().len())
            .sum();
        assert_eq!(stored, 25);
        let first: Document = all(db, "trades").await.remove(0);
        assert_eq!(first.get_str("_id").unwrap(), format!("7_{SECOND}"));
    })
    .await;
}
