//! Documents that no unique index accepts: the commands name them, and lead to them.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use crate::support::*;

async fn insert_two(db: &TestDatabase, collection: &str, documents: [Document; 2]) -> [String; 2] {
    let ids = [ObjectId::new(), ObjectId::new()];
    let documents = documents.into_iter().zip(ids).map(|(mut document, id)| {
        document.insert("_id", id);
        document
    });
    insert(db, collection, documents).await;
    ids.map(ObjectId::to_hex)
}

/// Checks that `verify` names both documents, and that the error of the call that needs the index leads to it.
fn check(run: &dyn Fn(&[&str]) -> Ran, migrate: &[&str], ids: &[String; 2], problem: &str) {
    let migrated = run(migrate);
    migrated.says(1, "verify`, which names them");
    let found = run(&["verify"]);
    found.says(1, "indexes --create");
    found.shows(ids.each_ref().map(String::as_str));
    let ids = ids.each_ref().map(|id| json!({ "$oid": id }));
    run(&["verify", "--json"]).begins(1, json!({ "problem": problem, "document_ids": ids }));
}

#[tokio::test]
async fn children_and_documents_with_one_id_are_named() {
    testkit::run(async |db| {
        let review = |date: i32| doc! { "product_id": 1, "review_id": 1, "date": date };
        insert(db, "product", [doc! { "_id": 1 }]).await;
        let ids = insert_two(db, "review", [review(1), review(2)]).await;
        let run = |arguments: &[&str]| ran(on(db).arg("subset").args(REVIEWS).args(arguments));
        check(&run, &["migrate", "--from", "collection"], &ids, "DuplicateChildId");

        let ids = insert_two(db, "h", [doc! { "k": 1, "a": 1 }, doc! { "k": 1, "a": 2 }]).await;
        let settings: [&str; 7] = words("history --collection h --revisions-collection hr --id k");
        let run = |arguments: &[&str]| ran(on(db).args(settings).args(arguments));
        check(&run, &["migrate"], &ids, "DuplicateId");
    })
    .await;
}
