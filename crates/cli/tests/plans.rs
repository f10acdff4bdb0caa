//! Tests of the plans: their label, and the commands that write.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::reference::ORDERS;
use crate::support::*;

const LABEL: &str = "// To read, not to run:";
const LISTS: [&str; 7] = words("outlier --collection sales --array customers --threshold 5");

fn run(db: &TestDatabase, settings: &[&str], arguments: &[&str]) -> Ran {
    ran(on(db).args(settings).args(arguments))
}

/// Returns the planned commands that write, as name and collection.
fn planned(db: &TestDatabase, settings: &[&str], arguments: &[&str]) -> BTreeSet<(String, String)> {
    let shown = run(db, settings, arguments).ok();
    assert!(shown.out.starts_with(LABEL), "{}", shown.out);
    let lines = run(db, settings, &[arguments, &["--json"]].concat()).json();
    let writes = lines
        .iter()
        .filter(|line| line["writes"] == true && line["on_admin"] == false);
    let named = writes.map(|line| {
        let (name, collection) = line["command"].as_object().unwrap().iter().next().unwrap();
        (name.clone(), collection.as_str().unwrap().to_owned())
    });
    named.collect()
}

fn named(writes: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    writes
        .iter()
        .map(|(name, on)| ((*name).to_owned(), (*on).to_owned()))
        .collect()
}

#[tokio::test]
async fn each_plan_has_the_label_and_lists_the_store_of_the_settings() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        for (collection, document) in [
            ("product", doc! { "_id": 1, "reviews": [{ "review_id": 1, "date": 1 }] }),
            ("patron", doc! { "_id": 1 }),
            ("address", doc! { "_id": 1, "patron_id": 1 }),
            ("customers", doc! { "_id": 1, "name": "Ann" }),
            ("orders", doc! { "_id": 1, "customerId": 1 }),
        ] {
            insert(db, collection, [document]).await;
        }
        index(db, "address", doc! { "patron_id": 1 }).await;
        let buckets = [&["bucket"], &BUCKETS[..]].concat();
        let reviews = [&["subset"], &REVIEWS[..]].concat();
        let catalog = "mongo_patterns";
        let there = [("createIndexes", "trades"), ("update", catalog), ("aggregate", "flat")];
        assert_eq!(planned(db, &buckets, &["plan"]), named(&there));
        let embedded = [
            ("createIndexes", "review"),
            ("update", catalog),
            ("update", "product"),
            ("aggregate", "product"),
        ];
        assert_eq!(planned(db, &reviews, &["plan", "--from", "embedded"]), named(&embedded));
        let references = [("update", catalog), ("aggregate", "patron")];
        assert_eq!(planned(db, &PATRONS, &["plan"]), named(&references));
        let orders = [&["reference"], &ORDERS[..]].concat();
        let from = ["plan", "--from-field", "customer=customerId"];
        let copies = [
            ("createIndexes", "orders"),
            ("update", catalog),
            ("aggregate", "orders"),
        ];
        assert_eq!(planned(db, &orders, &from), named(&copies));
        assert!(all(db, catalog).await.is_empty());

        bucket(db, &["migrate"]).ok();
        let review = doc! { "_id": 1, "product_id": 1, "review_id": 1, "date": 1 };
        insert(db, "review", [review]).await;
        db.plain_collection::<Document>("flat").drop().await.unwrap();
        let back = [("update", catalog), ("aggregate", "trades")];
        assert_eq!(planned(db, &buckets, &["plan", "--back"]), named(&back));
        let collection = [
            ("createIndexes", "review"),
            ("update", catalog),
            ("aggregate", "product"),
        ];
        assert_eq!(
            planned(db, &reviews, &["plan", "--from", "collection"]),
            named(&collection)
        );
        run(db, &reviews, &["--size", "5", "indexes", "--create"]).ok();
        let settings = ["plan", "--from", "settings"];
        let layout = [("update", catalog), ("aggregate", "product")];
        assert_eq!(planned(db, &reviews, &settings), named(&layout));
    })
    .await;
}

/// The server's profile shows what the migration sends.
#[tokio::test]
async fn an_outlier_plan_lists_what_the_migration_writes() {
    testkit::run(async |db| {
        let book = |id: i32, customers: i32| doc! { "_id": id, "customers": (0..customers).collect::<Vec<_>>() };
        insert(db, "sales", [book(1, 3), book(2, 40)]).await;
        let analyzed = run(db, &LISTS, &["analyze"]);
        analyzed.shows(["outlier at 5 ", "configured: outlier at 5, which makes 1 outlier"]);
        for threshold in ["5", "7"] {
            let migrate = ["--threshold", threshold];
            let planned = planned(db, &LISTS, &[&["plan"], &migrate[..]].concat());
            let store = ("update".to_owned(), "mongo_patterns".to_owned());
            assert!(planned.contains(&store), "{planned:?}");
            let database = db.plain_client().database(db.database().name());
            database.run_command(doc! { "profile": 2 }).await.unwrap();
            let migrated = run(db, &LISTS, &[&["migrate"], &migrate[..]].concat());
            database.run_command(doc! { "profile": 0 }).await.unwrap();
            migrated.ok();
            let profile = database.collection::<Document>("system.profile");
            let mut written = BTreeSet::new();
            let mut operations = profile.find(doc! { "appName": "mongo-patterns" }).await.unwrap();
            while let Some(operation) = operations.try_next().await.unwrap() {
                let command = operation.get_document("command").unwrap();
                let name = match operation.get_str("op").unwrap() {
                    name @ ("insert" | "update") => name,
                    "remove" => "delete",
                    _ if command.contains_key("createIndexes") => "createIndexes",
                    _ => continue,
                };
                let (_, collection) = operation.get_str("ns").unwrap().split_once('.').unwrap();
                written.insert((name.to_owned(), collection.to_owned()));
            }
            profile.drop().await.unwrap();
            let is_planned = !written.is_empty() && written.is_subset(&planned);
            assert!(is_planned, "{written:?} {planned:?}");
        }
        let plan = run(db, &LISTS, &["plan", "--threshold", "7"]);
        assert!(plan.out.starts_with(LABEL), "{}", plan.out);
        // The threshold is that of the catalog.
        let lists = ["outlier", "--collection", "sales", "--array", "customers"];
        let analyzed = run(db, &lists, &["analyze", "--json"]);
        let configured = analyzed.json().into_iter().find(|line| line["configured"] == true);
        assert_eq!(configured.unwrap()["name"], "outlier at 7");
    })
    .await;
}
