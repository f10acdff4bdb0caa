//! Tests of the history commands.

use mongo_patterns_core::Repository;
use mongo_patterns_history::HistoryRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use crate::support::*;

/// The settings of the manual's policies, as options.
const POLICIES: [&str; 8] =
    words("--collection currentPolicies --revisions-collection policyRevisions --id policyId --time dateSet");

fn history(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("history").args(POLICIES).args(arguments))
}

fn policies(db: &TestDatabase) -> HistoryRepository<Document> {
    let [current, revisions] = ["currentPolicies", "policyRevisions"].map(|name| db.plain_collection::<Document>(name));
    let builder = HistoryRepository::builder(current, revisions).id_field("policyId");
    builder.time_field("dateSet").build().unwrap()
}

/// Stores policy 1 with three revisions, a deleted policy "ann@example.org", and policy 2 with one.
async fn filled(db: &TestDatabase) -> HistoryRepository<Document> {
    let policies = policies(db);
    policies.ensure_indexes().await.unwrap();
    let first = doc! { "policyId": 1, "owner": { "name": "Michelle" }, "items": ["car"] };
    policies.insert(&first).await.unwrap();
    let push = doc! { "$push": { "items": "watch" } };
    policies.update(1, push).await.unwrap();
    let rename = doc! { "$set": { "owner.name": "Ann" }, "$unset": { "items": "" } };
    policies.update(1, rename).await.unwrap();
    let ann = doc! { "policyId": "ann@example.org", "a": "x\u{1b}[2J" };
    policies.insert(&ann).await.unwrap();
    policies.delete("ann@example.org").await.unwrap();
    policies.insert(&doc! { "policyId": 2 }).await.unwrap();
    policies
}

#[tokio::test]
async fn the_revisions_of_a_document_are_listed_shown_compared_and_analyzed() {
    testkit::run(async |db| {
        let policies = filled(db).await;
        let log = history(db, &["log", "1"]).ok();
        let lines: Vec<&str> = log.out.lines().map(str::trim_start).collect();
        assert!(
            lines[0].starts_with("3  2") && lines[2].starts_with("1  2"),
            "{}",
            log.out
        );
        let first = history(db, &["log", "1", "--limit", "2", "--json"]);
        assert_eq!(first.json()[1]["revision"], 2);
        first.ends(0, json!({ "more_with_before": "2" }));
        let rest = history(db, &["log", "1", "--before", "2", "--json"]);
        assert_eq!(rest.json().len(), 2);
        rest.begins(0, json!({ "revision": 1 }));
        let ann = history(db, &["log", "ann@example.org", "--json"]).json();
        assert_eq!([&ann[0]["deleted"], &ann[1]["deleted"]], [true, false]);
        let none = history(db, &["log", "77"]);
        assert!(none.code == Some(1) && !none.err.contains("77"), "{none:?}");

        history(db, &["show", "1"]).ok().shows(["name: \"Ann\""]);
        let second = history(db, &["show", "1@2", "--json"]).json().remove(0);
        assert_eq!(second["document"]["items"], json!(["car", "watch"]));
        history(db, &["show", "ann@example.org@1"]).shows(["// revision 1, 2", "\\u001b"]);
        history(db, &["show", "ann@example.org@2"]).shows(["deleted"]);
        for missing in ["1@9", "77", "ann@example.org"] {
            assert_eq!(history(db, &["show", missing]).code, Some(1), "{missing}");
        }
        let time = policies.at(1, 2).await.unwrap().unwrap().time;
        let as_of = ["show", "1", "--json", "--as-of", &time.try_to_rfc3339_string().unwrap()];
        assert_eq!(history(db, &as_of).json()[0]["revision"], 2);
        let before = history(db, &["show", "1", "--as-of", "2001-01-01T00:00:00Z"]);
        assert_eq!(before.code, Some(1), "{before:?}");
        refused(&history(db, &["show", "1", "--as-of", "yesterday"]), "--as-of");

        history(db, &["diff", "1", "2", "3"]).ok().shows([
            "owner.name: \"Michelle\" -> \"Ann\"",
            "items: [\"car\", \"watch\"] -> nothing",
        ]);
        let diff = history(db, &["diff", "1", "1", "2", "--json"]);
        diff.begins(0, json!({ "path": "items.1", "after": "watch" }));
        diff.ends(0, json!({ "changes": 1 }));
        assert_eq!(history(db, &["diff", "1", "1", "9"]).code, Some(1));

        let analyzed = history(db, &["analyze", "--json"]);
        let documents = json!({ "current_documents": 2, "documents_with_revisions": 3, "revisions": 6 });
        analyzed.ends(0, documents);
        analyzed.ends(0, json!({ "most_revisions_of_a_document": 3 }));
        let deletions = analyzed.lines("keep_last");
        assert_eq!([&deletions[0]["keep_last"], &deletions[0]["revisions"]], [1, 3]);
        assert_eq!(deletions[1]["revisions"], 0);
        history(db, &["analyze"]).shows(["--keep-last 10: deletes 0 revisions"]);
    })
    .await;
}

#[tokio::test]
async fn problems_are_found_and_repaired() {
    testkit::run(async |db| {
        filled(db).await;
        history(db, &["verify"]).ok();
        let current = db.plain_collection::<Document>("currentPolicies");
        let foreign = doc! { "$set": { "owner.name": "Bob" } };
        current.update_one(doc! { "policyId": 1 }, foreign).await.unwrap();
        current.delete_one(doc! { "policyId": 2 }).await.unwrap();
        let found = history(db, &["verify", "--json"]);
        found.ends(1, json!({ "findings": 2 }));
        let lines = found.lines("finding");
        for problem in ["Different", "CurrentMissing"] {
            assert!(lines.iter().any(|line| line["problem"] == problem), "{found:?}");
        }
        history(db, &["verify"]).shows(["`history repair` stores it"]);
        let before = all(db, "policyRevisions").await;
        assert_eq!(history(db, &["repair", "--dry-run"]).code, Some(1));
        assert_eq!(all(db, "policyRevisions").await, before);
        history(db, &["repair", "--json"]).ends(1, json!({ "repaired": 1, "unrepaired": 1 }));
        history(db, &["show", "1@4"]).shows(["\"Bob\""]);
    })
    .await;
}

#[tokio::test]
async fn the_pairs_of_the_manual_are_migrated() {
    testkit::run(async |db| {
        let revision = |id: i32, revision: i32| {
            doc! { "policyId": id, "revision": revision, "n": revision, "dateSet": DateTime::from_millis(i64::from(revision)) }
        };
        insert(db, "currentPolicies", [revision(1, 2), doc! { "policyId": 2, "n": 1 }]).await;
        history(db, &["plan"]).ok().shows(["store the missing copies"]);
        history(db, &["migrate", "--dry-run"]).ok();
        assert!(all(db, "policyRevisions").await.is_empty());
        // The manual's recipe can store a revision twice.
        insert(db, "policyRevisions", [revision(1, 1), revision(1, 2), revision(1, 2)]).await;
        history(db, &["migrate", "--json"]).ends(0, json!({ "documents": 1, "removed_duplicates": 1 }));
        history(db, &["verify"]).ok();
        // The catalog has the settings now.
        let short = ran(on(db).args(["history", "--collection", "currentPolicies", "log", "1", "--json"]));
        assert_eq!(short.json().len(), 3, "{short:?}");
        refused(&history(db, &["--revision", "number", "verify"]), "`revision`");
        profile(db, "policyRevisions").shows(["[[history]]\ncollection = \"currentPolicies\""]);
        history(db, &["indexes"]).ok().shows(["policyId_1_revision_1"]);
    })
    .await;
}

#[tokio::test]
async fn documents_by_id_are_migrated() {
    testkit::run(async |db| {
        let contracts = [doc! { "_id": 1, "name": "Ann" }, doc! { "_id": "x", "name": "Joe" }];
        insert(db, "contracts", contracts).await;
        let of = |arguments: &[&str]| {
            let names: [&str; 6] = words("--collection contracts --revisions-collection contractRevisions --id _id");
            ran(on(db).arg("history").args(names).args(arguments))
        };
        refused(&of(&["--document-id", "a.b", "plan"]), "--document-id");
        of(&["--document-id", "contract", "migrate", "--json"]).ends(0, json!({ "documents": 2 }));
        // The catalog has the settings now.
        let short = |arguments: &[&str]| ran(on(db).args(["history", "--collection", "contracts"]).args(arguments));
        short(&["verify"]).ok();
        assert_eq!(short(&["log", "x", "--json"]).json().len(), 2);
        let first = short(&["show", "x@1", "--json"]).json().remove(0);
        assert_eq!([&first["document"]["_id"], &first["document"]["name"]], ["x", "Joe"]);
        short(&["analyze", "--json"]).ends(0, json!({ "documents_with_revisions": 2, "revisions": 2 }));
        refused(&of(&["verify", "--document-id", "other"]), "`document_id`");
        insert(db, "currentPolicies", [doc! {}]).await;
        insert(db, "policyRevisions", [doc! {}]).await;
        let policies = history(db, &["--document-id", "x", "verify"]);
        assert!(
            policies.code != Some(0) && policies.err.contains("--document-id"),
            "{policies:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn embedded_versions_are_migrated() {
    testkit::run(async |db| {
        let version = |n: i32| doc! { "n": n, "dateSet": DateTime::from_millis(i64::from(n)) };
        let mut policy = doc! { "policyId": 1, "versions": [version(1), version(2)] };
        policy.extend(version(3));
        insert(db, "currentPolicies", [policy]).await;
        history(db, &["migrate", "--embedded-versions", "versions"]).ok();
        history(db, &["verify"]).ok();
        let first = history(db, &["show", "1@1", "--json"]).json().remove(0);
        assert_eq!(first["document"]["n"], 1);
    })
    .await;
}

#[tokio::test]
async fn missing_settings_are_named() {
    testkit::run(async |db| {
        let short = |arguments: &[&str]| ran(on(db).arg("history").args(arguments));
        refused(&short(&["verify"]), "--collection");
        insert(db, "a", [doc! {}]).await;
        insert(db, "b", [doc! {}]).await;
        refused(&short(&["verify", "--collection", "a"]), "--revisions-collection");
        short(&["verify", "--collection", "a", "--revisions-collection", "b"]).says(2, "--id");
        let same = ["--collection", "a", "--revisions-collection", "a", "--id", "i"];
        short(&[&["verify"], &same[..]].concat()).says(2, "same collection");
        refused(&history(db, &["--revision", "a.b", "verify"]), "--revision");
        refused(&history(db, &["log", "1"]), "there is no collection");
    })
    .await;
}
