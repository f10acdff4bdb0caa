//! Tests of the history commands.

use mongo_patterns_core::Repository;
use mongo_patterns_history::HistoryRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use crate::support::*;

/// The settings of the manual's policies, as options.
const POLICIES: [&str; 8] = [
    "--collection",
    "currentPolicies",
    "--revisions-collection",
    "policyRevisions",
    "--id",
    "policyId",
    "--time",
    "dateSet",
];

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
    policies
        .insert(&doc! { "policyId": 1, "owner": { "name": "Michelle" }, "items": ["car"] })
        .await
        .unwrap();
    policies
        .update(1, doc! { "$push": { "items": "watch" } })
        .await
        .unwrap();
    let rename = doc! { "$set": { "owner.name": "Ann" }, "$unset": { "items": "" } };
    policies.update(1, rename).await.unwrap();
    let ann = doc! { "policyId": "ann@example.org", "a": "x\u{1b}[2J" };
    policies.insert(&ann).await.unwrap();
    policies.delete("ann@example.org").await.unwrap();
    policies.insert(&doc! { "policyId": 2 }).await.unwrap();
    policies
}

#[tokio::test]
async fn the_revisions_of_a_document_are_listed_shown_and_compared() {
    testkit::run(async |db| {
        let policies = filled(db).await;
        let log = history(db, &["log", "1"]);
        assert_eq!(log.code, Some(0), "{log:?}");
        let lines: Vec<&str> = log.out.lines().map(str::trim_start).collect();
        assert!(
            lines[0].starts_with("3  2") && lines[2].starts_with("1  2"),
            "{}",
            log.out
        );
        let first = history(db, &["log", "1", "--limit", "2", "--json"]);
        assert_eq!(
            (
                first.json()[1]["revision"].clone(),
                first.summary()["more_with_before"].clone()
            ),
            (2.into(), "2".into())
        );
        let rest = history(db, &["log", "1", "--before", "2", "--json"]);
        assert_eq!((rest.json().len(), &rest.json()[0]["revision"]), (2, &1.into()));
        let ann = history(db, &["log", "ann@example.org", "--json"]).json();
        assert_eq!((&ann[0]["deleted"], &ann[1]["deleted"]), (&true.into(), &false.into()));
        let none = history(db, &["log", "77"]);
        assert!(none.code == Some(1) && !none.err.contains("77"), "{none:?}");

        let now = history(db, &["show", "1"]);
        assert!(now.code == Some(0) && now.out.contains("name: \"Ann\""), "{now:?}");
        let second = history(db, &["show", "1@2", "--json"]).json().remove(0);
        assert_eq!(second["document"]["items"], serde_json::json!(["car", "watch"]));
        let text = history(db, &["show", "ann@example.org@1"]);
        assert!(
            text.out.contains("// revision 1, 2") && text.out.contains("\\u001b"),
            "{text:?}"
        );
        assert!(history(db, &["show", "ann@example.org@2"]).out.contains("deleted"));
        for missing in ["1@9", "77", "ann@example.org"] {
            assert_eq!(history(db, &["show", missing]).code, Some(1), "{missing}");
        }
        let time = policies.at(1, 2).await.unwrap().unwrap().time;
        let as_of = ["show", "1", "--json", "--as-of", &time.try_to_rfc3339_string().unwrap()];
        assert_eq!(history(db, &as_of).json()[0]["revision"], 2);
        assert_eq!(
            history(db, &["show", "1", "--as-of", "2001-01-01T00:00:00Z"]).code,
            Some(1)
        );
        refused(&history(db, &["show", "1", "--as-of", "yesterday"]), "--as-of");

        let diff = history(db, &["diff", "1", "2", "3"]);
        assert_eq!(diff.code, Some(0), "{diff:?}");
        assert!(diff.out.contains("owner.name: \"Michelle\" -> \"Ann\""), "{}", diff.out);
        assert!(
            diff.out.contains("items: [\"car\", \"watch\"] -> nothing"),
            "{}",
            diff.out
        );
        let diff = history(db, &["diff", "1", "1", "2", "--json"]);
        assert_eq!(
            (&diff.json()[0]["path"], &diff.json()[0]["after"]),
            (&"items.1".into(), &"watch".into())
        );
        assert_eq!(diff.summary()["changes"], 1);
        assert_eq!(history(db, &["diff", "1", "1", "9"]).code, Some(1));
    })
    .await;
}

#[tokio::test]
async fn problems_are_found_and_repaired() {
    testkit::run(async |db| {
        filled(db).await;
        assert_eq!(history(db, &["verify"]).code, Some(0));
        let current = db.plain_collection::<Document>("currentPolicies");
        let foreign = doc! { "$set": { "owner.name": "Bob" } };
        current.update_one(doc! { "policyId": 1 }, foreign).await.unwrap();
        current.delete_one(doc! { "policyId": 2 }).await.unwrap();
        let found = history(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.summary()["findings"]),
            (Some(1), &2.into()),
            "{found:?}"
        );
        let problems: Vec<String> = found
            .json()
            .iter()
            .filter_map(|line| Some(line["problem"].as_str()?.to_owned()))
            .collect();
        assert!(problems.contains(&"Different".to_owned()) && problems.contains(&"CurrentMissing".to_owned()));
        let text = history(db, &["verify"]);
        assert!(text.out.contains("`history repair` stores it"), "{}", text.out);
        let before = all(db, "policyRevisions").await;
        assert_eq!(history(db, &["repair", "--dry-run"]).code, Some(1));
        assert_eq!(all(db, "policyRevisions").await, before);
        let repaired = history(db, &["repair", "--json"]);
        assert_eq!(
            (
                repaired.code,
                &repaired.summary()["repaired"],
                &repaired.summary()["unrepaired"]
            ),
            (Some(1), &1.into(), &1.into()),
            "{repaired:?}"
        );
        let shown = history(db, &["show", "1@4"]);
        assert!(shown.out.contains("\"Bob\""), "{shown:?}");
    })
    .await;
}

#[tokio::test]
async fn the_pairs_of_the_manual_are_migrated() {
    testkit::run(async |db| {
        let revision = |id: i32, revision: i32| {
            doc! { "policyId": id, "revision": revision, "n": revision, "dateSet": DateTime::from_millis(i64::from(revision)) }
        };
        let current = db.plain_collection::<Document>("currentPolicies");
        current.insert_many([revision(1, 2), doc! { "policyId": 2, "n": 1 }]).await.unwrap();
        let planned = history(db, &["plan"]);
        assert_eq!(planned.code, Some(0), "{planned:?}");
        assert!(planned.out.contains("store the missing copies"), "{}", planned.out);
        assert_eq!(history(db, &["migrate", "--dry-run"]).code, Some(0));
        assert!(all(db, "policyRevisions").await.is_empty());
        // The manual's recipe can store a revision twice.
        db.plain_collection::<Document>("policyRevisions")
            .insert_many([revision(1, 1), revision(1, 2), revision(1, 2)])
            .await
            .unwrap();
        let migrated = history(db, &["migrate", "--json"]);
        let summary = migrated.summary();
        assert_eq!(
            (migrated.code, &summary["numbered"], &summary["removed_duplicates"]),
            (Some(0), &1.into(), &1.into()),
            "{migrated:?}"
        );
        assert_eq!(history(db, &["verify"]).code, Some(0));
        // The catalog has the settings now.
        let short = ran(on(db).args(["history", "--collection", "currentPolicies", "log", "1", "--json"]));
        assert_eq!(short.json().len(), 3, "{short:?}");
        refused(&history(db, &["--revision", "number", "verify"]), "`revision`");
        let profile = ran(on(db).args(["init", "policyRevisions", "--out", "-"]));
        assert!(profile.out.contains("[history]\ncollection = \"currentPolicies\""), "{}", profile.out);
        let indexes = history(db, &["indexes"]);
        assert!(indexes.code == Some(0) && indexes.out.contains("policyId_1_revision_1"), "{indexes:?}");
    })
    .await;
}

#[tokio::test]
async fn documents_by_id_are_migrated() {
    testkit::run(async |db| {
        let contracts = db.plain_collection::<Document>("contracts");
        contracts
            .insert_many([doc! { "_id": 1, "name": "Ann" }, doc! { "_id": "x", "name": "Joe" }])
            .await
            .unwrap();
        let of = |arguments: &[&str]| {
            let settings = [
                "--collection",
                "contracts",
                "--revisions-collection",
                "contractRevisions",
                "--id",
                "_id",
            ];
            ran(on(db).arg("history").args(settings).args(arguments))
        };
        refused(&of(&["--document-id", "a.b", "plan"]), "--document-id");
        let migrated = of(&["--document-id", "contract", "migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["numbered"]),
            (Some(0), &2.into()),
            "{migrated:?}"
        );
        // The catalog has the settings now.
        let short = |arguments: &[&str]| ran(on(db).args(["history", "--collection", "contracts"]).args(arguments));
        assert_eq!(short(&["verify"]).code, Some(0));
        assert_eq!(short(&["log", "x", "--json"]).json().len(), 2);
        let first = short(&["show", "x@1", "--json"]).json().remove(0);
        assert_eq!(
            (&first["document"]["_id"], &first["document"]["name"]),
            (&"x".into(), &"Joe".into())
        );
        let analyzed = short(&["analyze", "--json"]).summary();
        assert_eq!(
            (&analyzed["documents_with_revisions"], &analyzed["revisions"]),
            (&2.into(), &2.into())
        );
        refused(&of(&["verify", "--document-id", "other"]), "`document_id`");
        let policies = ran(on(db)
            .args(["history", "--document-id", "x"])
            .args(POLICIES)
            .arg("verify"));
        assert!(
            policies.code != Some(0) && policies.err.contains("document_id_field"),
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
        db.plain_collection::<Document>("currentPolicies")
            .insert_one(policy)
            .await
            .unwrap();
        assert_eq!(
            history(db, &["migrate", "--embedded-versions", "versions"]).code,
            Some(0)
        );
        assert_eq!(history(db, &["verify"]).code, Some(0));
        let first = history(db, &["show", "1@1", "--json"]).json().remove(0);
        assert_eq!(first["document"]["n"], 1);
    })
    .await;
}

#[tokio::test]
async fn an_analysis_shows_what_a_prune_would_delete() {
    testkit::run(async |db| {
        filled(db).await;
        let analyzed = history(db, &["analyze", "--json"]);
        assert_eq!(analyzed.code, Some(0), "{analyzed:?}");
        let summary = analyzed.summary();
        assert_eq!(
            (
                &summary["current_documents"],
                &summary["documents_with_revisions"],
                &summary["revisions"]
            ),
            (&2.into(), &3.into(), &6.into())
        );
        assert_eq!(summary["most_revisions_of_a_document"], 3);
        let lines = analyzed.lines("prune");
        assert_eq!((&lines[0]["keep_last"], &lines[0]["revisions"]), (&1.into(), &3.into()));
        assert_eq!(lines[1]["revisions"], 0);
        assert!(
            history(db, &["analyze"])
                .out
                .contains("keep_last(10): deletes 0 revisions")
        );
    })
    .await;
}

#[tokio::test]
async fn missing_settings_are_named() {
    testkit::run(async |db| {
        let short = |arguments: &[&str]| ran(on(db).arg("history").args(arguments));
        refused(&short(&["verify"]), "--collection");
        refused(&short(&["verify", "--collection", "a"]), "--revisions-collection");
        refused(
            &short(&["verify", "--collection", "a", "--revisions-collection", "b"]),
            "--id",
        );
        refused(
            &short(&[
                "verify",
                "--collection",
                "a",
                "--revisions-collection",
                "a",
                "--id",
                "i",
            ]),
            "same collection",
        );
        refused(&history(db, &["--revision", "a.b", "verify"]), "--revision");
        refused(&history(db, &["log", "1"]), "there is no collection");
    })
    .await;
}
