//! Tests of the migrations between ids of sources and references with copies.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::reference::{ORDERS, reference};
use crate::support::*;

const FROM: &str = "--from-field=customer=customerId";

/// Stores the customers 1 to 3, and as many orders of them.
async fn bare(db: &TestDatabase, orders: i32) {
    let customer = |id: i32| doc! { "_id": id, "name": "Ann" };
    insert(db, "customers", (1..4).map(customer)).await;
    let order = |id: i32| doc! { "_id": id, "customerId": id % 3 + 1 };
    insert(db, "orders", (0..orders).map(order)).await;
}

#[tokio::test]
async fn ids_get_copies() {
    testkit::run(async |db| {
        bare(db, 10).await;
        let before = all(db, "orders").await;
        let dry = reference(db, &["migrate", FROM, "--dry-run", "--json"]).summary();
        assert_eq!(dry["documents"], 10, "{dry}");
        assert!(dry["commands"].as_u64() > dry["commands_that_write"].as_u64(), "{dry}");
        assert_eq!(all(db, "orders").await, before);
        let migrated = reference(db, &["migrate", FROM, "--chunk", "4", "--json"]);
        migrated.ends(0, json!({ "documents": 10, "created_indexes": 1 }));
        let copy = doc! { "_id": 2, "name": "Ann", "v": 0_i64 };
        assert_eq!(all(db, "orders").await[4], doc! { "_id": 4, "customer": copy });
        reference(db, &["verify"]).ok();
        // The catalog has the settings.
        ran(on(db).args(["reference", "--collection", "orders", "verify"])).ok();
        let again = reference(db, &["migrate", FROM, "--json"]).summary();
        assert_eq!(
            json!([again["documents"], again["resumed"]]),
            json!([0, false]),
            "{again}"
        );

        let migrations = ran(on(db).args(["status", "--json"])).lines("migration");
        assert_eq!(migrations[0]["settings"]["pattern"], "reference");
    })
    .await;
}

#[tokio::test]
async fn invalid_documents_are_refused_or_skipped() {
    testkit::run(async |db| {
        bare(db, 6).await;
        insert(db, "orders", [doc! { "_id": "secret-1", "customerId": 77 }]).await;
        let before = all(db, "orders").await;
        let stopped = reference(db, &["migrate", FROM, "--json"]);
        stopped.says(1, "--skip-invalid");
        assert!(!stopped.err.contains("secret-1"), "{}", stopped.err);
        assert_eq!(stopped.json()[0]["_id"], "secret-1");
        assert_eq!(all(db, "orders").await, before);
        let skip = ["migrate", FROM, "--skip-invalid", "skipped", "--json"];
        let dry = reference(db, &[&skip[..], &["--dry-run"]].concat()).summary();
        assert_eq!([&dry["skipped"], &dry["skipped_source_missing"]], [1, 1], "{dry}");
        assert!(all(db, "skipped").await.is_empty());
        reference(db, &skip).ends(0, json!({ "documents": 6, "skipped_source_missing": 1 }));
        assert_eq!(all(db, "skipped").await.len(), 1);
        refused(&reference(db, &["migrate", FROM, "--where", "{a: 1}"]), "--where");
    })
    .await;
}

#[tokio::test]
async fn references_of_other_forms_are_named() {
    testkit::run(async |db| {
        bare(db, 1).await;
        let orders = db.plain_collection::<Document>("orders");
        for (form, reference_of) in [
            ("DBRef", doc! { "$ref": "customers", "$id": 2 }),
            ("without an `_id`", doc! { "userId": 2, "name": "old" }),
        ] {
            orders.delete_many(doc! {}).await.unwrap();
            insert(db, "orders", [doc! { "_id": 1, "customer": reference_of }]).await;
            let analyzed = reference(db, &["analyze", "--json"]).summary();
            let counts = [&analyzed["references"], &analyzed["without_source"]];
            assert_eq!(counts, [0, 0], "{analyzed}");
            let verified = reference(db, &["verify"]);
            assert_eq!(verified.code, Some(1), "{verified:?}");
            verified.shows([form, "`reference migrate`"]);
            reference(db, &["migrate"]).says(1, form);
        }
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_stopped_migration_resumes() {
    testkit::run(async |db| {
        bare(db, 20).await;
        let mut program = on(db);
        program.arg("reference").args(ORDERS);
        program.args(["migrate", FROM, "--rate", "1"]);
        let mut child = until_it_shows(&mut program, "of 20 documents");
        assert_eq!(interrupt(&mut child), Some(130));
        let stopped = all(db, "orders").await;
        assert!(stopped[0].contains_key("customer") && stopped[19].contains_key("customerId"));
        reference(db, &["migrate"]).says(2, "an unfinished migration");
        reference(db, &["migrate", FROM, "--json"]).ends(0, json!({ "resumed": true }));
        reference(db, &["verify"]).ok();
    })
    .await;
}
