//! Tests of the targets of loaded files: the stored documents, and a second run.

use mongo_patterns_testkit::{self as testkit, Mongod, MongodOptions, TestDatabase};
use mongodb::Client;
use mongodb::bson::{DateTime, Document, doc};
use serde_json::Value;

use crate::support::*;

const BOOKS: [&str; 7] = [
    "outlier",
    "--collection",
    "books",
    "--array",
    "buyers",
    "--threshold",
    "2",
];
const PATRONS: [&str; 5] = ["embedded", "--collection", "patrons", "--children", "addresses"];

/// Loads a text as a file, and returns the summary.
#[track_caller]
fn load(db: &TestDatabase, pattern: &[&str], file: (&str, &str), options: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), file.0, file.1);
    let ran = ran(on(db).args(pattern).args(["load", &path, "--json"]).args(options));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = ran.summary();
    (ran, summary)
}

#[track_caller]
fn counts(summary: &Value) -> [u64; 3] {
    ["items", "stored_before", "items_without_id"].map(|name| summary[name].as_u64().unwrap())
}

/// Asserts that a second run says whether it stores the rows again.
#[track_caller]
fn assert_warning(ran: &Ran, advice: Option<&str>) {
    match advice {
        Some(advice) => assert!(
            ran.err.contains("running the command again stores them again") && ran.err.contains(advice),
            "{}",
            ran.err
        ),
        None => assert!(!ran.err.contains("warning"), "{}", ran.err),
    }
}

async fn insert(db: &TestDatabase, collection: &str, documents: &[Document]) {
    let collection = db.plain_collection::<Document>(collection);
    collection.insert_many(documents).await.unwrap();
}

#[tokio::test]
async fn rows_are_documents_of_a_flat_collection() {
    testkit::run(async |db| {
        let file = ("a.csv", "n,sku\n1,x\n2,y\n");
        let flat = |options: &[&str]| load(db, &[], file, &[&["--collection", "items"], options].concat());
        let (first, summary) = flat(&["--id", "n"]);
        assert_eq!(
            (summary["command"].as_str(), counts(&summary)),
            (Some("load"), [2, 0, 0])
        );
        assert_warning(&first, None);
        let progress: Vec<_> = first.err.lines().collect();
        assert!(
            progress.iter().any(|line| line.starts_with("check: 2 items")),
            "{progress:?}"
        );
        assert!(
            progress.iter().any(|line| line.starts_with("load: 2 of 2 items")),
            "{progress:?}"
        );
        let stored = [doc! { "_id": 1, "sku": "x" }, doc! { "_id": 2, "sku": "y" }];
        assert_eq!(all(db, "items").await, stored);
        assert_eq!(counts(&flat(&["--id", "n"]).1), [0, 2, 0]);
        assert_eq!(all(db, "items").await, stored);
        let (dry_run, summary) = flat(&["--dry-run"]);
        assert_eq!((summary["items"].as_u64(), all(db, "items").await.len()), (Some(2), 2));
        assert_eq!(summary["types"], "n:int,sku:string");
        assert_warning(&dry_run, Some("--id"));
        let (again, summary) = flat(&[]);
        assert_eq!(counts(&summary), [2, 0, 2]);
        assert_warning(&again, Some("--id"));
        assert_eq!(all(db, "items").await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn rows_are_items_of_buckets() {
    testkit::run(async |db| {
        let pattern = [&["bucket"][..], &BUCKETS].concat();
        let file = (
            "a.csv",
            "customerId,date,qty\n7,2023-10-26T15:47:03Z,5\n7,2023-10-26T15:47:03Z,6\n",
        );
        let (first, summary) = load(db, &pattern, file, &[]);
        assert_eq!(
            (counts(&summary), summary["buckets_opened"].as_u64()),
            ([2, 0, 2], Some(1))
        );
        assert_warning(&first, Some("--item-id"));
        let date = DateTime::from_millis(SECOND * 1000);
        let mut history = vec![doc! { "date": date, "qty": 5 }, doc! { "date": date, "qty": 6 }];
        let bucket = doc! { "_id": format!("7_{SECOND}"), "count": 2, "customerId": 7, "history": &history };
        assert_eq!(all(db, "trades").await, std::slice::from_ref(&bucket));
        assert_eq!(counts(&load(db, &pattern, file, &[]).1), [2, 0, 2]);
        history.extend(history.clone());
        let doubled = all(db, "trades").await.remove(0);
        assert_eq!(
            doubled,
            doc! { "_id": bucket.get("_id"), "count": 4, "customerId": 7, "history": history }
        );
    })
    .await;
}

#[tokio::test]
async fn rows_are_documents_with_arrays_or_elements_of_them() {
    testkit::run(async |db| {
        let books = (
            "books.json",
            "[{\"_id\": 1, \"buyers\": [\"a\"]}, {\"_id\": 2, \"buyers\": [\"a\", \"b\", \"c\"]}]",
        );
        let (first, summary) = load(db, &BOOKS, books, &[]);
        assert_eq!(
            (counts(&summary), summary["overflow_elements"].as_u64()),
            ([2, 0, 0], Some(1))
        );
        assert_warning(&first, None);
        let second = doc! { "_id": 2, "buyers": ["a", "b"], "has_extras": true };
        assert_eq!(
            all(db, "books").await,
            [doc! { "_id": 1, "buyers": ["a"] }, second.clone()]
        );
        assert_eq!(counts(&load(db, &BOOKS, books, &[]).1), [0, 2, 0]);
        let file = ("sales.csv", "book,user\n1,b\n1,c\n2,d\n");
        let elements = ["--elements-of", "book", "--element", "user"];
        let (pushed, summary) = load(db, &BOOKS, file, &elements);
        assert_eq!(
            (counts(&summary), summary["overflow_elements"].as_u64()),
            ([3, 0, 3], Some(2))
        );
        assert_warning(&pushed, Some("--unique"));
        let first = doc! { "_id": 1, "buyers": ["a", "b"], "has_extras": true };
        assert_eq!(all(db, "books").await, [first, second]);
        let mut extras: Vec<_> = all(db, "books_extras").await;
        extras.sort_by_key(|extra| extra.get_i32("parent_id").unwrap());
        let extras: Vec<_> = extras
            .iter()
            .map(|extra| extra.get_array("buyers_extra").unwrap().clone())
            .collect();
        assert_eq!(extras, [vec!["c".into()], vec!["c".into(), "d".into()]]);
        let ran = ran(on(db).args(BOOKS).arg("verify"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    })
    .await;
}

#[tokio::test]
async fn unique_elements_are_pushed_once() {
    testkit::run(async |db| {
        insert(db, "books", &[doc! { "_id": 1, "buyers": [] }]).await;
        let file = ("sales.csv", "book,user,n\n1,a,1\n1,b,2\n1,c,3\n1,a,1\n");
        let options = ["--elements-of", "book", "--unique"];
        let (ran, summary) = load(db, &BOOKS, file, &options);
        assert_eq!(counts(&summary), [3, 1, 0]);
        assert_warning(&ran, None);
        assert_eq!(counts(&load(db, &BOOKS, file, &options).1), [0, 4, 0]);
        let buyers = vec![doc! { "user": "a", "n": 1 }, doc! { "user": "b", "n": 2 }];
        let stored = doc! { "_id": 1, "buyers": buyers, "has_extras": true };
        assert_eq!(all(db, "books").await, [stored]);
    })
    .await;
}

#[tokio::test]
async fn rows_are_children_of_a_subset() {
    testkit::run(async |db| {
        insert(db, "product", &[doc! { "_id": 1 }, doc! { "_id": 2 }]).await;
        let pattern = [&["subset"][..], &REVIEWS].concat();
        let review = |n: u32| format!("{},{n},2023-10-26T15:47:{n:02}Z\n", 1 + n / 3);
        let rows: String = (0..4).map(review).collect();
        let text = format!("product_id,review_id,date\n{rows}");
        let (ran, summary) = load(db, &pattern, ("a.csv", &text), &[]);
        assert_eq!(counts(&summary), [4, 0, 0]);
        assert_warning(&ran, None);
        let ids = |product: &Document| -> Vec<i32> {
            let reviews = product.get_array("reviews").unwrap().iter();
            reviews
                .map(|review| review.as_document().unwrap().get_i32("review_id").unwrap())
                .collect()
        };
        let products = all(db, "product").await;
        assert_eq!((ids(&products[0]), ids(&products[1])), (vec![2, 1], vec![3]));
        let mut child = all(db, "review").await.remove(0);
        child.remove("_id");
        let date = DateTime::from_millis(1_698_335_220_000);
        assert_eq!(child, doc! { "product_id": 1, "review_id": 0, "date": date });
        // Some are stored, one is in the file twice.
        let more = format!("{text}{}{}", review(4), review(4));
        assert_eq!(counts(&load(db, &pattern, ("a.csv", &more), &[]).1), [1, 5, 0]);
        assert_eq!(all(db, "review").await.len(), 5);
        assert_eq!(ids(&all(db, "product").await[1]), [4, 3]);
    })
    .await;
}

#[tokio::test]
async fn rows_are_parents_or_embedded_children() {
    testkit::run(async |db| {
        let patrons = ("patrons.csv", "_id,name\njoe,Joe\nann,Ann\n");
        let (ran, summary) = load(db, &PATRONS, patrons, &[]);
        assert_eq!(counts(&summary), [2, 0, 0]);
        assert_warning(&ran, None);
        assert_eq!(counts(&load(db, &PATRONS, patrons, &[]).1), [0, 2, 0]);
        let addresses = (
            "addresses.csv",
            "patron,id,zip\njoe,home,01067\njoe,work,10115\nann,home,10115\n",
        );
        let options = ["--children-of", "patron", "--child-id", "id"];
        assert_eq!(counts(&load(db, &PATRONS, addresses, &options).1), [3, 0, 0]);
        let home = |zip: &str| doc! { "id": "home", "zip": zip };
        let joe = vec![home("01067"), doc! { "id": "work", "zip": "10115" }];
        let stored = [
            doc! { "_id": "ann", "name": "Ann", "addresses": [home("10115")] },
            doc! { "_id": "joe", "name": "Joe", "addresses": joe },
        ];
        assert_eq!(all(db, "patrons").await, stored);
        let (again, summary) = load(db, &PATRONS, addresses, &options);
        assert_eq!(counts(&summary), [0, 3, 0]);
        assert_warning(&again, None);
        assert_eq!(all(db, "patrons").await, stored);
    })
    .await;
}

#[tokio::test]
async fn a_target_without_its_documents_is_an_error() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "a.csv", "p,id\n1,2\n");
        for (pattern, options) in [
            (&BOOKS[..], &["--elements-of", "p"][..]),
            (&PATRONS, &["--children-of", "p", "--child-id", "id"]),
            (&[&["subset"][..], &REVIEWS].concat(), &[]),
        ] {
            let ran = ran(on(db).args(pattern).args(["load", &file]).args(options));
            assert!(ran.code == Some(2) && ran.err.contains("no collection"), "{ran:?}");
        }
        insert(db, "books", &[doc! { "_id": 9 }]).await;
        let ran = ran(on(db).args(BOOKS).args(["load", &file, "--elements-of", "p"]));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.err.contains("line 2:") && ran.err.contains("does not exist"),
            "{}",
            ran.err
        );
    })
    .await;
}

/// Without transactions, a prefix of a refused batch is stored.
#[tokio::test]
async fn children_are_loaded_on_a_standalone() {
    let mongod = Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let database = Client::with_uri_str(mongod.uri()).await.unwrap().database("shop");
    let parents = database.collection::<Document>("product");
    parents.insert_one(doc! { "_id": 1 }).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let header = "product_id,review_id,date\n";
    let row = |n: u32| format!("1,{n},2023-10-26T15:47:{n:02}Z\n");
    let load = |name: &str, rows: &[u32]| {
        let rows: String = rows.iter().map(|n| row(*n)).collect();
        let file = write(folder.path(), name, &format!("{header}{rows}"));
        let mut load = program();
        load.args(["--uri", mongod.uri(), "--db", "shop", "subset"])
            .args(REVIEWS);
        let ran = ran(load.args(["load", &file, "--json"]));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.summary()
    };
    assert_eq!(counts(&load("a.csv", &[3, 1])), [2, 0, 0]);
    assert_eq!(counts(&load("b.csv", &[0, 1, 2, 3, 4, 4])), [3, 3, 0]);
    let stored = database
        .collection::<Document>("review")
        .count_documents(doc! {})
        .await
        .unwrap();
    assert_eq!(stored, 5);
    let mut verify = program();
    verify
        .args(["--uri", mongod.uri(), "--db", "shop", "subset"])
        .args(REVIEWS);
    let verified = ran(verify.arg("verify"));
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
