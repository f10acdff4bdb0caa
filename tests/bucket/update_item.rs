//! Updates of fields of single items, by their ids.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};
use tokio::sync::watch;

use support::bucket::collected;
use support::common::{at, explain_last};

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
            let set = doc! { "state": "sent", "by": "$id", "date": later };
            let unset = |fields| orders.update_item(&CUSTOMER, id, doc! { "$set": set.clone(), "$unset": fields });
            assert!(unset(doc! { "draft": "" }).await.unwrap().modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert_eq!(explain_last(db).await.documents, 1);
            assert!(!unset(doc! { "draft": "", "never": "" }).await.unwrap().modified);
            let expected = doc! { "id": id, "state": "sent", "date": later, "by": "$id" };
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(expected));
        }
        let items = collected(orders.items(&CUSTOMER).stream()).await;
        let ids = items.iter().map(|item| item.get_i64("id").unwrap());
        assert!(ids.eq(0..10), "each is at its position");
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
        for (update, kind) in [
            (doc! { "state": "sent" }, ErrorKind::InvalidArgument),
            (doc! { "$set": { "id": 1 } }, ErrorKind::InvalidArgument),
            (doc! { "$unset": { "id": "" } }, ErrorKind::InvalidArgument),
            (doc! { "$inc": { "id.x": 1 } }, ErrorKind::InvalidArgument),
            (doc! { "$set": { "date": "today" } }, ErrorKind::InvalidTime),
            (doc! { "$set": { "date": early } }, ErrorKind::InvalidTime),
            (doc! { "$set": { "date.x": early } }, ErrorKind::InvalidTime),
            (doc! { "$min": { "date": early } }, ErrorKind::InvalidTime),
            (doc! { "$max": { "date": "z" } }, ErrorKind::InvalidTime),
            (doc! { "$inc": { "date": 1 } }, ErrorKind::InvalidTime),
            (doc! { "$unset": { "date": "" } }, ErrorKind::InvalidTime),
            (doc! { "$push": { "date": early } }, ErrorKind::InvalidTime),
            (
                doc! { "$currentDate": { "date": { "$type": "timestamp" } } },
                ErrorKind::InvalidTime,
            ),
        ] {
            let error = orders.update_item(&CUSTOMER, 1, update.clone()).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{update}: {error}");
        }
        let sent = doc! { "$set": { "state": "sent" } };
        let error = orders.update_item(&CUSTOMER, 1, vec![sent.clone()]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(db.recorder().round_trips(), 0);
        for (customer, id) in [(CUSTOMER, Bson::from(4)), (CUSTOMER, "1".into()), (12, 1.into())] {
            db.recorder().clear();
            let error = orders.update_item(&customer, id, sent.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert_eq!(db.recorder().names(), ["update", "find"]);
        }
        let error = orders.update_item(&CUSTOMER, 1.5, sent).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidItemId);
        for id in 0..4 {
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(order(id)));
        }
    })
    .await;
}

#[tokio::test]
async fn operators_of_times_change_one_item_and_those_that_do_not_suit_nothing() {
    testkit::run(async |db| {
        let orders = filled(db, 10).await;
        let (early, late) = (at(1_698_335_000), at(1_800_000_000));
        let min = doc! { "$min": { "date": early }, "$inc": { "changes": 1_i64 } };
        assert!(orders.update_item(&CUSTOMER, 4, min).await.unwrap().modified);
        let mut expected = order(4);
        expected.extend(doc! { "date": early, "changes": 1_i64 });
        assert_eq!(orders.item(&CUSTOMER, 4).await.unwrap(), Some(expected));
        for update in [
            doc! { "$max": { "date": late } },
            doc! { "$currentDate": { "date": { "$type": "date" } } },
            doc! { "$currentDate": { "date": true } },
        ] {
            orders.update_item(&CUSTOMER, 4, update).await.unwrap();
            let item = orders.item(&CUSTOMER, 4).await.unwrap().unwrap();
            assert!(item.get_datetime("date").unwrap() >= &early, "{item}");
        }
        for update in [
            doc! { "$inc": { "state": 1 } },
            doc! { "$push": { "state": "secret" } },
            doc! { "$set": { "state.secret": 1 } },
        ] {
            let error = orders.update_item(&CUSTOMER, 4, update.clone()).await.unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::InvalidArgument,
                "{update}: {:?}",
                error.as_driver_error()
            );
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        for id in (0..10).filter(|id| *id != 4) {
            assert_eq!(orders.item(&CUSTOMER, id).await.unwrap(), Some(order(id)));
        }
    })
    .await;
}

/// Another process removes items, so that all later ones move up to earlier pages, which the server may have
/// passed already.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_item_that_moves_up_is_always_found() {
    testkit::run(async |db| {
        const ITEMS: i64 = 30;
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
                    let change = doc! { "$set": { "changes": changes } };
                    ours.update_item(&CUSTOMER, id, change).await.unwrap();
                    ours.replace_item(&CUSTOMER, &order(id)).await.unwrap();
                }
                changes += 1;
            }
        }
        remover.await.unwrap();
        assert_eq!(ours.newest(&CUSTOMER, 10).await.unwrap().len(), 3);
    })
    .await;
}
