//! Inserts of many documents with the copies of their sources.

use futures::future::{join, join_all};
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, contents};
use support::reference::*;

#[tokio::test]
async fn many_documents_get_their_copies_in_five_round_trips() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.update_source(1, rename("Bea")).await.unwrap();
        db.recorder().clear();
        let many: Vec<Document> = (0..150).map(|id| order(id, 1 + id % 2)).collect();
        let inserted = orders.insert_many(&many).await.unwrap();
        assert_eq!(names(db), "update update find insert commitTransaction");
        let ids: Vec<Bson> = inserted.into_iter().map(|inserted| inserted.id).collect();
        assert_eq!(ids, (0..150).map(Bson::from).collect::<Vec<_>>());
        assert_eq!(assert_current(db, &orders).await, 150);
        let customers = all(&customers(db)).await;
        assert!(
            customers
                .iter()
                .all(|customer| !customer.contains_key("mongo_patterns_held"))
        );
        // Without references there is nothing to lock.
        db.recorder().clear();
        let plain = [doc! { "total": 1 }, doc! { "customer": null }];
        let inserted = orders.insert_many(&plain).await.unwrap();
        assert_eq!(names(db), "insert commitTransaction");
        let first = orders.get(inserted[0].id.clone()).await.unwrap().unwrap();
        assert_eq!(first.get("total"), Some(&1.into()));
        assert_eq!(orders.insert_many(&[]).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_refused_document_stores_none() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = contents(db).await;
        for (last, kind) in [
            (order(7, 1), ErrorKind::AlreadyExists),
            (order(1_i64, 2), ErrorKind::AlreadyExists),
            (order(9, 77), ErrorKind::NotFound),
            (doc! { "_id": 9, "customer": 1 }, ErrorKind::InvalidArgument),
            (doc! { "_id": [9] }, ErrorKind::InvalidArgument),
            (doc! { "_id": 9, "t": "x".repeat(16 << 20) }, ErrorKind::TooLarge),
        ] {
            let refused = orders.insert_many(&[order(1, 1), last]).await.unwrap_err();
            assert_eq!((refused.kind(), refused.stored_count()), (kind, None), "{refused}");
            assert_eq!(contents(db).await, before);
        }
    })
    .await;
}

/// Inserts, updates and deletions of the same sources by several processes.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn the_copies_are_current_beside_updates_and_deletions() {
    testkit::run(async |db| {
        let processes = processes(db, 3).await;
        add_customers(db, 1..=3).await;
        let inserts = processes.iter().zip(0..).map(|(orders, process)| async move {
            for n in 0..12 {
                let first = process * 1000 + n * 10;
                let batch: Vec<Document> = (0..5).map(|n| order(first + n, 1 + n % 3)).collect();
                match orders.insert_many(&batch).await {
                    Ok(inserted) => assert_eq!(inserted.len(), 5),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
        });
        let updates = async {
            for n in 0..20 {
                let name = n.to_string();
                let [first, second] = [1, 2].map(|id| processes[0].update_source(id, rename(&name)));
                let (first, second) = join(first.into_future(), second.into_future()).await;
                first.and(second).unwrap();
                // Refused as long as there are orders of the customer.
                if let Err(error) = processes[1].delete_source(3).await {
                    assert_eq!(error.kind(), ErrorKind::Referenced, "{error}");
                }
            }
        };
        join(join_all(inserts), updates).await;
        assert_current(db, &processes[0]).await;
        let stored = stored(db).count_documents(doc! {}).await.unwrap();
        assert_eq!(stored % 5, 0);
    })
    .await;
}
