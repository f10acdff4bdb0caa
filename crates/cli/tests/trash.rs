//! Tests of the trash.

use std::time::Duration;

use mongo_patterns_archive::Trash;
use mongo_patterns_core::Repository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};

use crate::support::*;

fn of_users(db: &TestDatabase) -> Trash<Document> {
    let [users, deleted] = ["users", "deleted_users"].map(|name| db.collection::<Document>(name));
    let trash = Trash::builder(users, deleted).related(db.collection::<Document>("notes"), "user");
    trash
        .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
        .build()
        .unwrap()
}

/// Runs a command with the settings of the catalog.
fn trash(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db)
        .args(["trash", "--collection", "users", "--json"])
        .args(arguments))
}

#[tokio::test]
async fn deleted_documents_are_listed_restored_and_deleted_for_good() {
    testkit::run(async |db| {
        insert(db, "users", (0..5).map(|id| doc! { "_id": id, "name": "x\u{1b}" })).await;
        insert(db, "notes", [doc! { "_id": 9, "user": 1 }]).await;
        let missing = trash(db, &["list"]);
        missing.says(2, "--trash is missing");
        let users = of_users(db);
        users.ensure_indexes().await.unwrap();
        for id in 0..4 {
            users.delete(id).by("ann").await.unwrap();
        }
        let first = trash(db, &["list", "--limit", "3"]);
        first.begins(0, json!({ "_id": 3, "deleted_by": "ann", "collection": "users" }));
        let token = first.summary()["more_with_after"].as_str().unwrap().to_owned();
        let rest = trash(db, &["list", "--after", &token]);
        rest.begins(0, json!({ "_id": 0 }));
        rest.ends(0, json!({ "entries": 1 }));
        trash(db, &["restore", "1"]).ends(0, json!({ "restored": 1 }));
        assert_eq!((all(db, "users").await.len(), all(db, "notes").await.len()), (2, 1));
        trash(db, &["restore", "1"]).ends(0, json!({ "restored": 0, "already_there": true }));
        assert_eq!(trash(db, &["restore", "77"]).code, Some(1));

        let entries = db.plain_collection::<Document>("deleted_users");
        let old = doc! { "$set": { "deletedAt": DateTime::from_millis(0) } };
        entries.update_one(doc! { "document._id": 0 }, old).await.unwrap();
        let empty = ["empty", "--older-than", "10"];
        trash(db, &[&empty[..], &["--dry-run"]].concat()).ends(0, json!({ "documents": 1 }));
        trash(db, &empty).says(2, "--yes");
        assert_eq!(all(db, "deleted_users").await.len(), 3);
        trash(db, &[&empty[..], &["--yes"]].concat()).ends(0, json!({ "documents": 1 }));
        assert_eq!(all(db, "deleted_users").await.len(), 2);
        trash(db, &["verify"]).ok();
        trash(db, &["indexes"]).ok();
        trash(db, &["--expires-after-ms", "1", "verify"]).says(2, "expires_after_ms");
    })
    .await;
}

#[tokio::test]
async fn entries_that_cannot_be_restored_are_found() {
    testkit::run(async |db| {
        insert(db, "users", (0..3).map(|id| doc! { "_id": id })).await;
        insert(db, "notes", (0..6).map(|id| doc! { "_id": id, "user": id % 3 })).await;
        let users = of_users(db);
        users.ensure_indexes().await.unwrap();
        for id in 0..3 {
            users.delete(id).await.unwrap();
        }
        trash(db, &["verify"]).ends(0, json!({ "findings": 0 }));
        let entries = db.plain_collection::<Document>("deleted_users");
        let id = async |filter: Document| {
            let found = entries.find_one(filter).await.unwrap().unwrap();
            found.get_object_id("_id").unwrap()
        };
        let first = id(doc! { "document._id": 0, "of": { "$exists": false } }).await;
        entries.delete_one(doc! { "of": first }).await.unwrap();
        entries
            .delete_one(doc! { "document._id": 1, "of": { "$exists": false } })
            .await
            .unwrap();
        let now = DateTime::now();
        let wrong = [
            doc! { "_id": ObjectId::new(), "deletedAt": now },
            doc! { "_id": ObjectId::new(), "document": { "_id": 7 }, "deletedAt": "now" },
            doc! { "_id": ObjectId::new(), "document": { "a": 7 }, "deletedAt": now },
            // The server deletes it.
            doc! { "_id": ObjectId::new(), "deletedAt": now, "expiresAt": DateTime::from_millis(0) },
        ];
        insert(db, "deleted_users", wrong).await;
        let found = trash(db, &["verify"]);
        let mut problems: Vec<_> = found
            .lines("finding")
            .into_iter()
            .map(|line| line["problem"].clone())
            .collect();
        problems.sort_by_key(ToString::to_string);
        let expected = [
            "Incomplete",
            "NoDocument",
            "NoId",
            "NoTime",
            "WithoutDocument",
            "WithoutDocument",
        ];
        assert_eq!(problems, expected.map(|problem| json!(problem)), "{found:?}");
        let text = ran(on(db).args(["trash", "--collection", "users", "verify"]));
        text.shows(["1 of 2 related documents are left"]);
    })
    .await;
}
