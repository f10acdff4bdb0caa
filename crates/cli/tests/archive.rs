//! Tests of the archive.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use crate::support::*;

const SETTINGS: [&str; 8] = words("archive --collection sales --archive archived_sales --age date --json");

/// Returns a time some days ago.
fn days_ago(days: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - days * 24 * 60 * 60 * 1000)
}

#[tokio::test]
async fn documents_move_there_and_back() {
    testkit::run(there_and_back).await;
}

async fn there_and_back(db: &TestDatabase) {
    let [sales, archived] = ["sales", "archived_sales"].map(|name| db.collection::<Document>(name));
    let sale = |id: i32| doc! { "_id": id, "date": days_ago(i64::from(id) * 100 + 50) };
    sales.insert_many((0..8).map(sale)).await.unwrap();
    let archive = |arguments: &[&str]| ran(on(db).args(SETTINGS).args(arguments));
    let old = ["--older-than", "300"];
    let of = |verb: &'static str| [&[verb][..], &old].concat();

    // The catalog and the indexes come first.
    archive(&of("run")).says(2, "indexes --create");
    archive(&["indexes", "--create"]).ok();

    let status = ran(on(db).args(["status", "--json"])).ok().lines("managed").remove(0);
    assert_eq!(status["collections"][0]["documents"], 8, "{status}");
    assert!(status["oldest"].as_str().unwrap().contains('T'), "{status}");
    archive(&[&of("run")[..], &["--dry-run"]].concat()).ends(0, json!({ "documents": 5 }));
    // The documents to keep are a setting.
    let keep = ["--keep", r#"{"_id": 7}"#];
    archive(&[&of("run")[..], &keep].concat()).says(2, "`keep`");
    archive(&[&["indexes", "--create", "--replace-settings"][..], &keep].concat()).ok();
    let other = ["--keep", r#"{"_id": 6}"#];
    archive(&[&of("run")[..], &other].concat()).says(2, "`keep`");
    archive(&[&["delete", "--older-than", "1", "--yes"][..], &other].concat()).says(2, "`keep`");
    // What is not given is that of the catalog, and so are all settings but the collection.
    let short = ran(on(db)
        .args(["archive", "--collection", "sales", "--json"])
        .args(of("run"))
        .arg("--dry-run"));
    assert_eq!(short.summary()["documents"], 4, "{short:?}");
    archive(&["indexes", "--create", "--replace-settings", "--keep", ""]).ok();
    archive(&of("plan")).ok().shows(["archived_sales"]);
    assert_eq!(archived.count_documents(doc! {}).await.unwrap(), 0);
    let run = archive(&[&of("run")[..], &["--chunk", "2"]].concat());
    assert_eq!(run.summary()["documents"], 5, "{run:?}");
    assert_eq!(archived.count_documents(doc! {}).await.unwrap(), 5);

    sales.insert_one(sale(3)).await.unwrap();
    let verify = archive(&["verify"]);
    verify.ends(1, json!({ "findings": 1 }));
    assert_eq!(verify.json()[0]["problem"], "InBoth");
    assert_eq!(archive(&of("run")).summary()["conflicts"], 1);
    let replaced = archive(&[&of("run")[..], &["--replace-archived"]].concat());
    assert_eq!(replaced.summary()["documents"], 1);

    let mut text = on(db);
    text.args(&SETTINGS[..SETTINGS.len() - 1])
        .args(["restore", "--where", r#"{"_di": 1}"#]);
    ran(&mut text)
        .ok()
        .shows(["the filter matches 0 of 5 documents of archived_sales"]);
    let restored = archive(&["restore", "--where", r#"{"_id": {"$lt": 5}}"#]);
    assert_eq!(restored.summary()["documents"], 2, "{restored:?}");
    archive(&["delete", "--older-than", "600"]).says(2, "pass --yes");
    let deleted = archive(&["delete", "--older-than", "600", "--yes"]);
    assert_eq!(deleted.summary()["documents"], 2, "{deleted:?}");
    assert_eq!(archived.count_documents(doc! {}).await.unwrap(), 1);
}

/// A policy moves with its revisions, and old revisions move by themselves. A plan warns of a follower.
#[tokio::test]
async fn related_documents_and_old_revisions_move() {
    testkit::run(async |db: &TestDatabase| {
        let [current, revisions] = ["policies", "revisions"].map(|name| db.collection::<Document>(name));
        let policy = |id: &str, policy: i32, days: i64| doc! { "_id": id, "policyId": policy, "date": days_ago(days) };
        let stored = [("a", 1, 500), ("b", 1, 450), ("c", 2, 600), ("d", 2, 5)];
        let stored = stored.map(|(id, of, days)| policy(id, of, days));
        revisions.insert_many(&stored).await.unwrap();
        current.insert_many(&stored[..1]).await.unwrap();
        current.insert_many(&stored[3..]).await.unwrap();
        let run = |settings: &[&str], verb: &[&str]| {
            let common = ["archive", "--age", "date", "--json"];
            ran(on(db).args(common).args(settings).args(verb))
        };
        let old = ["run", "--older-than", "300"];
        let of_revisions: [&str; 6] = words("--collection revisions --archive archived --keep-newest-by policyId");
        run(&of_revisions, &["indexes", "--create"]).ok();
        let moved = run(&of_revisions, &old);
        moved.ends(0, json!({ "documents": 1, "related": 0 }));
        assert!(moved.summary()["bytes"].as_u64().unwrap() > 0 && moved.summary()["oldest"].is_string());
        run(&of_revisions[..2], &["run", "--older-than", "300", "--dry-run"]).ends(0, json!({ "documents": 0 }));
        let other = run(&[&of_revisions[..4], &["--keep-newest-by", "other"]].concat(), &old);
        refused(&other, "`keep_newest_by`");

        let of_policies: [&str; 10] = words(
            "--collection policies --archive archived_policies --id policyId \
        --related revisions archived_revisions policyId",
        );
        run(&of_policies, &["indexes", "--create"]).ok();
        let follower = doc! { "_id": { "kind": "follower", "name": "copies" }, "watched": ["policies"] };
        db.collection("mongo_patterns").insert_one(follower).await.unwrap();
        let plan = run(&of_policies, &["plan", "--older-than", "300"]);
        let lines = plan.json();
        let warning = lines.iter().find(|line| line["type"] == "warning").unwrap();
        assert!(warning["text"].as_str().unwrap().contains("`copies`"), "{plan:?}");
        run(&of_policies, &old).ends(0, json!({ "documents": 1, "related": 1 }));
        run(&of_policies, &["verify"]).ok();
        // The catalog has the related collections.
        let current = run(&of_policies[..2], &["run", "--older-than", "1000"]);
        current.ends(0, json!({ "documents": 0, "related": 0 }));
        for wrong in [
            &["--related", "revisions", "archived_revisions"][..],
            &["--related", "a", "a", "b"],
        ] {
            let refused = run(&[&of_policies[..4], wrong].concat(), &["verify"]);
            assert_eq!(refused.code, Some(2), "{refused:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn wrong_options_are_refused() {
    testkit::run(async |db: &TestDatabase| {
        insert(db, "sales", [doc! { "_id": 1 }]).await;
        let archive = |arguments: &[&str]| ran(on(db).args(SETTINGS).args(arguments));
        for arguments in [
            &["run"][..],
            &["restore"],
            &["run", "--older-than", "-1"],
            &["run", "--older-than", "1", "--rate", "0"],
            &["run", "--older-than", "1", "--keep", "secret"],
            &["run", "--older-than", "1", "--keep", "{}"],
            &["run", "--older-than", "1", "--archive-uri", "mongodb://ann:secret@/"],
        ] {
            let refused = archive(arguments);
            assert_eq!(refused.code, Some(2), "{arguments:?} {refused:?}");
            assert!(!refused.err.contains("secret"), "{refused:?}");
        }
        for (collection, archive, age, text) in [
            ("sales", "sales", "date", "use a second one"),
            ("sales", "archived_sales", "a.b", "a.b"),
            ("salse", "archived_sales", "date", "salse"),
        ] {
            let names = ["--collection", collection, "--archive", archive, "--age", age];
            ran(on(db).arg("archive").args(names).arg("verify")).says(2, text);
        }
    })
    .await;
}

#[tokio::test]
async fn an_age_without_dates_is_refused() {
    testkit::run(async |db: &TestDatabase| {
        insert(db, "sales", [doc! { "_id": 1, "date": "yesterday" }, doc! { "_id": 2 }]).await;
        let archive = |arguments: &[&str]| ran(on(db).args(SETTINGS).args(arguments));
        let none = "no document of a sample of 2 documents has a date in `date`";
        refused(&archive(&["indexes", "--create"]), none);
        let keep = [
            "indexes",
            "--create",
            "--replace-settings",
            "--keep",
            r#"{"total": {"$eqq": 1}}"#,
        ];
        refused(&archive(&keep), "--keep: the server refuses the filter");
        assert!(all(db, "mongo_patterns").await.is_empty());
        archive(&["indexes", "--create", "--replace-settings"]).ok();
        archive(&["indexes", "--create"]).ok();
        for verb in ["run", "plan"] {
            let warned = archive(&[verb, "--older-than", "1"]);
            warned.begins(
                0,
                json!({ "type": "warning", "text": "0 of 2 documents have a date in `date`" }),
            );
        }
        update(
            db,
            "sales",
            doc! { "_id": 2 },
            doc! { "$set": { "date": DateTime::now() } },
        )
        .await;
        archive(&["run", "--older-than", "1"]).begins(0, json!({ "type": "summary", "documents": 0 }));
    })
    .await;
}
