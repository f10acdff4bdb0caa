//! Documents of which another pattern has parts in a second collection: an archive and a trash do not leave these behind.

use mongo_patterns::ErrorKind::SettingsMismatch;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::{Error, Remedy, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::repositories::{One, archive, list, of, references, subset, trash};
use support::archive::sales::{AGE, old};
use support::common::{all, contents};

/// A pattern of the orders, the second collection with its parts, and the call that deletes an order with them.
fn patterns(db: &TestDatabase) -> [(One, &'static str, &'static str); 2] {
    let children = subset(db, "notes").build().unwrap();
    [
        (Box::new(list(db, "lines", "has_extras")), "more_lines", "delete(..)"),
        (Box::new(children), "notes", "delete_parent(..)"),
    ]
}

#[track_caller]
fn assert_refused(error: &Error, words: &[&str]) {
    assert_eq!(
        (error.kind(), error.remedy()),
        (SettingsMismatch, Some(Remedy::CheckSettings)),
        "{error}"
    );
    for word in words {
        assert!(error.to_string().contains(word), "no {word} in: {error}");
    }
}

fn archive_with(db: &TestDatabase, related: &str) -> Archive<Document> {
    let archive = Archive::builder(of(db, "orders"), of(db, "old_orders"))
        .age_field("at")
        .older_than(AGE);
    archive
        .related(of(db, related), of(db, "old_parts"), "order")
        .build()
        .unwrap()
}

fn trash_with(db: &TestDatabase, related: &str) -> Trash<Document> {
    let trash = Trash::builder(of(db, "orders"), of(db, "deleted_orders"));
    trash.related(of(db, related), "order").build().unwrap()
}

/// In each order of the set-ups, in one process.
#[tokio::test]
async fn documents_move_and_are_deleted_with_their_parts_only() {
    testkit::run(async |db| {
        for (pattern, second, call) in patterns(db) {
            for is_first in [true, false] {
                db.plain_client().database(db.database().name()).drop().await.unwrap();
                let orders = db.plain_collection::<Document>("orders");
                orders.insert_one(doc! { "_id": 1, "at": old(1) }).await.unwrap();
                let (archive, trash) = (
                    archive(db, "orders", "old_orders"),
                    trash(db, "orders", "deleted_orders"),
                );
                trash.ensure_indexes().await.unwrap();
                if is_first {
                    pattern.ensure_indexes().await.unwrap();
                    let refused = archive.ensure_indexes().await.unwrap_err();
                    assert_refused(&refused, &[second, "related(..)", "nothing was moved"]);
                } else {
                    archive.ensure_indexes().await.unwrap();
                    assert_eq!(archive.run().plan().await.unwrap().migrated.documents, 1);
                    pattern.ensure_indexes().await.unwrap();
                }
                let before = contents(db).await;
                assert_eq!(archive.run().await.unwrap_err().kind(), SettingsMismatch);
                assert_eq!(
                    archive.restore_many(doc! {}).await.unwrap_err().kind(),
                    SettingsMismatch
                );
                let refused = trash.delete(1).await.unwrap_err();
                assert_refused(
                    &refused,
                    &[pattern.pattern(), call, "through(..)", "nothing was deleted"],
                );
                let mut session = db.client().start_session().await.unwrap();
                session.start_transaction().await.unwrap();
                let refused = trash.delete(1).session(&mut session).await.unwrap_err();
                assert_refused(&refused, &[call]);
                session.commit_transaction().await.unwrap();
                assert_eq!(contents(db).await, before);

                let (archive, trash) = (archive_with(db, second), trash_with(db, second));
                archive.ensure_indexes().replace_settings().await.unwrap();
                trash.ensure_indexes().replace_settings().await.unwrap();
                assert!(trash.delete(1).await.unwrap().found);
                trash.restore(1).await.unwrap();
                assert_eq!(archive.run().await.unwrap().documents, 1);
                assert_eq!(archive.restore_many(doc! {}).await.unwrap().documents, 1);
                // Another collection is none of its parts.
                let other = trash_with(db, "other");
                assert_refused(&other.delete(1).await.unwrap_err(), &[call]);
            }
        }
    })
    .await;
}

/// Orders that refer to a customer are no parts of it: a customer can be archived, and is deleted by its references.
#[tokio::test]
async fn sources_can_be_archived_and_are_deleted_by_their_references() {
    testkit::run(async |db| {
        let orders = references(db, "customer");
        orders.ensure_indexes().await.unwrap();
        let customers = db.plain_collection::<Document>("customers");
        let documents = (1..=2).map(|id| doc! { "_id": id, "name": "Ann", "at": old(1) });
        customers.insert_many(documents).await.unwrap();
        orders
            .insert(&doc! { "_id": 7, "customer": { "_id": 1 } })
            .await
            .unwrap();
        let (archive, trash) = (
            archive(db, "customers", "old_customers"),
            trash(db, "customers", "deleted"),
        );
        archive.ensure_indexes().await.unwrap();
        trash.ensure_indexes().await.unwrap();
        for id in 1..=2 {
            let refused = trash.delete(id).await.unwrap_err();
            assert_refused(&refused, &["reference pattern", "delete_source(..)", "through(..)"]);
        }
        assert_eq!(archive.run().await.unwrap().documents, 2);
        // The order keeps its copy.
        let order = all(&db.plain_collection("orders")).await.remove(0);
        assert_eq!(order.get_document("customer").unwrap().get_str("name").unwrap(), "Ann");
        archive.restore_many(doc! {}).await.unwrap();
        assert_eq!(
            orders
                .update_source(1, doc! { "$set": { "name": "Bea" } })
                .await
                .unwrap()
                .copies,
            1
        );
    })
    .await;
}
