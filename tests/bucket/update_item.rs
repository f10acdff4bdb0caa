//! Updates of fields of single items, by their ids.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};
use tokio::sync::watch;

use crate::common::support::{at, explain_last};

type Orders = BucketRepository<u32, Document>;

const CUSTOMER: u32 = 123;

fn orders(collection: Collection<Document>) -> Orders {
    Orders::builder(collection)
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("id")
        .page_size(3)
        .build()
        .unwrap()
}

fn order(id: i64) -> Document {
    doc! { "id": id, "state": "new", "draft": true, "date": at(1_698_335_223 + id) }
}

/// Orders 0 to `count`.
async fn filled(db: &TestDatabase, count: i64) -> Orders {
    let orders = orders(db.collection("orders"));
    orders.ensure_indexes().await.unwrap();
    let items: Vec<Document> = (0..count).map(order).collect();
    orders.append_many(&CUSTOMER, &items).await.unwrap();
    db.recorder().clear();
    orders
}

#[tokio::test]
async fn fields_of_one_item_are_changed_and_nothing_else() {
    testkit::run(async |db| {
        let orders = filled(db, 10).await;
        for id in [0_i64, 4, 9] {
            db.recorder().clear();
            let later = at(1_800_000_000);
            let update = || orders.update_item(&CUSTOMER, id, doc! { "state": "sent", "by": "$id", "date": later });
            assert!(update().unset(["draft"]).await.unwrap().modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert_eq!(explain_last(db).await.documents, 1);
            assert!(!update().unset(["draft", "never"]).await.unwrap().modified);
            let expected = doc! { "id": id, "state": "sent", "date": later, "by": "$id" };
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(expected));
        }
        let stored = orders.pages(&CUSTOMER).limit(100).await.unwrap();
        let ids: Vec<Bson> = stored
            .pages
            .iter()
            .flat_map(|page| &page.items)
            .map(|item| item["id"].clone())
            .collect();
        assert_eq!(
            ids,
            (0..10).map(Bson::Int64).collect::<Vec<_>>(),
            "each is at its position"
        );
        for id in [1, 2, 3, 5, 6, 7, 8] {
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(order(id)));
        }
    })
    .await;
}

#[tokio::test]
async fn an_invalid_update_is_refused_and_changes_nothing() {
    testkit::run(async |db| {
        let orders = filled(db, 4).await;
        let early = DateTime::from_millis(-1000);
        for (set, unset, kind) in [
            (doc! {}, &[][..], ErrorKind::InvalidArgument),
            (doc! { "a.b": 1 }, &[], ErrorKind::InvalidArgument),
            (doc! { "$inc": { "state": 1 } }, &[], ErrorKind::InvalidArgument),
            (doc! { "id": 1 }, &[], ErrorKind::InvalidArgument),
            (doc! {}, &["id"], ErrorKind::InvalidArgument),
            (doc! { "state": 1 }, &["state"], ErrorKind::InvalidArgument),
            (doc! { "date": "today" }, &[], ErrorKind::InvalidTime),
            (doc! { "date": early }, &[], ErrorKind::InvalidTime),
            (doc! {}, &["date"], ErrorKind::InvalidTime),
        ] {
            let update = orders
                .update_item(&CUSTOMER, 1, set.clone())
                .unset(unset.iter().copied());
            let error = update.await.unwrap_err();
            assert_eq!(error.kind(), kind, "{set} {unset:?}: {error}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        for (customer, id) in [(CUSTOMER, Bson::from(4)), (CUSTOMER, "1".into()), (12, 1.into())] {
            db.recorder().clear();
            let error = orders
                .update_item(&customer, id, doc! { "state": "sent" })
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert_eq!(db.recorder().names(), ["update", "find"]);
        }
        let error = orders
            .update_item(&CUSTOMER, 1.5, doc! { "state": "sent" })
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidItemId);
        for id in 0..4 {
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(order(id)));
        }
    })
    .await;
}

#[tokio::test]
async fn fields_that_several_writers_change_are_all_changed() {
    testkit::run(async |db| {
        let orders = filled(db, 10).await;
        let writers = (0..32).map(|writer| {
            let orders = orders.clone();
            async move {
                let set = doc! { format!("by{writer}"): writer };
                orders.update_item(&CUSTOMER, 4, set).await.unwrap();
            }
        });
        join_all(writers).await;
        let mut expected = order(4);
        expected.extend((0..32).map(|writer| (format!("by{writer}"), Bson::from(writer))));
        assert_eq!(orders.item(&CUSTOMER, 4).await.unwrap(), Some(expected));
    })
    .await;
}

/// Another process removes items, so that all later ones move up to earlier pages, which the server may have
/// passed already.
#[tokio::test]
async fn an_item_that_moves_up_is_always_found() {
    testkit::run(async |db| {
        const ITEMS: i64 = 60;
        let ours = filled(db, ITEMS).await;
        let theirs = orders(db.plain_collection("orders"));
        let (done, mut removed) = watch::channel(0);
        let remover = tokio::spawn(async move {
            for id in 0..ITEMS - 3 {
                assert!(theirs.remove_item(&CUSTOMER, id).await.unwrap().found);
                done.send_replace(id);
            }
        });
        let mut changes = 0;
        // Updates without a pause would let no transaction of the other process commit.
        while removed.changed().await.is_ok() {
            for _ in 0..5 {
                for id in ITEMS - 3..ITEMS {
                    ours.update_item(&CUSTOMER, id, doc! { "changes": changes })
                        .await
                        .unwrap();
                    ours.replace_item(&CUSTOMER, &order(id)).await.unwrap();
                }
                changes += 1;
            }
        }
        remover.await.unwrap();
        let left: Vec<Document> = ours.newest(&CUSTOMER, 10).await.unwrap();
        assert_eq!(left.len(), 3);
        println!("{changes} rounds beside {} removals", ITEMS - 3);
    })
    .await;
}
