//! Round trips, and examined keys and documents.

use mongo_patterns::pages::{DocumentToken, Pages};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::support::*;
use support::explain::{examined, explained, has_stage};

const ORDERS: i32 = 2000;
const LIMIT: u32 = 20;
const INDEX: &str = "tenant_1_rank_-1_total_1__id_1";

fn orders(id: impl Fn(i32) -> Bson) -> impl Iterator<Item = Document> {
    (0..ORDERS).map(move |n| doc! { "_id": id(n), "tenant": n % 2, "rank": n % 10, "total": n % 70, "n": n })
}

/// Checks the command of a page, which has been read.
async fn check(db: &TestDatabase, keys: i64, context: &str) {
    assert_eq!(db.recorder().names(), ["find"], "{context}");
    let plan = explained(db, &db.recorder().last().unwrap()).await;
    let examined = examined(&plan);
    assert_eq!((examined.keys, examined.documents), (keys, keys), "{context}");
    assert_eq!(examined.index, INDEX, "{context}");
    assert!(!has_stage(&plan, "SORT"), "{context}: {plan}");
    db.recorder().clear();
}

/// Returns the token after this number of documents.
async fn token(db: &TestDatabase, pages: &Pages<Document>, documents: u32) -> DocumentToken {
    let page = pages.list().limit(documents).page().await.unwrap();
    db.recorder().clear();
    page.next.unwrap()
}

#[tokio::test]
async fn a_page_is_one_round_trip_and_examines_one_key_more_than_it_has() {
    testkit::run(async |db| {
        plant(db, orders(Bson::from)).await;
        for sort in [doc! { "rank": -1, "total": 1 }, doc! { "rank": 1, "total": -1 }] {
            let pages = ready(db, doc! { "tenant": 1 }, sort).await;
            let keys = i64::from(LIMIT) + 1;
            let page = pages.list().limit(LIMIT).page().await.unwrap();
            assert_eq!(page.items.len(), LIMIT as usize);
            check(db, keys, "first").await;
            for position in [20, 400, 900] {
                let token = token(db, &pages, position).await;
                let after = pages.list().limit(LIMIT).after(token.clone()).page().await.unwrap();
                assert_eq!(after.items.len(), LIMIT as usize);
                check(db, keys, &format!("after {position}")).await;
                let before = pages.list().limit(LIMIT).before(token).page().await.unwrap();
                assert_eq!(before.items.len(), (LIMIT as usize).min(position as usize - 1));
                check(db, keys.min(i64::from(position) - 1), &format!("before {position}")).await;
            }
        }
        // Both have one index.
        let indexes = stored(db).list_index_names().await.unwrap();
        assert_eq!(indexes, ["_id_", INDEX]);
        // One batch has a page of any size.
        let pages = ready(db, doc! {}, doc! { "rank": 1 }).await;
        let orders = ORDERS as u32;
        for limit in [101, 102, orders - 1, orders, u32::MAX] {
            let page = pages.list().limit(limit).page().await.unwrap();
            assert_eq!(page.items.len(), orders.min(limit) as usize);
            assert_eq!(page.next.is_none(), limit >= orders);
            assert_eq!(db.recorder().names(), ["find"], "{limit}");
            db.recorder().clear();
        }
    })
    .await;
}

/// Above a double there is no adjacent value that BSON has.
#[tokio::test]
async fn after_an_id_of_another_type_a_page_examines_one_more() {
    testkit::run(async |db| {
        plant(db, orders(|n| (f64::from(n) + 0.5).into())).await;
        let pages = ready(db, doc! { "tenant": 1 }, doc! { "rank": -1, "total": 1 }).await;
        let token = token(db, &pages, 400).await;
        let page = pages.list().limit(LIMIT).after(token.clone()).page().await.unwrap();
        assert_eq!(page.items.len(), LIMIT as usize);
        check(db, i64::from(LIMIT) + 2, "after").await;
        pages.list().limit(LIMIT).before(token).page().await.unwrap();
        check(db, i64::from(LIMIT) + 1, "before").await;
    })
    .await;
}

#[tokio::test]
async fn the_rest_of_the_filter_is_checked_between_the_bounds() {
    testkit::run(async |db| {
        plant(db, orders(Bson::from)).await;
        let filter = doc! { "tenant": 1, "n": { "$lt": ORDERS / 2 } };
        let pages = ready(db, filter, doc! { "rank": -1, "total": 1 }).await;
        let token = token(db, &pages, 100).await;
        pages.list().limit(LIMIT).after(token).page().await.unwrap();
        let plan = explained(db, &db.recorder().last().unwrap()).await;
        let examined = examined(&plan);
        // Of the 28 orders with one rank and total, the second half does not match.
        assert!((21..=100).contains(&examined.keys), "{examined:?}");
        assert!(!has_stage(&plan, "SORT"));
    })
    .await;
}

#[tokio::test]
async fn the_index_is_ensured_by_three_commands_and_created_once() {
    testkit::run(async |db| {
        let pages = pages(db, doc! { "tenant": 7 }, doc! { "rank": -1, "total": 1 });
        assert_eq!(
            pages.index().to_string(),
            r#"db.getCollection("orders").createIndex({ "tenant": 1, "rank": -1, "total": 1, "_id": 1 }, { "name": "tenant_1_rank_-1_total_1__id_1" })"#
        );
        let ensured = pages.ensure_index().await.unwrap();
        assert_eq!(ensured.created, [INDEX]);
        assert_eq!(db.recorder().names(), ["listCollections", "listIndexes", "createIndexes", "explain"]);
        db.recorder().clear();
        let ensured = pages.ensure_index().await.unwrap();
        assert_eq!(ensured.existing, [INDEX]);
        assert_eq!(db.recorder().names(), ["listCollections", "listIndexes", "explain"]);
        // The index of `_id` exists always.
        let by_id = super::support::pages(db, doc! {}, doc! { "_id": -1 });
        assert_eq!(by_id.ensure_index().await.unwrap().existing, ["_id_"]);
        stored(db).drop().await.unwrap();
        assert_eq!(by_id.ensure_index().await.unwrap().created, ["_id_"]);
    })
    .await;
}
