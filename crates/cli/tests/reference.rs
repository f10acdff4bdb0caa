//! Tests of the reference commands.

use mongo_patterns_core::Repository;
use mongo_patterns_reference::ReferenceRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

/// The settings of the tests' orders and customers, as options.
pub const ORDERS: [&str; 8] =
    words("--collection orders --source-collection customers --reference customer --copy name,mail=contact.email");

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
    insert(db, "customers", (1..4).map(customer)).await;
    for id in 0..10 {
        let customer = if id == 9 { 2 } else { 1 };
        let order = doc! { "_id": id, "customer": { "_id": customer } };
        orders.insert(&order).await.unwrap();
    }
    orders
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
        insert(db, "orders", (10..204).map(order)).await;
        let renamed = doc! { "$set": { "name": "Bob" }, "$inc": { "v": 2 } };
        update(db, "customers", doc! { "_id": 1 }, renamed).await;
        update(db, "orders", doc! { "_id": 9 }, doc! { "$set": { "customer._id": 77 } }).await;
        let grouped = reference(db, &["verify"]);
        let lines: Vec<&str> = grouped.out.lines().filter(|line| line.starts_with("orders")).collect();
        assert_eq!((grouped.code, lines.len()), (Some(1), 2), "{grouped:?}");
        for start in [
            "orders: 203 documents of the source 1, such as 0: `customer`: ",
            "orders 9: ",
        ] {
            assert!(lines.iter().any(|line| line.starts_with(start)), "{grouped:?}");
        }
        grouped.shows(["findings  204"]);
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
        reference(db, &["verify"]).ok();
        let renamed = doc! { "$set": { "name": "Bob", "v": 3 } };
        update(db, "customers", doc! { "_id": 2 }, renamed).await;
        let changes = [
            doc! { "$set": { "customer.name": "x" } },
            doc! { "$set": { "customer.v": 7_i64 } },
            doc! { "$set": { "customer._id": 77 } },
            doc! { "$set": { "customer": 1 } },
            doc! { "$unset": { "customer.v": "" } },
        ];
        for (id, change) in (0..).zip(changes) {
            update(db, "orders", doc! { "_id": id }, change).await;
        }
        let found = reference(db, &["verify", "--json"]);
        found.ends(1, json!({ "findings": 6 }));
        let expected = "Differs NewerThanSource SourceMissing NotAReference VersionMissing Stale";
        assert_eq!(problems(&found).join(" "), expected);
        let stale = &found.json()[5];
        let named = ["collection", "_id", "fields", "related_id", "source_version"].map(|name| &stale[name]);
        assert_eq!(json!(named), json!(["orders", 9, ["customer"], 2, 3]));
        reference(db, &["verify"]).shows([
            "`customer`: the copy has the version 0",
            "`reference repair`",
            "--on-missing",
            "`reference migrate`",
        ]);
        let before = all(db, "orders").await;
        reference(db, &["repair", "--dry-run", "--json"]).ends(1, json!({ "to_repair": 4, "unrepaired": 2 }));
        assert_eq!(all(db, "orders").await, before);
        reference(db, &["repair", "--json"]).ends(1, json!({ "unrepaired": 2 }));
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
        insert(db, "orders", (10..14).map(missing)).await;
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let entries = all(db, "mongo_patterns").await;
        catalog.delete_many(doc! {}).await.unwrap();
        let before = all(db, "orders").await;
        let on_missing = |arguments: &[&str]| reference(db, &[&["repair", "--on-missing"], arguments].concat());
        on_missing(&["clear", "--yes"]).says(2, "has no entry in the catalog");
        assert_eq!(all(db, "orders").await, before);

        insert(db, "mongo_patterns", entries).await;
        on_missing(&["keep"]).ok().shows([": repaired"]);
        let order = all(db, "orders").await.remove(10);
        assert!(order.get_document("customer").unwrap().get_bool("deleted").unwrap());
        reference(db, &["verify"]).ok();

        let unset = doc! { "$unset": { "customer.deleted": "" } };
        update(db, "orders", doc! { "_id": 10 }, unset).await;
        let dry = on_missing(&["clear", "--dry-run"]);
        assert_eq!(dry.code, Some(1), "{dry:?}");
        dry.shows(["would be repaired"]);
        on_missing(&["clear"]).says(2, "--yes");
        assert!(all(db, "orders").await[10].contains_key("customer"));
        on_missing(&["clear", "--yes"]).ok().shows([": repaired"]);
        let orders = all(db, "orders").await;
        assert!(!orders[10].contains_key("customer") && orders[11].contains_key("customer"));
    })
    .await;
}
