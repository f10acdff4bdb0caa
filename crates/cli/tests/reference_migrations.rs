//! Tests of the migrations between ids of sources and references with copies.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::reference::{ORDERS, reference};
use crate::support::*;

const FROM: &str = "--from-field=customer=customerId";
const TO: &str = "--to-field=customer=customerId";

/// Stores the customers 1 to 3, and as many orders of them.
async fn bare(db: &TestDatabase, orders: i32) {
    let customer = |id: i32| doc! { "_id": id, "name": "Ann" };
    let customers = db.plain_collection::<Document>("customers");
    customers.insert_many((1..4).map(customer)).await.unwrap();
    let order = |id: i32| doc! { "_id": id, "customerId": id % 3 + 1 };
    let collection = db.plain_collection::<Document>("orders");
    collection.insert_many((0..orders).map(order)).await.unwrap();
}

#[tokio::test]
async fn ids_get_copies_and_lose_them_again() {
    testkit::run(async |db| {
        bare(db, 10).await;
        let before = all(db, "orders").await;
        let dry = reference(db, &["migrate", FROM, "--dry-run", "--json"]).summary();
        assert_eq!(dry["documents"], 10, "{dry}");
        assert!(dry["commands"].as_u64() > dry["commands_that_write"].as_u64(), "{dry}");
        assert_eq!(all(db, "orders").await, before);
        let migrated = reference(db, &["migrate", FROM, "--chunk", "4", "--json"]);
        let summary = migrated.summary();
        assert_eq!(
            (migrated.code, &summary["documents"], &summary["created_indexes"]),
            (Some(0), &10.into(), &1.into()),
            "{migrated:?}"
        );
        let order = all(db, "orders").await.remove(4);
        assert_eq!(
            order,
            doc! { "_id": 4, "customer": { "_id": 2, "name": "Ann", "v": 0_i64 } }
        );
        assert_eq!(reference(db, &["verify"]).code, Some(0));
        // The catalog has the settings.
        let short = ran(on(db).args(["reference", "--collection", "orders", "verify"]));
        assert_eq!(short.code, Some(0), "{short:?}");
        let again = reference(db, &["migrate", FROM, "--json"]).summary();
        assert_eq!(
            (&again["documents"], &again["resumed"]),
            (&0.into(), &false.into()),
            "{again}"
        );

        let planned = reference(db, &["migrate", "--back", TO, "--dry-run", "--json"]).summary();
        assert_eq!(planned["documents"], 10, "{planned}");
        let back = reference(db, &["migrate", "--back", TO, "--json"]);
        assert_eq!(
            (back.code, &back.summary()["documents"]),
            (Some(0), &10.into()),
            "{back:?}"
        );
        assert_eq!(all(db, "orders").await, before);
        let listed = ran(on(db).args(["migrations", "list"]));
        assert!(listed.out.contains("orders: reference migration"), "{listed:?}");
    })
    .await;
}

#[tokio::test]
async fn invalid_documents_are_refused_or_skipped() {
    testkit::run(async |db| {
        bare(db, 6).await;
        let orders = db.plain_collection::<Document>("orders");
        orders
            .insert_one(doc! { "_id": "secret-1", "customerId": 77 })
            .await
            .unwrap();
        let before = all(db, "orders").await;
        let stopped = reference(db, &["migrate", FROM, "--json"]);
        assert!(
            stopped.code == Some(1) && stopped.err.contains("--skip-invalid"),
            "{stopped:?}"
        );
        assert!(!stopped.err.contains("secret-1"), "{}", stopped.err);
        assert_eq!(stopped.json()[0]["_id"], "secret-1");
        assert_eq!(all(db, "orders").await, before);
        let skip = ["migrate", FROM, "--skip-invalid", "skipped", "--json"];
        let dry = reference(db, &[&skip[..], &["--dry-run"]].concat()).summary();
        assert_eq!(
            (&dry["skipped"], &dry["skipped_source_missing"]),
            (&1.into(), &1.into()),
            "{dry}"
        );
        assert!(all(db, "skipped").await.is_empty());
        let migrated = reference(db, &skip);
        let summary = migrated.summary();
        assert_eq!(
            (migrated.code, &summary["documents"], &summary["skipped_source_missing"]),
            (Some(0), &6.into(), &1.into()),
            "{migrated:?}"
        );
        let listed = all(db, "skipped").await;
        assert_eq!(listed.len(), 1);
        refused(&reference(db, &["migrate", FROM, "--where", "{a: 1}"]), "--where");
    })
    .await;
}

#[tokio::test]
async fn references_of_other_forms_are_converted() {
    testkit::run(async |db| {
        bare(db, 1).await;
        let orders = db.plain_collection::<Document>("orders");
        for (form, reference_of) in [
            ("dbref", doc! { "$ref": "customers", "$id": 2, "own": 1 }),
            ("id:userId", doc! { "userId": 2, "name": "old", "own": 1 }),
        ] {
            orders.delete_many(doc! {}).await.unwrap();
            orders
                .insert_one(doc! { "_id": 1, "customer": reference_of })
                .await
                .unwrap();
            let analyzed = reference(db, &["analyze", "--json"]).summary();
            assert_eq!(
                (&analyzed["references"], &analyzed["without_source"]),
                (&0.into(), &0.into()),
                "{analyzed}"
            );
            let verified = reference(db, &["verify"]);
            assert!(
                verified.code == Some(1) && verified.out.contains("`reference migrate` with --from-form"),
                "{verified:?}"
            );
            let refused = reference(db, &["migrate"]);
            assert!(
                refused.code == Some(1) && refused.err.contains("--from-form"),
                "{refused:?}"
            );
            let option = format!("--from-form=customer={form}");
            let migrated = reference(db, &["migrate", &option, "--json"]);
            assert_eq!(
                (migrated.code, &migrated.summary()["documents"]),
                (Some(0), &1.into()),
                "{migrated:?}"
            );
            let copy = doc! { "_id": 2, "name": "Ann", "v": 0_i64, "own": 1 };
            assert_eq!(all(db, "orders").await, [doc! { "_id": 1, "customer": copy }]);
            assert_eq!(reference(db, &["verify"]).code, Some(0));
        }
        for form in [
            "customer",
            "other=dbref",
            "customer=ref",
            "customer=id:",
            "customer=id:_id",
            "customer=id:$id",
        ] {
            refused(&reference(db, &["migrate", "--from-form", form]), "--from-form");
        }
    })
    .await;
}

#[tokio::test]
async fn only_documents_of_the_filter_are_migrated() {
    testkit::run(async |db| {
        bare(db, 6).await;
        let filter = r#"{"_id": {"$lt": 2}}"#;
        let migrated = reference(db, &["migrate", FROM, "--where", filter, "--rate", "1000", "--json"]);
        let summary = migrated.summary();
        assert_eq!(
            (&summary["documents"], &summary["where"]),
            (&2.into(), &filter.into()),
            "{migrated:?}"
        );
        let orders = all(db, "orders").await;
        assert!(orders[1].contains_key("customer") && orders[2].contains_key("customerId"));
    })
    .await;
}

#[tokio::test]
async fn what_nothing_else_stores_is_dropped_on_request() {
    testkit::run(async |db| {
        bare(db, 3).await;
        let snapshot = |arguments: &[&str]| reference(db, &[&["--snapshot"], arguments].concat());
        let migrated = snapshot(&["migrate", FROM]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let before = all(db, "orders").await;
        let kept = snapshot(&["migrate", "--back"]);
        assert!(
            kept.code == Some(1) && kept.err.contains("--drop-snapshots"),
            "{kept:?}"
        );
        db.plain_collection::<Document>("customers")
            .delete_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let kept = snapshot(&["migrate", "--back", "--drop-snapshots"]);
        assert!(kept.code == Some(1) && kept.err.contains("--drop-deleted"), "{kept:?}");
        assert_eq!(all(db, "orders").await, before);
        let dropped = snapshot(&["migrate", "--back", "--drop-snapshots", "--drop-deleted"]);
        assert_eq!(dropped.code, Some(0), "{dropped:?}");
        assert_eq!(all(db, "orders").await[0].get("customer"), Some(&Bson::Int32(1)));
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_stopped_migration_resumes() {
    testkit::run(async |db| {
        bare(db, 20).await;
        let mut program = on(db);
        program
            .arg("reference")
            .args(ORDERS)
            .args(["migrate", FROM, "--rate", "1"]);
        let mut child = until_it_shows(&mut program, "of 20 documents");
        assert_eq!(interrupt(&mut child), Some(130));
        let stopped = all(db, "orders").await;
        assert!(stopped[0].contains_key("customer") && stopped[19].contains_key("customerId"));
        let other = reference(db, &["migrate"]);
        assert!(
            other.code == Some(2) && other.err.contains("an unfinished migration"),
            "{other:?}"
        );
        let resumed = reference(db, &["migrate", FROM, "--json"]);
        assert_eq!(
            (resumed.code, &resumed.summary()["resumed"]),
            (Some(0), &true.into()),
            "{resumed:?}"
        );
        assert_eq!(reference(db, &["verify"]).code, Some(0));
    })
    .await;
}
