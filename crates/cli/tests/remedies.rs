//! Each advice of a finding or an error is followed literally, and the finding is gone.

use mongo_patterns_core::Repository;
use mongo_patterns_core::lease::Lease;
use mongo_patterns_history::HistoryRepository;
use mongo_patterns_schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::IndexOptions;

use crate::reference::ORDERS;
use crate::support::*;

const POLICIES: [&str; 6] = words("--collection policies --revisions-collection revisions --id policyId");
const SALES: [&str; 6] = words("--collection sales --archive archived_sales --age date");

/// Runs a command of a pattern. Its settings come first, or last if they are a collection alone.
fn run(db: &TestDatabase, settings: &[&str], command: &[&str]) -> Ran {
    let arguments = match settings {
        [collection] => [command, &[collection]].concat(),
        _ => [&command[..1], settings, &command[1..]].concat(),
    };
    ran(on(db).args(arguments))
}

/// Returns the command that a text names first.
fn named(text: &str) -> Vec<&str> {
    let command = text.split('`').skip(1).step_by(2).find(|quoted| quoted.contains(' '));
    let command = command.unwrap_or_else(|| panic!("{text}"));
    command.trim_start_matches("mongo-patterns ").split(' ').collect()
}

/// Runs the command that the text of the only finding names, and checks that the finding is gone.
#[track_caller]
fn follow(db: &TestDatabase, settings: &[&str], pattern: &'static str, problem: &str) {
    let verify = || run(db, settings, &[pattern, "verify", "--json"]);
    let found = verify();
    assert_eq!(found.code, Some(1), "{found:?}");
    for finding in found.lines("finding") {
        assert_eq!(finding["problem"], problem, "{found:?}");
        let text = finding["text"].as_str().unwrap();
        run(db, settings, &named(text)).ok();
    }
    verify().ends(0, json!({ "findings": 0 }));
}

/// Stores sound documents of all patterns, with their indexes.
async fn shops(db: &TestDatabase) {
    let time = DateTime::from_millis(SECOND * 1000);
    fill(db, 3, 30).await;
    bucket(db, &["migrate"]).ok();
    insert(db, "books", [doc! { "_id": 1, "customers": [1, 2] }]).await;
    insert(db, "product", [doc! { "_id": 1 }]).await;
    insert(db, "review", [doc! { "product_id": 1, "review_id": 1, "date": 1 }]).await;
    insert(db, "customers", [doc! { "_id": 1, "name": "Ann" }]).await;
    insert(
        db,
        "orders",
        [doc! { "_id": 1, "customer": { "_id": 1, "name": "Ann", "v": 0 } }],
    )
    .await;
    insert(db, "sales", [doc! { "_id": 1, "date": time }]).await;
    insert(db, "users", [doc! { "_id": 1 }]).await;
    insert(db, "contacts", [doc! { "_id": 1, "schemaVersion": 1 }]).await;
    insert(db, "policies", [doc! { "policyId": 1 }]).await;
    run(db, &POLICIES, &["history", "migrate"]).ok();
    run(db, &REVIEWS, &["subset", "migrate", "--from", "collection"]).ok();
    for (pattern, settings) in all_patterns() {
        run(db, &settings, &[pattern, "indexes", "--create"]).ok();
        run(db, &settings, &[pattern, "verify"]).ok();
    }
}

fn all_patterns() -> Vec<(&'static str, Vec<&'static str>)> {
    let of = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    vec![
        ("bucket", BUCKETS.to_vec()),
        ("outlier", of("--collection books --array customers")),
        ("subset", REVIEWS.to_vec()),
        ("history", POLICIES.to_vec()),
        ("reference", ORDERS.to_vec()),
        ("archive", SALES.to_vec()),
        ("trash", of("--collection users --trash deleted_users")),
        ("schema", vec!["contacts"]),
    ]
}

#[tokio::test]
async fn a_missing_index_is_a_finding_in_all_patterns() {
    testkit::run(async |db| {
        shops(db).await;
        for name in db.database().list_collection_names().await.unwrap() {
            if name != "mongo_patterns" {
                db.plain_collection::<Document>(&name).drop_indexes().await.unwrap();
            }
        }
        for (pattern, settings) in all_patterns() {
            follow(db, &settings, pattern, "IndexMissing");
        }
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_migration_is_a_finding() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        bucket(db, &["verify"]).ok();
        let records = db.plain_collection::<Document>("mongo_patterns");
        let of = doc! { "_id": { "kind": "migration", "collection": "trades" } };
        let stopped =
            |active: i64| doc! { "$unset": { "finished": 1 }, "$set": { "active": DateTime::from_millis(active) } };
        let later = DateTime::now().timestamp_millis() + 3_600_000;
        records.update_one(of.clone(), stopped(later)).await.unwrap();
        let running = bucket(db, &["verify"]);
        assert_eq!(running.code, Some(1), "{running:?}");
        running.shows(["the migration from flat is running, after 30 items"]);
        records.update_one(of, stopped(0)).await.unwrap();
        // It comes before the findings in documents, which it can explain.
        update(
            db,
            "trades",
            doc! { "_id": "2_1698335225" },
            doc! { "$inc": { "count": 1 } },
        )
        .await;
        let both = bucket(db, &["verify", "--json"]);
        both.begins(1, json!({ "problem": "MigrationUnfinished" }));
        both.ends(1, json!({ "findings": 2 }));
        update(
            db,
            "trades",
            doc! { "_id": "2_1698335225" },
            doc! { "$inc": { "count": -1 } },
        )
        .await;
        bucket(db, &["verify"]).shows(["the migration from flat is unfinished, after 30 items"]);
        follow(db, &BUCKETS, "bucket", "MigrationUnfinished");
    })
    .await;
}

/// The count of one bucket of a key is repaired. The time of an item in another one is not, and that bucket is named.
#[tokio::test]
async fn the_document_that_is_not_repaired_is_named() {
    testkit::run(async |db| {
        bucket(db, &["indexes", "--create"]).ok();
        let of = |second: i64, count: i32, time: mongodb::bson::Bson| doc! {
            "_id": format!("1_{second}"), "customerId": 1, "count": count, "history": vec![doc! { "date": time }; 10],
        };
        let time = DateTime::from_millis(SECOND * 1000);
        let wrong = format!("1_{}", SECOND + 1);
        insert(db, "trades", [of(SECOND, 7, time.into()), of(SECOND + 1, 10, "x".into())]).await;
        bucket(db, &["verify", "--json"]).ends(1, json!({ "findings": 2 }));
        bucket(db, &["repair", "--dry-run", "--json"]).ends(1, json!({ "to_repair": 0, "unrepaired": 2 }));
        let repaired = bucket(db, &["repair", "--json"]);
        assert_eq!(repaired.lines("repaired")[0]["_id"], wrong.as_str(), "{repaired:?}");
        let left = bucket(db, &["verify", "--json"]);
        left.ends(1, json!({ "findings": 1 }));
        left.begins(1, json!({ "_id": wrong, "problem": "ItemTimeMissing" }));
    })
    .await;
}

#[tokio::test]
async fn the_revisions_before_a_gap_are_pruned() {
    testkit::run(async |db| {
        let [current, revisions] = ["policies", "revisions"].map(|name| db.plain_collection::<Document>(name));
        let policies = HistoryRepository::<Document>::builder(current, revisions.clone()).id_field("policyId");
        let policies = policies.build().unwrap();
        policies.ensure_indexes().await.unwrap();
        policies.insert(&doc! { "policyId": 1, "n": 0 }).await.unwrap();
        for n in 1..5 {
            policies.update(1, doc! { "$set": { "n": n } }).await.unwrap();
        }
        revisions
            .delete_one(doc! { "policyId": 1, "revision": 2 })
            .await
            .unwrap();
        let history = |arguments: &[&str]| run(db, &POLICIES, &[&["history"], arguments].concat());
        assert_eq!(history(&["verify"]).code, Some(1));
        let left = history(&["repair", "--json"]);
        left.ends(1, json!({ "unrepaired": 1 }));
        let text = left.lines("repaired")[0]["text"].as_str().unwrap().to_owned();
        assert_eq!(named(&text), ["history", "prune", "ID", "--keep-last", "N"]);

        let prune = ["prune", "1", "--keep-last", "3"];
        history(&[&prune[..], &["--dry-run", "--json"]].concat()).ends(0, json!({ "to_delete": 1, "first_left": 3 }));
        history(&prune).says(2, "1 revision of the document, those before 3, is deleted for good");
        assert_eq!(revisions.count_documents(doc! {}).await.unwrap(), 4);
        history(&[&prune[..], &["--yes", "--json"]].concat()).ends(0, json!({ "deleted": 1 }));
        history(&["verify"]).ok();
        history(&[&prune[..], &["--json"]].concat()).ends(0, json!({ "deleted": 0 }));

        let time = policies
            .at(1, 4)
            .await
            .unwrap()
            .unwrap()
            .time
            .try_to_rfc3339_string()
            .unwrap();
        history(&["prune", "1", "--before", &time, "--yes", "--json"])
            .ends(0, json!({ "deleted": 1, "first_left": 4 }));
        assert_eq!(policies.at(1, 3).await.unwrap(), None);
        let before_all = ["prune", "1", "--before", "2001-01-01T00:00:00Z", "--json"];
        history(&before_all).ends(0, json!({ "deleted": 0, "first_left": 4 }));
        for none in ["77", "\"1\"", "01", "one", "{\"$gt\":0}"] {
            let none = history(&["prune", none, "--keep-last", "1"]);
            assert!(
                none.code == Some(1) && none.err.contains("no document with this id"),
                "{none:?}"
            );
        }
        history(&["prune", "1", "--before", "yesterday"]).says(2, "--before");
        for wrong in [&["prune", "1"][..], &["prune", "1", "--keep-last", "0"]] {
            assert_eq!(history(wrong).code, Some(2), "{wrong:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn one_of_two_documents_of_an_archive_is_deleted() {
    testkit::run(async |db| {
        let archive = |arguments: &[&str]| run(db, &SALES, &[&["archive"], arguments].concat());
        let sale = |id: i32, millis: i64, place: &str| doc! { "_id": id, "date": DateTime::from_millis(millis), "place": place };
        insert(db, "sales", [sale(1, 9, "s"), sale(2, 1, "s"), sale(3, 5, "s"), sale(4, 5, "s"), sale(5, 5, "s")]).await;
        archive(&["indexes", "--create"]).ok();
        insert(db, "archived_sales", [sale(1, 1, "a"), sale(2, 9, "a"), sale(3, 5, "a"), sale(4, 5, "s")]).await;
        let verify = archive(&["verify"]);
        assert_eq!(verify.code, Some(1), "{verify:?}");
        verify.shows(["`archive repair` deletes the older one"]);
        archive(&["verify", "--json"]).ends(1, json!({ "findings": 4 }));

        let before = [all(db, "sales").await, all(db, "archived_sales").await];
        archive(&["repair", "--dry-run", "--json"]).ends(1, json!({ "to_repair": 3, "unrepaired": 1 }));
        let dry = archive(&["repair", "--dry-run"]);
        for (id, place, millis) in [(1, "archive", 1), (2, "collection", 1), (4, "archive", 5)] {
            let text = format!("sales {id}: would delete the one in the {place}, of 1970-01-01T00:00:00.00{millis}Z");
            dry.shows([&text]);
        }
        archive(&["repair", "--dry-run", "--keep-in", "archive"]).shows(["sales 1: would delete the one in the collection"]);
        archive(&["repair"]).says(2, "--yes");
        assert_eq!([all(db, "sales").await, all(db, "archived_sales").await], before);
        let repaired = archive(&["repair", "--yes", "--json"]);
        repaired.ends(1, json!({ "repaired": 3, "unrepaired": 1 }));
        assert_eq!(all(db, "sales").await, [sale(1, 9, "s"), sale(3, 5, "s"), sale(4, 5, "s"), sale(5, 5, "s")]);
        assert_eq!(all(db, "archived_sales").await, [sale(2, 9, "a"), sale(3, 5, "a")]);
        let left = repaired.lines("repaired").into_iter().find(|line| !line["unrepaired"].is_null());
        let left = left.unwrap()["text"].as_str().unwrap().to_owned();
        run(db, &SALES, &[&named(&left)[..], &["--yes"]].concat()).ok();
        archive(&["verify"]).ok();
        assert_eq!(all(db, "archived_sales").await, [sale(2, 9, "a"), sale(3, 5, "a")]);
        insert(db, "sales", [sale(2, 9, "s")]).await;
        archive(&["repair", "--keep-in", "collection", "--yes"]).ok();
        assert_eq!(all(db, "archived_sales").await, [sale(3, 5, "a")]);
    })
    .await;
}

#[tokio::test]
async fn a_document_that_a_unique_index_of_the_archive_refuses_is_named() {
    testkit::run(async |db| {
        let archive = |arguments: &[&str]| run(db, &SALES, &[&["archive"], arguments].concat());
        let sale = |id: i32, slug: &str| doc! { "_id": id, "date": DateTime::from_millis(id.into()), "slug": slug };
        insert(db, "sales", [sale(1, "a"), sale(2, "b"), sale(3, "c")]).await;
        archive(&["indexes", "--create"]).ok();
        let archived = db.plain_collection::<Document>("archived_sales");
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "slug": 1 }).options(unique).build();
        archived.create_index(index).await.unwrap();
        insert(db, "archived_sales", [sale(9, "b")]).await;
        let moved = archive(&["run", "--older-than", "1", "--json"]);
        moved.ends(0, json!({ "documents": 2, "conflicts": 1 }));
        let verify = archive(&["verify", "--json"]);
        verify.begins(1, json!({ "problem": "Refused", "collection": "sales", "_id": 2 }));
        verify.ends(1, json!({ "findings": 1 }));
        archive(&["repair", "--yes", "--json"]).ends(1, json!({ "repaired": 0, "unrepaired": 1 }));
        archived.delete_one(doc! { "_id": 9 }).await.unwrap();
        archive(&["verify"]).ok();
        archive(&["run", "--older-than", "1", "--json"]).ends(0, json!({ "documents": 1, "conflicts": 0 }));
    })
    .await;
}

#[tokio::test]
async fn steps_are_marked_and_unmarked_and_a_lease_is_released() {
    testkit::run(async |db| {
        let schema = |arguments: &[&str]| ran(on(db).env("USER", "ann").arg("schema").args(arguments));
        schema(&["mark", "a", "--yes"]).says(2, "has no list of steps `default`");
        let absent = |name: &str| ran(on(db).args(["--db", name, "schema", "mark", "a", "--yes"]));
        let typo = format!("{}x", db.database().name());
        absent(&typo).says(2, "the first start of a service");
        assert!(!db.client().list_database_names().await.unwrap().contains(&typo));
        let first = || Migrations::new(db.database()).step("first", async |_| Ok(()));
        first().run().await.unwrap();
        schema(&["mark", "a"]).says(2, "--yes");
        schema(&["mark", "a", "--yes", "--json"]).ends(0, json!({ "changed": true }));
        schema(&["mark", "a", "--yes", "--json"]).ends(0, json!({ "changed": false }));
        let service = || first().step("a", async |_| Ok(()));
        assert!(service().run().await.unwrap().steps.is_empty());
        schema(&["unmark", "a"]).says(2, "--yes");
        schema(&["unmark", "a", "--yes", "--json"]).ends(0, json!({ "changed": true }));
        schema(&["unmark", "a", "--yes", "--json"]).ends(0, json!({ "changed": false }));
        assert_eq!(service().run().await.unwrap().steps, ["a"]);
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let record = catalog.find_one(doc! { "_id.kind": "steps" }).await.unwrap().unwrap();
        let unmarked = record.get_array("unmarked").unwrap()[0].as_document().unwrap();
        assert!(unmarked.get_str("by").unwrap().starts_with("ann@"), "{record}");

        // An instance that is gone.
        let lease = Lease::new(db.database(), "steps/default").time_to_live(std::time::Duration::from_secs(3600));
        drop(lease.try_acquire().await.unwrap().unwrap());
        let refused = schema(&["mark", "b", "--yes"]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let mut release = named(&refused.err);
        assert_eq!(release, ["schema", "release-lease"]);
        schema(&["release-lease"]).says(2, "--yes");
        release.extend(["--yes", "--json"]);
        schema(&release[1..]).ends(0, json!({ "released": true }));
        schema(&release[1..]).ends(0, json!({ "released": false }));
        schema(&["mark", "b", "--yes", "--json"]).ends(0, json!({ "changed": true }));
        let lease = catalog.find_one(doc! { "_id.kind": "lease" }).await.unwrap().unwrap();
        assert!(
            lease
                .get_document("released")
                .unwrap()
                .get_str("by")
                .unwrap()
                .starts_with("ann@")
        );
        let record = catalog.find_one(doc! { "_id.kind": "steps" }).await.unwrap().unwrap();
        let last = record
            .get_array("steps")
            .unwrap()
            .last()
            .unwrap()
            .as_document()
            .unwrap();
        assert!(last.get_str("by").unwrap().starts_with("ann@"), "{record}");
    })
    .await;
}

#[tokio::test]
async fn a_filter_that_matches_nothing_or_is_refused_is_named() {
    testkit::run(async |db| {
        fill(db, 3, 30).await;
        insert(
            db,
            "books",
            (0..599).map(|id| doc! { "_id": id, "title": "x", "customers": [1] }),
        )
        .await;
        let books = ["--collection", "books", "--array", "customers"];
        let unknown = r#"{"titel": "x"}"#;
        let nothing = run(db, &books, &["outlier", "migrate", "--where", unknown]).ok();
        nothing.shows(["the filter matches 0 of 599 documents of books"]);
        let dry = run(
            db,
            &books,
            &["outlier", "migrate", "--dry-run", "--json", "--where", unknown],
        );
        assert_eq!(dry.lines("warning").len(), 1, "{dry:?}");
        let all = run(db, &books, &["outlier", "migrate", "--where", r#"{"title": "x"}"#]).ok();
        assert!(!all.out.contains("the filter"), "{all:?}");
        insert(db, "sales", [doc! { "_id": 1, "date": DateTime::from_millis(1) }]).await;
        let archive = |arguments: &[&str]| run(db, &SALES, &[&["archive"], arguments].concat());
        archive(&["indexes", "--create"]).ok();
        archive(&["run", "--older-than", "1"]).ok();
        let restored = archive(&["restore", "--where", r#"{"_di": 1}"#]).ok();
        restored.shows(["the filter matches 0 of 1 document of archived_sales"]);

        let wrong = r#"{"total": {"$eqq": 1}}"#;
        for refused in [
            run(db, &books, &["outlier", "migrate", "--where", wrong]),
            archive(&["restore", "--where", wrong]),
            bucket(db, &["migrate", "--where", wrong]),
        ] {
            refused.says(2, "the server refuses the filter of --where");
            refused.shows(["the server says: ", "$eqq"]);
            assert!(
                !refused.err.contains("$eqq") && !refused.err.contains("()"),
                "{refused:?}"
            );
        }
    })
    .await;
}

/// A server of another replica set is not one that is not running.
#[tokio::test]
async fn the_error_for_servers_has_no_types_of_the_driver() {
    testkit::run(async |db| {
        let uri = db.server().uri();
        let host = uri.split("//").nth(1).unwrap().split(['/', '?']).next().unwrap();
        for (uri, text) in [
            (
                format!("mongodb://{host}/?replicaSet=rsX&serverSelectionTimeoutMS=500"),
                "replicaSet",
            ),
            (
                "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200".to_owned(),
                "127.0.0.1:1: I/O error",
            ),
        ] {
            let refused = ran(program().env("MONGODB_URI", uri).args(["--db", "shop", "status"]));
            refused.says(3, text);
            for word in ["Topology", "labels", "Kind", "timeout: No available"] {
                assert!(!refused.err.contains(word), "{word}: {refused:?}");
            }
        }
    })
    .await;
}
