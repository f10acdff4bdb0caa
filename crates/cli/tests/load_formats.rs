//! Tests of the formats and types of loaded files.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::support::*;

const MIDNIGHT: DateTime = DateTime::from_millis(1_698_278_400_000);

/// Loads a file into the collection `rows`.
fn load(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(["load", "--collection", "rows", "--json"]).args(arguments))
}

/// Loads a file of this name and content into the empty collection `rows`, and returns its documents without `_id`.
async fn loaded(db: &TestDatabase, name: &str, content: impl AsRef<[u8]>, options: &[&str]) -> Vec<Document> {
    db.plain_collection::<Document>("rows").drop().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, content).unwrap();
    let ran = load(db, &[&[file.to_str().unwrap()], options].concat());
    assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
    let mut stored = all(db, "rows").await;
    assert_eq!(ran.summary()["items"], stored.len(), "{ran:?}");
    stored.iter_mut().for_each(|document| drop(document.remove("_id")));
    stored
}

/// Asserts that a file is refused with this exit code and these parts of the error, and that nothing is stored.
#[track_caller]
fn refused(db: &TestDatabase, folder: &Path, file: (&str, &str), options: &[&str], code: i32, parts: &[&str]) {
    let path = write(folder, file.0, file.1);
    let ran = load(db, &[&[path.as_str()], options].concat());
    assert_eq!(ran.code, Some(code), "{file:?}: {ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{file:?}: {part}: {}", ran.err);
    }
    assert!(!ran.err.contains("secret"), "{}", ran.err);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn each_format_is_read_by_its_extension_or_option() {
    testkit::run(async |db| {
        let expected = [doc! { "a": 1, "b": "x, y" }, doc! { "a": 2 }];
        let csv = "a,b\n1,\"x, y\"\n2,\n";
        let tsv = "a\tb\r\n1\tx, y\r\n2\t\r\n";
        let lines = "{\"a\": 1, \"b\": \"x, y\"}\n\n{\"a\": {\"$numberInt\": \"2\"}}\n";
        let array = "[\n{\"a\": 1, \"b\": \"x, y\"},\n  {\n\"a\": 2}\n]\n";
        let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
        for (name, content, options) in [
            ("a.csv", csv.into(), &[][..]),
            ("a.tsv", tsv.into(), &[]),
            ("a.txt", tsv.into(), &["--format", "tsv"]),
            (
                "b.csv",
                csv.replace(',', ";").replace("; ", ", ").into_bytes(),
                &["--delimiter", ";"],
            ),
            ("c.csv", tsv.into(), &["--delimiter", "tab"]),
            ("bom.csv", format!("\u{feff}{csv}").into(), &[]),
            ("a.json", lines.into(), &[]),
            ("a.jsonl", lines.into(), &[]),
            ("b.json", array.into(), &[]),
            ("c.json", array.replace('\n', "").into(), &[]),
            ("a.csv.gz", gzip(csv), &[]),
            ("named-plain.csv", gzip(csv), &[]),
            ("a.json.zst", zstd(array), &[]),
            ("a.tsv.zst", zstd(tsv), &[]),
            ("dump", zstd(lines), &["--format", "ndjson"]),
        ] {
            let stored: Vec<Document> = loaded(db, name, content, options).await;
            assert_eq!(stored, expected, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn types_are_inferred_unless_they_are_set() {
    testkit::run(async |db| {
        let csv = "n,big,price,zip,ok,day,note\n\
                   1,5000000000,2,01067,true,2023-10-26,NA\n\
                   -2,1,2.5,10115,FALSE,2023-10-26T00:00:00Z,x\n\
                   NA,,n/a,,,,y\n";
        let nulls = ["--null-value", "NA", "--null-value", "n/a"];
        let inferred = loaded(db, "a.csv", csv, &nulls).await;
        let expected = [
            doc! { "n": 1, "big": 5_000_000_000_i64, "price": 2.0, "zip": "01067", "ok": true, "day": MIDNIGHT },
            doc! { "n": -2, "big": 1, "price": 2.5, "zip": "10115", "ok": false, "day": MIDNIGHT, "note": "x" },
            doc! { "note": "y" },
        ];
        assert_eq!(inferred, expected);
        let strings = loaded(db, "a.csv", csv, &["--no-infer"]).await;
        let first = doc! {
            "n": "1", "big": "5000000000", "price": "2", "zip": "01067", "ok": "true", "day": "2023-10-26", "note": "NA"
        };
        assert_eq!(strings[0], first);
        let types = ["--types", "n:string,zip:int,price:decimal", "--no-infer"];
        let set = loaded(db, "a.csv", csv, &[&nulls[..], &types].concat()).await;
        assert_eq!(
            (set[0].get_str("n").unwrap(), set[0].get_i32("zip").unwrap()),
            ("1", 1067)
        );
        assert_eq!(set[1].get("price"), Some(&Bson::Decimal128("2.5".parse().unwrap())));
        assert!(
            !set[2].contains_key("n") && !set[2].contains_key("price"),
            "{:?}",
            set[2]
        );
    })
    .await;
}

#[tokio::test]
async fn dates_have_iso_form_or_a_set_format() {
    testkit::run(async |db| {
        let csv = "a,b,c\n26.10.2023,10/26/23 12:00 AM,1698278400\n";
        let formats = [
            ["--date-format", "a=%d.%m.%Y"],
            ["--date-format", "b=%m/%d/%y %I:%M %p"],
            ["--date-format", "c=%s"],
        ];
        let stored = loaded(db, "a.csv", csv, &formats.concat()).await;
        assert_eq!(stored, [doc! { "a": MIDNIGHT, "b": MIDNIGHT, "c": MIDNIGHT }]);
        let folder = tempfile::tempdir().unwrap();
        let file = ("d.csv", "a,b\n1,26.10.2023\n");
        refused(
            db,
            folder.path(),
            file,
            &["--types", "b:date"],
            1,
            &["line 2", "`b`", "'b=%d.%m.%Y'"],
        );
        refused(
            db,
            folder.path(),
            file,
            &["--date-format", "b=%H"],
            2,
            &["--date-format"],
        );
        refused(
            db,
            folder.path(),
            file,
            &["--date-format", "z=%d.%m.%Y"],
            2,
            &["--date-format", "`z`"],
        );
    })
    .await;
}

#[tokio::test]
async fn an_invalid_row_is_reported_with_its_line_and_nothing_is_stored() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let mut late = "a,b\r\n".to_owned();
        (0..2000).for_each(|n| late.push_str(&format!("{n},\"x\r\ny\"\r\n")));
        late.push_str("\r\nsecret,z\r\n");
        let oversized = format!("a,b\n1,x\n2,{}\n", "x".repeat(17 * 1024 * 1024));
        let csv = |text| ("a.csv", text);
        let json = |text| ("a.json", text);
        for (file, parts) in [
            // The header, 2000 rows of two lines, and a blank line.
            (
                csv(&late[..]),
                &["line 4003:", "`a`", "inferred as int", "--types 'a:string'"][..],
            ),
            (csv("a,b\r\n1,2\r\n\r\n3\r\n"), &["line 4:", "columns is 1"]),
            (csv("a,b\r\n1,\"secret\r\n2,3\r\n"), &["line 2:", "quotation mark"]),
            (csv(&oversized), &["line 3:", "16 MiB"]),
            (json("{\"a\": 1}\r\n{\"a\": secret}\r\n"), &["line 2:", "JSON"]),
            (json("[{\"a\": 1},\r\n\r\n{\"a\": secret}]"), &["line 3:", "JSON"]),
            (
                json("[{\"a\": 1},\n{\"a\": 2}"),
                &["line 2:", "ends before the end of the array"],
            ),
        ] {
            refused(db, folder.path(), file, &[], 1, parts);
        }
        let mut cut = gzip("a\n1\n2\n3\n");
        cut.truncate(cut.len() - 5);
        let path = folder.path().join("cut.csv.gz");
        std::fs::write(&path, cut).unwrap();
        let ran = load(db, &[path.to_str().unwrap()]);
        assert!(ran.code == Some(1) && ran.err.contains("incomplete"), "{ran:?}");
        assert!(all(db, "rows").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_invalid_header_or_option_is_refused() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let rejects = folder.path().join("rejects.jsonl");
        let reject = ["--reject-file", rejects.to_str().unwrap()];
        for (header, parts) in [
            ("a,b,a", ["column 3", "column 1"]),
            ("a,,b", ["column 2", "no name"]),
            ("a,$b", ["column 2", "`$`"]),
            ("a,b.c", ["column 2", "dot"]),
            ("a,b\0", ["column 2", "NUL"]),
        ] {
            let text = format!("{header}\n1,2,3\n");
            refused(db, folder.path(), ("a.csv", &text), &[], 1, &parts);
            refused(db, folder.path(), ("a.csv", &text), &reject, 1, &parts);
        }
        assert!(!rejects.exists());
        let file = write(folder.path(), "a.csv", "customerId,date,date\n");
        let buckets = bucket(db, &["load", &file, reject[0], reject[1]]);
        assert!(
            buckets.code == Some(1) && buckets.err.contains("column 3"),
            "{buckets:?}"
        );
        let collections = db.database().list_collection_names().await.unwrap();
        assert_eq!(collections, Vec::<String>::new());
        refused(db, folder.path(), ("a.csv", ""), &[], 1, &["empty"]);
        let twice = ["--types", "a:int,a:string"];
        refused(db, folder.path(), ("a.csv", "a\n1\n"), &twice, 2, &["`a`", "twice"]);
        refused(
            db,
            folder.path(),
            ("a.csv", "a\n1\n"),
            &["--types", "z:int"],
            2,
            &["--types", "`z`"],
        );
        refused(
            db,
            folder.path(),
            ("a.csv", "a\n1\n"),
            &["--types", "a:number"],
            2,
            &["--types", "objectid"],
        );
        refused(
            db,
            folder.path(),
            ("a.csv", "a\n1\n"),
            &["--delimiter", "ab"],
            2,
            &["--delimiter"],
        );
        refused(
            db,
            folder.path(),
            ("a.json", "{}\n"),
            &["--types", "a:int"],
            2,
            &["--types", "JSON"],
        );
        refused(db, folder.path(), ("a.txt", "a\n"), &[], 2, &["--format", "tsv"]);
        refused(
            db,
            folder.path(),
            ("a.csv", "a\n1\n"),
            &["--id", "n"],
            1,
            &["`n`", "--delimiter"],
        );
        assert!(all(db, "rows").await.is_empty());
    })
    .await;
}
