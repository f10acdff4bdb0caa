//! Orders and archived orders that refer to suppliers, which are renamed and deleted while an archive moves the orders.

use mongo_patterns::ErrorKind::Referenced;
use mongo_patterns::Repository;
use mongo_patterns::reference::{Reference, ReferenceRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use super::repositories::{archive, of};
use super::suppliers::{count, suppliers};
use support::common::{patient, until_blocked};

const ORDERS: i32 = 20;

fn references(db: &TestDatabase, [first, second]: [&str; 2]) -> ReferenceRepository<Document, Document> {
    let references = ReferenceRepository::builder(of(db, first), of(db, "suppliers")).reference_field("supplier");
    let further = Reference::new("supplier").copied_fields(["name"]);
    let references = references
        .copied_fields(["name"])
        .add_referring(of(db, second), further);
    references.retry(patient()).build().unwrap()
}

/// Whichever of the two collections is the first.
#[tokio::test]
async fn copies_are_current_and_no_source_is_missed_while_documents_move() {
    for order in [["orders", "old_orders"], ["old_orders", "orders"]] {
        testkit::run(async |db| {
            let suppliers_of = references(db, order);
            suppliers_of.ensure_indexes().await.unwrap();
            let archive = archive(db, "orders", "old_orders");
            archive.ensure_indexes().await.unwrap();
            suppliers(db)
                .insert_one(doc! { "_id": 1, "name": "Ann" })
                .await
                .unwrap();
            let old = DateTime::from_millis(0);
            let orders =
                (0..ORDERS).map(|id| doc! { "_id": id, "at": old, "supplier": { "_id": 1, "name": "Ann", "v": 0 } });
            of(db, "orders").insert_many(orders).await.unwrap();
            let mut moved = 0;
            for round in 0..20 {
                let name = format!("name {round}");
                let rename = suppliers_of.update_source(1, doc! { "$set": { "name": &name } });
                let moves = async {
                    match round % 2 {
                        0 => archive.run().chunk(5).await.unwrap().documents,
                        _ => archive.restore_many(doc! {}).chunk(5).await.unwrap().documents,
                    }
                };
                let deletion = suppliers_of.delete_source(1);
                let (renamed, documents, deleted) = futures::join!(rename.into_future(), moves, deletion.into_future());
                renamed.unwrap();
                assert_eq!(deleted.unwrap_err().kind(), Referenced, "{order:?}, round {round}");
                moved += documents;
                let current = doc! { "supplier.name": &name };
                let found = count(db, "orders", current.clone()).await + count(db, "old_orders", current).await;
                assert_eq!(found, ORDERS as u64, "{order:?}, round {round}");
            }
            assert_eq!(moved, 20 * ORDERS as u64);
        })
        .await;
    }
}

/// Another client holds the first archived order, so the update of the archived copies waits while the second one is restored.
#[tokio::test]
async fn a_copy_that_moves_to_a_collection_that_was_swept_is_current() {
    testkit::run(async |db| {
        let suppliers_of = references(db, ["orders", "old_orders"]);
        suppliers_of.ensure_indexes().await.unwrap();
        let archive = archive(db, "orders", "old_orders");
        archive.ensure_indexes().await.unwrap();
        suppliers(db)
            .insert_one(doc! { "_id": 1, "name": "Ann" })
            .await
            .unwrap();
        let archived = db.plain_collection::<Document>("old_orders");
        let copy = doc! { "_id": 1, "name": "Ann", "v": 0 };
        let orders = [0, 1].map(|id| doc! { "_id": id, "at": DateTime::from_millis(0), "supplier": &copy });
        archived.insert_many(orders).await.unwrap();
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let hold = archived.update_one(doc! { "_id": 0 }, doc! { "$set": { "held": true } });
        hold.session(&mut session).await.unwrap();
        let rename = suppliers_of.update_source(1, doc! { "$set": { "name": "Bea" } });
        let moves = async {
            until_blocked(db, doc! { "op": "update" }).await;
            archive.restore(1).await.unwrap();
            session.abort_transaction().await.unwrap();
        };
        let (renamed, ()) = futures::join!(rename.into_future(), moves);
        assert_eq!(renamed.unwrap().copies, 2);
        let current = doc! { "supplier.name": "Bea" };
        assert_eq!(count(db, "orders", current.clone()).await, 1);
        assert_eq!(count(db, "old_orders", current).await, 1);
    })
    .await;
}
