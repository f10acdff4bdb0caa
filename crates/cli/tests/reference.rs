//! Tests of the reference commands.

use mongo_patterns_core::Repository;
use mongo_patterns_reference::ReferenceRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use serde_json::json;

use crate::support::*;

/// The settings of the tests' orders and customers, as options.
pub const ORDERS: [&str; 8] = [
    "--collection",
    "orders",
    "--source-collection",
    "customers",
    "--reference",
    "customer",
    "--copy",
    "name,mail=contact.email",
];

pub fn reference(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("reference").args(ORDERS).args(arguments))
}

fn orders(db: &TestDatabase) -> ReferenceRepository<Document, Document> {
    let [orders, customers] = ["orders", "customers"].map(|name| db.plain_collection::<Document>(name));
    let builder = ReferenceRepository::builder(orders, customers).reference_field("customer");
    let builder = builder.copied_fields(["name"]).copied_field("mail", "contact.email");
    builder.build().unwrap()
}

/// Stores the customers 1 to 3, and the orders 0 to 9, of which nine are of customer 1.
pub async fn filled(db: &TestDatabase) -> ReferenceRepository<Document, Document> {
    let orders = orders(db);
    orders.ensure_indexes().await.unwrap();
    let customer = |id: i32| doc! { "_id": id, "name": "Ann", "contact": { "email": "a@example.org" } };
    orders
        .sources_collection()
        .insert_many((1..4).map(customer))
        .await
        .unwrap();
    for id in 0..10 {
        let customer = if id == 9 { 2 } else { 1 };
        let order = doc! { "_id": id, "customer": { "_id": customer } };
        orders.insert(&order).await.unwrap();
    }
    orders
}

pub async fn update(db: &TestDatabase, collection: &str, filter: Document, update: Document) {
    let collection = db.plain_collection::<Document>(collection);
    collection.update_many(filter, update).await.unwrap();
}

fn problems(ran: &Ran) -> Vec<String> {
    let lines = ran.lines("finding").into_iter();
    lines.map(|line| line["problem"].as_str().unwrap().to_owned()).collect()
}

/// The outdated copies of one customer have a line with their number, and `--all` and `--json` list them.
#[tokio::test]
async fn findings_with_one_cause_are_one_line() {
    testkit::run(async |db| {
        filled(db).await;
        let order =
            |id: i32| doc! { "_id": id, "customer": { "_id": 1, "name": "Ann", "mail": "a@example.org", "v": 0_i64 } };
        let orders = db.plain_collection::<Document>("orders");
        orders.insert_many((10..204).map(order)).await.unwrap();
        let renamed = doc! { "$set": { "name": "Bob" }, "$inc": { "v": 2 } };
        update(db, "customers", doc! { "_id": 1 }, renamed).await;
        update(db, "orders", doc! { "_id": 9 }, doc! { "$set": { "customer._id": 77 } }).await;
        let grouped = reference(db, &["verify"]);
        let lines: Vec<&str> = grouped.out.lines().filter(|line| line.starts_with("orders")).collect();
        assert_eq!((grouped.code, lines.len()), (Some(1), 2), "{grouped:?}");
        for start in ["orders: 203 documents of 1, such as 0: `customer`: ", "orders 9: "] {
            assert!(lines.iter().any(|line| line.starts_with(start)), "{grouped:?}");
        }
        assert!(grouped.out.contains("findings  204"), "{grouped:?}");
        let all = reference(db, &["verify", "--all"]);
        assert_eq!(all.out.lines().filter(|line| line.starts_with("orders ")).count(), 204);
        assert_eq!(problems(&reference(db, &["verify", "--json"])).len(), 204);
    })
    .await;
}

#[tokio::test]
async fn problems_are_found_and_repaired() {
    testkit::run(async |db| {
        filled(db).await;
        assert_eq!(reference(db, &["verify"]).code, Some(0));
        update(
            db,
            "customers",
            doc! { "_id": 2 },
            doc! { "$set": { "name": "Bob", "v": 3 } },
        )
        .await;
        update(
            db,
            "orders",
            doc! { "_id": 0 },
            doc! { "$set": { "customer.name": "x" } },
        )
        .await;
        update(
            db,
            "orders",
            doc! { "_id": 1 },
            doc! { "$set": { "customer.v": 7_i64 } },
        )
        .await;
        update(db, "orders", doc! { "_id": 2 }, doc! { "$set": { "customer._id": 77 } }).await;
        update(db, "orders", doc! { "_id": 3 }, doc! { "$set": { "customer": 1 } }).await;
        update(db, "orders", doc! { "_id": 4 }, doc! { "$unset": { "customer.v": "" } }).await;
        let found = reference(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.summary()["findings"]),
            (Some(1), &6.into()),
            "{found:?}"
        );
        let expected = [
            "Differs",
            "NewerThanSource",
            "SourceMissing",
            "NotAReference",
            "VersionMissing",
            "Stale",
        ];
        assert_eq!(problems(&found), expected);
        let stale = &found.json()[5];
        assert_eq!(
            [
                &stale["collection"],
                &stale["_id"],
                &stale["fields"],
                &stale["related_id"],
                &stale["source_version"]
            ],
            [&json!("orders"), &json!(9), &json!(["customer"]), &json!(2), &json!(3)]
        );
        let text = reference(db, &["verify"]);
        for part in [
            "`customer`: the copy has the version 0",
            "`reference sweep`",
            "--on-missing",
            "`reference migrate`",
        ] {
            assert!(text.out.contains(part), "{part}: {}", text.out);
        }
        let before = all(db, "orders").await;
        let dry = reference(db, &["repair", "--dry-run", "--json"]);
        assert_eq!(
            (dry.code, &dry.summary()["to_repair"], &dry.summary()["unrepaired"]),
            (Some(1), &4.into(), &2.into()),
            "{dry:?}"
        );
        assert_eq!(all(db, "orders").await, before);
        let repaired = reference(db, &["repair", "--json"]);
        assert_eq!(
            (repaired.code, &repaired.summary()["unrepaired"]),
            (Some(1), &2.into()),
            "{repaired:?}"
        );
        assert_eq!(
            problems(&reference(db, &["verify", "--json"])),
            ["SourceMissing", "NotAReference"]
        );
        let order = all(db, "orders").await.remove(9);
        assert_eq!(order.get_document("customer").unwrap().get_str("name").unwrap(), "Bob");
    })
    .await;
}

#[tokio::test]
async fn references_without_a_source_are_kept_or_removed() {
    testkit::run(async |db| {
        filled(db).await;
        let missing = |id: i32| doc! { "_id": id, "customer": { "_id": 77, "name": "Eve", "v": 0 } };
        let collection = db.plain_collection::<Document>("orders");
        collection.insert_many((10..70).map(missing)).await.unwrap();
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let entries = all(db, "mongo_patterns").await;
        catalog.delete_many(doc! {}).await.unwrap();
        let before = all(db, "orders").await;
        refused(
            &reference(db, &["repair", "--on-missing", "clear"]),
            "has no entry in the catalog",
        );
        assert_eq!(all(db, "orders").await, before);

        catalog.insert_many(entries).await.unwrap();
        let kept = reference(db, &["repair", "--on-missing", "keep"]);
        assert!(kept.code == Some(0) && kept.out.contains(": repaired"), "{kept:?}");
        let order = all(db, "orders").await.remove(10);
        assert!(order.get_document("customer").unwrap().get_bool("deleted").unwrap());
        assert_eq!(reference(db, &["verify"]).code, Some(0));

        update(
            db,
            "orders",
            doc! { "_id": 10 },
            doc! { "$unset": { "customer.deleted": "" } },
        )
        .await;
        let dry = reference(db, &["repair", "--on-missing", "clear", "--dry-run"]);
        assert!(dry.code == Some(1) && dry.out.contains("would be repaired"), "{dry:?}");
        let cleared = reference(db, &["repair", "--on-missing", "clear"]);
        assert!(
            cleared.code == Some(0) && cleared.out.contains(": repaired"),
            "{cleared:?}"
        );
        let orders = all(db, "orders").await;
        assert!(!orders[10].contains_key("customer") && orders[11].contains_key("customer"));
    })
    .await;
}

#[tokio::test]
async fn outdated_copies_are_swept() {
    testkit::run(async |db| {
        filled(db).await;
        update(db, "customers", doc! {}, doc! { "$set": { "name": "Eve", "v": 1 } }).await;
        let one = reference(db, &["sweep", "--source", "2", "--json"]).summary();
        assert_eq!([&one["sources"], &one["copies"]], [&json!(1), &json!(1)]);
        let none = reference(db, &["sweep", "--source", "nosuch", "--json"]);
        assert_eq!((none.code, &none.summary()["copies"]), (Some(0), &0.into()));
        let swept = reference(db, &["sweep", "--json"]).summary();
        assert_eq!([&swept["sources"], &swept["copies"]], [&json!(1), &json!(9)]);
        assert_eq!(reference(db, &["verify"]).code, Some(0));

        // With other fields, the copies would get the new version and keep their old values.
        update(db, "customers", doc! {}, doc! { "$set": { "name": "Zoe", "v": 2 } }).await;
        let before = all(db, "orders").await;
        for source in [&[][..], &["--source", "1"]] {
            refused(
                &reference(db, &[&["sweep", "--copy", "mail=contact.email"], source].concat()),
                "`references`",
            );
        }
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        refused(&reference(db, &["sweep"]), "indexes --create");
        assert_eq!(all(db, "orders").await, before);
    })
    .await;
}
