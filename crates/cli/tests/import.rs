//! The commands of the book's chapter on files, after `mongoimport`, which is not part of the tests: they insert what it
//! would.

use std::process::Command;

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc};

use crate::support::*;

const CHAPTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../book/src/cookbook/importing-files.md"
);

/// Runs the command of the chapter for a pattern, in the database of the test.
fn run(db: &TestDatabase, pattern: &str) -> Ran {
    let chapter = std::fs::read_to_string(CHAPTER).unwrap().replace("\\\n", " ");
    let start = format!("$ mongo-patterns --db shop {pattern} ");
    let mut commands = chapter.lines().filter_map(|line| line.strip_prefix(&start));
    let command = commands.next().unwrap_or_else(|| panic!("no command for {pattern}"));
    assert_eq!(commands.next(), None, "the chapter has one command for a pattern");
    let mut program: Command = on(db);
    ran(program.arg(pattern).args(command.split_whitespace()).arg("--json"))
}

fn decimal(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

fn at(text: &str) -> DateTime {
    DateTime::parse_rfc3339_str(text).unwrap()
}

/// `--columnsHaveTypes` gives the types, `--ignoreBlanks` omits empty cells, and each document gets an ObjectId.
#[tokio::test]
async fn csv_with_types_becomes_buckets() {
    testkit::run(async |db| {
        let [first, second] = ["2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z"].map(at);
        let rows = [
            doc! { "customer": 1, "date": first, "cds": 2, "amount": decimal("29.90"), "zip": "01067" },
            doc! { "customer": 1, "date": second, "cds": 1, "amount": decimal("14.95"), "zip": "01067" },
            doc! { "customer": 2, "date": first, "cds": 3, "zip": "10115" },
        ];
        insert(db, "purchases", rows).await;
        run(db, "bucket").ends(0, json!({ "keys": 2, "items": 3 }));
        let stored = all(db, "purchases_by_customer").await;
        assert_eq!(stored.len(), 2);
        assert_eq!(stored[0].get("customer"), Some(&Bson::Int32(1)));
        let history = stored[0].get_array("history").unwrap();
        let item = doc! { "date": first, "cds": 2, "amount": decimal("29.90"), "zip": "01067" };
        assert_eq!((history.len(), &history[0]), (2, &item.into()));
    })
    .await;
}

/// Without types, the numbers of a CSV file are guessed and its dates are strings.
#[tokio::test]
async fn dates_that_are_strings_are_converted_first() {
    testkit::run(async |db| {
        let rows = [
            doc! { "customer": 1, "date": "2026-01-05", "cds": 2, "amount": 29.9, "zip": 1067 },
            doc! { "customer": 2, "date": "2026-01-05", "cds": 3, "amount": "", "zip": 10115 },
        ];
        insert(db, "purchases", rows).await;
        run(db, "bucket").says(1, "--skip-invalid COLLECTION");
        assert!(all(db, "purchases_by_customer").await.is_empty());

        let chapter = std::fs::read_to_string(CHAPTER).unwrap();
        let update =
            r#"db.purchases.updateMany({ date: { $type: "string" } }, [{ $set: { date: { $toDate: "$date" } } }])"#;
        assert!(chapter.contains(update));
        let purchases = db.plain_collection::<Document>("purchases");
        let pipeline = vec![doc! { "$set": { "date": { "$toDate": "$date" } } }];
        let strings = doc! { "date": { "$type": "string" } };
        purchases.update_many(strings, pipeline).await.unwrap();
        run(db, "bucket").ends(0, json!({ "items": 2 }));
    })
    .await;
}

#[tokio::test]
async fn json_lines_become_references_with_copies() {
    testkit::run(async |db| {
        let [ann, bob] = ["665f1f77bcf86cd799439011", "665f1f77bcf86cd799439012"];
        let id = |text: &str| ObjectId::parse_str(text).unwrap();
        let customers = [(ann, "Ann"), (bob, "Bob")].map(|(of, name)| doc! { "_id": id(of), "name": name });
        insert(db, "customers", customers).await;
        let orders = [
            doc! { "_id": 1, "customerId": id(ann), "total": decimal("29.90") },
            doc! { "_id": 2, "customerId": id(bob), "total": decimal("14.95") },
        ];
        insert(db, "orders", orders).await;
        run(db, "reference").ok();
        let order = all(db, "orders").await.remove(0);
        let customer = order.get_document("customer").unwrap();
        assert_eq!(customer.get_object_id("_id").unwrap(), id(ann));
        assert_eq!(customer.get_str("name").unwrap(), "Ann");
        assert_eq!(order.get("total"), Some(&Bson::Decimal128(decimal("29.90"))));
        assert!(!order.contains_key("customerId"), "{order}");
    })
    .await;
}

#[tokio::test]
async fn a_json_array_becomes_the_children_of_a_subset() {
    testkit::run(async |db| {
        insert(db, "products", [doc! { "_id": 5, "name": "Mug" }]).await;
        let reviews = [
            doc! { "review_id": 1, "product": 5, "stars": 4, "date": at("2026-01-05T10:00:00Z") },
            doc! { "review_id": 2, "product": 5, "stars": 5, "date": at("2026-01-06T09:30:00Z") },
        ];
        insert(db, "reviews", reviews).await;
        run(db, "subset").ok();
        let product = all(db, "products").await.remove(0);
        let newest = product.get_array("reviews").unwrap();
        assert_eq!(newest.len(), 2);
        assert_eq!(newest[0].as_document().unwrap().get_i32("review_id").unwrap(), 2);
    })
    .await;
}
