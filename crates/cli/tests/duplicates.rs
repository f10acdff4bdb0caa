//! Documents that no unique index accepts: the commands name them, and lead to them.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use crate::support::*;

async fn insert(db: &TestDatabase, collection: &str, documents: [Document; 2]) -> [String; 2] {
    let ids = [ObjectId::new(), ObjectId::new()];
    let documents = documents.into_iter().zip(ids).map(|(mut document, id)| {
        document.insert("_id", id);
        document
    });
    db.plain_collection::<Document>(collection)
        .insert_many(documents)
        .await
        .unwrap();
    ids.map(ObjectId::to_hex)
}

/// Checks that `verify` names both documents, and that the error of the call that needs the index leads to it.
fn check(run: &dyn Fn(&[&str]) -> Ran, migrate: &[&str], ids: &[String; 2], problem: &str) {
    let migrated = run(migrate);
    assert_eq!(migrated.code, Some(1), "{migrated:?}");
    assert!(
        migrated.err.contains("run `verify`, which names them"),
        "{}",
        migrated.err
    );
    let found = run(&["verify"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(ids.iter().all(|id| found.out.contains(id)), "{}", found.out);
    assert!(found.err.contains("indexes --create"), "{}", found.err);
    let found = run(&["verify", "--json"]);
    let lines = found.json();
    assert_eq!(lines[0]["problem"], problem, "{found:?}");
    let named = lines[0]["document_ids"].as_array().unwrap();
    let named: Vec<&str> = named.iter().map(|id| id["$oid"].as_str().unwrap()).collect();
    assert_eq!(named, ids.each_ref(), "{found:?}");
}

#[tokio::test]
async fn children_with_one_id_are_named() {
    testkit::run(async |db| {
        let review = |date: i32| doc! { "product_id": 1, "review_id": 1, "date": date };
        db.plain_collection::<Document>("product")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let ids = insert(db, "review", [review(1), review(2)]).await;
        let run = |arguments: &[&str]| ran(on(db).arg("subset").args(REVIEWS).args(arguments));
        check(&run, &["migrate", "--from", "collection"], &ids, "DuplicateChildId");
    })
    .await;
}

#[tokio::test]
async fn documents_with_one_id_are_named() {
    testkit::run(async |db| {
        let ids = insert(db, "h", [doc! { "k": 1, "a": 1 }, doc! { "k": 1, "a": 2 }]).await;
        let settings = [
            "history",
            "--collection",
            "h",
            "--revisions-collection",
            "hr",
            "--id",
            "k",
        ];
        let run = |arguments: &[&str]| ran(on(db).args(settings).args(arguments));
        check(&run, &["migrate"], &ids, "DuplicateId");
    })
    .await;
}
