//! Tests of the outlier and embedded commands.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::support::*;

fn outlier(db: &TestDatabase, arguments: &[&str]) -> Ran {
    let names = ["outlier", "--collection", "sales", "--array", "customers"];
    let bounds = ["--threshold", "5", "--cap", "10"];
    ran(on(db).args(names).args(bounds).args(arguments))
}

#[tokio::test]
async fn long_arrays_are_migrated_to_overflow_documents() {
    testkit::run(async |db| {
        let book = |id: i32, customers: i32| doc! { "_id": id, "customers": (0..customers).collect::<Vec<_>>() };
        insert(db, "sales", (0..9).map(|id| book(id, 3)).chain([book(9, 40)])).await;
        assert_eq!(outlier(db, &["verify"]).code, Some(1));
        let dry = outlier(db, &["migrate", "--dry-run", "--json"]).summary();
        assert_eq!([&dry["documents"], &dry["overflow_documents"]], [1, 4], "{dry}");
        outlier(db, &["plan"]).ok().shows([
            "// writes: write the main document",
            "// writes: write documents",
            "db.getSiblingDB(\"admin\").runCommand({ commitTransaction: 1",
            "// writes: create indexes",
        ]);
        assert!(all(db, "sales_extras").await.is_empty());
        let planned = outlier(db, &["plan", "--json"]).json();
        let extras = planned.iter().find(|line| line["purpose"] == "write documents");
        let documents = extras.unwrap()["command"]["documents"].as_array();
        assert_eq!(documents.unwrap().len(), 4);

        outlier(db, &["migrate", "--json"]).ends(0, json!({ "documents": 1 }));
        let extras = all(db, "sales_extras").await;
        let counts: Vec<i32> = extras.iter().map(|extras| extras.get_i32("count").unwrap()).collect();
        assert_eq!(counts, [10, 10, 10, 5]);
        outlier(db, &["verify"]).ok();
        outlier(db, &["indexes"]).ok();

        update(db, "sales", doc! { "_id": 9 }, doc! { "$unset": { "has_extras": 1 } }).await;
        outlier(db, &["verify", "--json"]).begins(1, json!({ "problem": "OverflowWithoutFlag" }));
        assert_eq!(outlier(db, &["repair", "--dry-run"]).code, Some(1));
        outlier(db, &["repair"]).ok();
        outlier(db, &["verify"]).ok();
    })
    .await;
}

fn embedded(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).args(PATRONS).args(arguments))
}

#[tokio::test]
async fn references_are_migrated_to_embedded_children() {
    testkit::run(async |db| {
        insert(db, "patron", [doc! { "_id": "joe" }, doc! { "_id": "ann" }]).await;
        let refers = |id: i32, patron: &str| doc! { "_id": id, "patron_id": patron, "zip": "12345" };
        let addresses = [refers(1, "joe"), refers(2, "joe"), refers(3, "unknown")];
        insert(db, "address", addresses).await;
        embedded(db, &["migrate"]).says(1, "patron_id: 1");
        index(db, "address", doc! { "patron_id": 1 }).await;

        embedded(db, &["plan"]).ok().shows(["// writes: embed the children"]);
        let dry = embedded(db, &["migrate", "--dry-run", "--json"]).summary();
        assert_eq!([&dry["children"], &dry["orphans"]], [2, 1], "{dry}");
        assert!(!all(db, "patron").await[0].contains_key("addresses"));

        let migrated = embedded(db, &["migrate", "--json"]);
        migrated.ends(1, json!({ "children": 2 }));
        migrated.says(1, "2 of 2 parents");
        let joe = all(db, "patron").await.remove(1);
        let addresses = [1, 2].map(|id| Bson::Document(doc! { "_id": id, "zip": "12345" }));
        assert_eq!(joe.get_array("addresses").unwrap(), &addresses);
        let found = embedded(db, &["verify", "--json"]);
        found.begins(1, json!({ "problem": "Orphan" }));
        found.says(1, "2 of 2 parents");
        found.says(1, "3 of 3 references");
        let address = db.plain_collection::<Document>("address");
        address.delete_one(doc! { "_id": 3 }).await.unwrap();
        embedded(db, &["verify"]).ok();
    })
    .await;
}
