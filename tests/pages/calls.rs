//! Sessions, read preferences, time limits, and types.

use mongo_patterns::ErrorKind;
use mongo_patterns::pages::Pages;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{CollectionOptions, ReadPreference, SelectionCriteria};
use serde::Deserialize;

use super::support::*;
use support::common::assert_names;

/// A document whose rank changes between two pages is on both, except in a session of one moment.
#[tokio::test]
async fn pages_are_those_of_the_callers_transaction_or_snapshot() {
    testkit::run(async |db| {
        plant(db, (0..6).map(|n| doc! { "_id": n, "rank": n })).await;
        let pages = ready(db, doc! {}, doc! { "rank": 1 }).await;
        let orders = db.collection::<Document>("orders");
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let inserted = doc! { "_id": 10, "rank": 2 };
        orders.insert_one(inserted).session(&mut session).await.unwrap();
        let first = pages.list().limit(3).session(&mut session).page().await.unwrap();
        let second = pages.list().limit(3).after(first.next);
        let second = second.session(&mut session).page().await.unwrap();
        assert_eq!(ids(&first.items), [0, 1, 2].map(Bson::from));
        assert_eq!(ids(&second.items), [10, 3, 4].map(Bson::from));
        session.abort_transaction().await.unwrap();
        assert_eq!(forward(&pages, 3).await.0.len(), 6);

        let mut snapshot = db.client().start_session().snapshot(true).await.unwrap();
        let first = pages.list().limit(3).session(&mut snapshot).page().await.unwrap();
        let last = doc! { "$set": { "rank": 9 } };
        stored(db).update_one(doc! { "_id": 0 }, last).await.unwrap();
        let rest = pages.list().after(first.next.clone());
        let rest = rest.session(&mut snapshot).page().await.unwrap();
        assert_eq!(ids(&rest.items), [3, 4, 5].map(Bson::from));
        let rest = pages.list().after(first.next).page().await.unwrap();
        assert_eq!(ids(&rest.items), [3, 4, 5, 0].map(Bson::from));
    })
    .await;
}

#[tokio::test]
async fn a_page_has_the_read_preference_of_the_collection() {
    testkit::run(async |db| {
        let secondary = SelectionCriteria::ReadPreference(ReadPreference::SecondaryPreferred { options: None });
        let options = CollectionOptions::builder().selection_criteria(secondary).build();
        let orders = db.database().collection_with_options::<Document>("orders", options);
        let pages = Pages::<Document>::over(orders).build().unwrap();
        pages.ensure_index().await.unwrap();
        pages.list().page().await.unwrap();
        let sent = db.recorder().last().unwrap().command;
        let preference = sent.get_document("$readPreference").unwrap();
        assert_eq!(preference.get_str("mode").ok(), Some("secondaryPreferred"));
    })
    .await;
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    rank: i32,
}

#[tokio::test]
async fn documents_are_decoded() {
    testkit::run(async |db| {
        let orders = Pages::<Order>::over(stored(db)).sort(doc! { "rank": 1 });
        let orders = orders.build().unwrap();
        orders.ensure_index().await.unwrap();
        assert!(orders.list().page().await.unwrap().items.is_empty());
        plant(db, [doc! { "_id": 7, "rank": 1 }, doc! { "_id": 8, "rank": "two" }]).await;
        let page = orders.list().limit(1).page().await.unwrap();
        assert_eq!(page.items, [Order { id: 7, rank: 1 }]);
        let refused = orders.clone().list().after(page.next).page().await.unwrap_err();
        assert_names(&refused, ErrorKind::Decode, 8);
        assert_eq!((refused.pattern(), refused.operation()), (Some("pages"), Some("list")));
    })
    .await;
}
